#pragma once

#include <string_view>

/// The few names outside the file that change what another name means. What they compute is the rules' business.
namespace autotriton::syntax {

bool is_builtin(std::string_view name);
/// The module that an attribute or import of this name leads to wherever it stands (sys, os, torch, …); empty for
/// others.
std::string_view module_seen_through(std::string_view name);
/// triton.jit under any of its paths: what it wraps becomes a jit function.
bool is_jit_decorator(std::string_view name);
/// Calling it returns its first argument, or something that stands for it: functools.partial, torch.no_grad,
/// triton.autotune(…).
bool passes_through(std::string_view name);
/// Calling it returns such a wrapper: triton.autotune(configs, key).
bool makes_wrapper(std::string_view name);
/// Its result holds what it was given: nn.ModuleList, nn.Sequential, list, dict, zip.
bool holds_its_arguments(std::string_view name);

}  // namespace autotriton::syntax
