#pragma once

#include <optional>
#include <string_view>

/// What a model wrote, out of the texts that trainers send.
namespace autotriton::reward {

/// Some trainers send prompt and answer as one text, made by decoding tokens: blanks may have moved, special tokens may
/// stand before it, a long prompt may have lost its start. Returns what follows the prompt; empty if the prompt is not
/// there. That must not be guessed: code in a prompt, such as a worked example, would pass as the model's.
std::optional<std::string_view> strip_prompt(std::string_view query, std::string_view prompt);

/// Without the special tokens that end it, such as `<|im_end|>` or `</s>`, and the blanks round them.
std::string_view strip_end_tokens(std::string_view answer);

}  // namespace autotriton::reward
