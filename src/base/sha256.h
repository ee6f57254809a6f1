#pragma once

#include <string>
#include <string_view>

namespace autotriton {

/// Returns the SHA-256 digest (FIPS 180-4) of `bytes` as 64 lower-case hexadecimal digits.
std::string sha256_hex(std::string_view bytes);

}  // namespace autotriton
