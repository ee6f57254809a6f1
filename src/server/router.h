#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/http.h"

namespace autotriton::server {

/// Called from the server's thread, which every connection waits for: start the work, and answer from elsewhere if it
/// takes more than a moment. A UserError that leaves it becomes a 400, anything else a 500.
using Handler = std::function<void(const Request&, const Reply&)>;

/// Which handler answers which path.
///
///     router.add("GET", "/results/{id}", handler);   // request.parameters["id"]
class Router {
 public:
  struct Match {
    const Handler* handler = nullptr;  ///< Null: `allowed` says whether the path is known.
    std::string pattern;               ///< "" if no pattern has this path; for metrics and logs.
    TextMap parameters;
    std::string allowed;  ///< Methods that the path has, for a 405; empty if it has none.
  };

  /// A part `{name}` matches one part of a path that is not empty. Throws InvariantError for a route that is there.
  void add(std::string method, std::string pattern, Handler handler);

  /// HEAD is answered by the handler of GET.
  Match find(std::string_view method, std::string_view path) const;

 private:
  struct Route {
    std::string method;
    std::string pattern;
    std::vector<std::string> parts;
    Handler handler;
  };
  std::vector<Route> routes_;
};

/// Undoes %XX (and `+` as a blank, if told so). Empty if an escape is broken or makes a NUL.
std::optional<std::string> percent_decode(std::string_view text, bool plus_is_blank);

/// "a=1&b=two%20words". Empty if it cannot be decoded.
std::optional<TextMap> parse_query(std::string_view text);

}  // namespace autotriton::server
