#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

/// Reading fields of a worker's record. Private to this room: JSON types stay out of public headers.
namespace autotriton::verify {

using Json = nlohmann::json;

/// A record of the oracle or a candidate's worker that is not of the protocol's form.
struct MalformedRecord {
  std::string field;
};

inline const Json& member(const Json& record, const char* name) {
  const auto found = record.is_object() ? record.find(name) : record.end();
  if (!record.is_object() || found == record.end()) throw MalformedRecord{name};
  return *found;
}

inline std::string text(const Json& record, const char* name) {
  const Json& value = member(record, name);
  if (!value.is_string()) throw MalformedRecord{name};
  return value.get<std::string>();
}

inline std::int64_t integer(const Json& record, const char* name) {
  const Json& value = member(record, name);
  if (!value.is_number_integer()) throw MalformedRecord{name};
  return value.get<std::int64_t>();
}

inline bool boolean(const Json& record, const char* name) {
  const Json& value = member(record, name);
  if (!value.is_boolean()) throw MalformedRecord{name};
  return value.get<bool>();
}

/// A number; NaN and infinities travel as the strings "nan", "inf", "-inf".
inline double number(const Json& record, const char* name) {
  const Json& value = member(record, name);
  if (value.is_number()) return value.get<double>();
  if (value.is_string()) {
    const auto& spelled = value.get_ref<const std::string&>();
    if (spelled == "inf") return std::numeric_limits<double>::infinity();
    if (spelled == "-inf") return -std::numeric_limits<double>::infinity();
    if (spelled == "nan") return std::nan("");
  }
  throw MalformedRecord{name};
}

inline const Json& list(const Json& record, const char* name) {
  const Json& value = member(record, name);
  if (!value.is_array()) throw MalformedRecord{name};
  return value;
}

}  // namespace autotriton::verify
