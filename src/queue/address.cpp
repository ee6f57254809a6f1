#include "queue/address.h"

#include <charconv>
#include <optional>

#include "base/error.h"

namespace autotriton::queue {
namespace {

constexpr std::string_view kForms = "write redis://HOST:PORT/DATABASE or redis+unix:///PATH?db=N";

/// `what` must not hold any part of the URL that could be a password.
[[noreturn]] void refuse(const std::string& what, const std::string& fix = std::string(kForms)) {
  throw UserError({.where = "--queue", .what = what, .fix = fix});
}

std::optional<int> whole(std::string_view text, int least, int most) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > most) return std::nullopt;
  return value;
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::string percent_decoded(std::string_view text) {
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i];
      continue;
    }
    const int high = i + 2 < text.size() ? hex_digit(text[i + 1]) : -1;
    const int low = i + 2 < text.size() ? hex_digit(text[i + 2]) : -1;
    if (high < 0 || low < 0)
      refuse("a % in the URL is not followed by two hexadecimal digits", "write % itself as %25");
    decoded += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return decoded;
}

void read_database(std::string_view text, Address& address) {
  const auto number = whole(text, 0, 1'000'000);
  if (!number) refuse("the database is not a number");
  address.database = *number;
}

}  // namespace

Address Address::parse(std::string_view url, std::string_view password) {
  const std::size_t colon = url.find("://");
  const std::string_view scheme = colon == std::string_view::npos ? std::string_view{} : url.substr(0, colon);
  if (scheme == "rediss") {
    refuse("rediss:// asks for TLS, which is not supported",
           "use redis:// to a tunnel of your own (stunnel, ssh -L), or a Unix socket");
  }
  const bool unix_socket = scheme == "redis+unix" || scheme == "unix";
  if (!unix_socket && scheme != "redis") refuse("this is no URL of a Redis server");
  std::string_view rest = url.substr(colon + 3);
  Address address;
  address.password = password;
  // The last @ before the path: a password may hold one, unescaped.
  if (const std::size_t at = rest.substr(0, rest.find('/')).rfind('@'); at != std::string_view::npos) {
    const std::string_view login = rest.substr(0, at);
    const std::size_t split = login.find(':');
    address.user = percent_decoded(login.substr(0, split));
    if (split != std::string_view::npos) address.password = percent_decoded(login.substr(split + 1));
    rest.remove_prefix(at + 1);
  }
  if (unix_socket) {
    const std::size_t query = rest.find('?');
    address.socket = percent_decoded(rest.substr(0, query));
    if (!address.socket.starts_with('/')) refuse("the path of the Unix socket is not absolute");
    constexpr std::size_t kMaxSocketPath = 107;  // Of sockaddr_un, without the NUL.
    if (address.socket.size() > kMaxSocketPath) refuse("the path of the Unix socket is too long for the system");
    if (query != std::string_view::npos) {
      if (!rest.substr(query).starts_with("?db=")) refuse("after ? only db=N is known");
      read_database(rest.substr(query + 4), address);
    }
    return address;
  }
  const std::size_t slash = rest.find('/');
  std::string_view place = rest.substr(0, slash);
  if (slash != std::string_view::npos && slash + 1 < rest.size()) read_database(rest.substr(slash + 1), address);
  const bool bracketed = place.starts_with('[');
  const std::size_t host_end = bracketed ? place.find(']') : place.rfind(':');
  if (bracketed && host_end == std::string_view::npos) refuse("the IPv6 address has no closing bracket");
  std::string_view port;
  if (bracketed) {
    address.host = place.substr(1, host_end - 1);
    port = place.substr(host_end + 1);
    if (!port.empty() && port[0] != ':') refuse("after the bracket comes neither a port nor the end");
  } else {
    address.host = place.substr(0, host_end);
    if (host_end != std::string_view::npos) port = place.substr(host_end);
  }
  if (address.host.empty()) refuse("the URL names no host");
  if (!port.empty()) {
    const auto number = whole(port.substr(1), 1, 65'535);
    if (!number) refuse("the port is not a number from 1 to 65535");
    address.port = *number;
  }
  return address;
}

std::string Address::shown() const {
  const std::string number = std::to_string(database);
  if (!socket.empty()) return "redis+unix://" + socket + "?db=" + number;
  const std::string name = host.find(':') == std::string::npos ? host : "[" + host + "]";
  return "redis://" + name + ":" + std::to_string(port) + "/" + number;
}

}  // namespace autotriton::queue
