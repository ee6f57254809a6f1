#pragma once

#include <string>
#include <string_view>

namespace autotriton::queue {

/// Where a Redis server listens, and how to be let in.
struct Address {
  std::string host = "127.0.0.1";
  int port = 6379;
  std::string socket;  ///< Path of a Unix socket; then host and port mean nothing.
  int database = 0;
  std::string user;      ///< Empty: Redis' default user.
  std::string password;  ///< Empty: none is asked for.

  /// Reads `redis://[[USER]:PASSWORD@]HOST[:PORT][/DATABASE]` or `redis+unix://[[USER]:PASSWORD@]/PATH[?db=N]`
  /// (`unix://` is the same). Without a password in it, `password` is taken: it belongs in the environment, since other
  /// users of a machine see a command's arguments. Throws UserError, which never repeats a password.
  static Address parse(std::string_view url, std::string_view password = {});

  /// The URL without user and password, for messages.
  std::string shown() const;
};

}  // namespace autotriton::queue
