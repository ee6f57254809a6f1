#pragma once

#include <cstdint>

/// The folder of a job that has no mounts of its own: it lies beside others on a real disk, and what is in it was made
/// by code that nobody trusts. For the Python fork server as well, through ctypes.
extern "C" {

/// Bytes on disk below `path`, and how many files and folders. A tree deeper than 32 folders or with more than 100,000
/// entries counts as endless (the largest number). Follows no link.
void autotriton_folder_use(const char* path, std::uint64_t* bytes, std::uint64_t* entries);

/// Removes `path` and all below it, however deep and whatever its modes; nothing outside, for links are not followed.
/// Returns 0 if it is gone.
int autotriton_remove_folder(const char* path);
}
