#include "server/router.h"

#include "base/error.h"

namespace autotriton::server {
namespace {

std::vector<std::string> split(std::string_view text, char at) {
  std::vector<std::string> parts;
  for (;;) {
    const auto end = text.find(at);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

bool is_parameter(const std::string& part) { return part.size() > 2 && part.front() == '{' && part.back() == '}'; }

std::optional<TextMap> match(const std::vector<std::string>& pattern, const std::vector<std::string>& parts) {
  if (pattern.size() != parts.size()) return std::nullopt;
  TextMap parameters;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto decoded = percent_decode(parts[i], false);
    if (!decoded) return std::nullopt;
    if (!is_parameter(pattern[i])) {
      if (*decoded != pattern[i]) return std::nullopt;
    } else {
      if (decoded->empty()) return std::nullopt;
      parameters[pattern[i].substr(1, pattern[i].size() - 2)] = *decoded;
    }
  }
  return parameters;
}

int hex_digit(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
  return -1;
}

}  // namespace

void Router::add(std::string method, std::string pattern, Handler handler) {
  for (const Route& route : routes_) {
    check(route.method != method || route.pattern != pattern, "the route " + method + " " + pattern + " is there");
  }
  auto parts = split(pattern, '/');
  routes_.push_back({std::move(method), std::move(pattern), std::move(parts), std::move(handler)});
}

Router::Match Router::find(std::string_view method, std::string_view path) const {
  if (method == "HEAD") method = "GET";
  const auto parts = split(path, '/');
  Match found;
  for (const Route& route : routes_) {
    auto parameters = match(route.parts, parts);
    if (!parameters) continue;
    if (route.method == method) {
      return {.handler = &route.handler, .pattern = route.pattern, .parameters = std::move(*parameters), .allowed = {}};
    }
    found.pattern = route.pattern;
    found.allowed += (found.allowed.empty() ? "" : ", ") + route.method;
  }
  return found;
}

std::optional<std::string> percent_decode(std::string_view text, bool plus_is_blank) {
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '+' && plus_is_blank) {
      decoded += ' ';
    } else if (text[i] != '%') {
      decoded += text[i];
    } else {
      if (i + 2 >= text.size()) return std::nullopt;
      const int high = hex_digit(text[i + 1]);
      const int low = hex_digit(text[i + 2]);
      if (high < 0 || low < 0 || (high == 0 && low == 0)) return std::nullopt;
      decoded += static_cast<char>(high * 16 + low);
      i += 2;
    }
  }
  return decoded;
}

std::optional<TextMap> parse_query(std::string_view text) {
  TextMap query;
  if (text.empty()) return query;
  for (const std::string& item : split(text, '&')) {
    if (item.empty()) continue;
    const auto equals = item.find('=');
    const auto name = percent_decode(std::string_view(item).substr(0, equals), true);
    const auto value = percent_decode(
        equals == std::string::npos ? std::string_view() : std::string_view(item).substr(equals + 1), true);
    if (!name || !value) return std::nullopt;
    query[*name] = *value;
  }
  return query;
}

}  // namespace autotriton::server
