#include "server/bearer_key.h"

#include <algorithm>
#include <cctype>

#include "base/sha256.h"

namespace autotriton::server {

BearerKey::BearerKey(std::string_view key) : digest_(key.empty() ? std::string() : sha256_hex(key)) {}

bool BearerKey::admits(std::string_view authorization) const {
  if (!required()) return true;
  constexpr std::string_view kScheme = "bearer ";  // Its name may be written in any case (RFC 9110, 11.1).
  const std::string_view scheme = authorization.substr(0, kScheme.size());
  const bool bearer = std::equal(scheme.begin(), scheme.end(), kScheme.begin(), kScheme.end(), [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) == static_cast<unsigned char>(b);
  });
  const std::string shown = sha256_hex(bearer ? authorization.substr(kScheme.size()) : std::string_view());
  unsigned difference = bearer ? 0 : 1;
  for (std::size_t i = 0; i < digest_.size(); ++i) {
    difference |= static_cast<unsigned char>(digest_[i]) ^ static_cast<unsigned char>(shown[i]);
  }
  return difference == 0;
}

}  // namespace autotriton::server
