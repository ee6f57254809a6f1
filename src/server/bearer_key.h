#pragma once

#include <string>
#include <string_view>

namespace autotriton::server {

/// A secret that clients show as `Authorization: Bearer KEY`. Only its digest is kept, and comparing takes the same
/// time whatever is shown.
class BearerKey {
 public:
  /// An empty key lets everyone in.
  explicit BearerKey(std::string_view key);

  bool required() const { return !digest_.empty(); }
  /// `authorization` is the header's value, empty if there is none.
  bool admits(std::string_view authorization) const;

 private:
  std::string digest_;
};

}  // namespace autotriton::server
