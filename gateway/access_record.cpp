// See access_record.h.
#include "gateway/access_record.h"

#include "messages/error.h"
#include "runtime/base/log.h"

#include <openssl/rand.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>

namespace troupe::gateway {
namespace {

constexpr std::size_t kMaxGivenId = 128;

bool id_char(unsigned char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == '_' || c == '-';
}

std::string_view name_of(AccessRecord::Ending ending) {
  switch (ending) {
    case AccessRecord::Ending::kWhole: return "whole";
    case AccessRecord::Ending::kHungUp: return "hung_up";
    case AccessRecord::Ending::kSlowReader: return "slow_reader";
    case AccessRecord::Ending::kMemory: return "memory";
  }
  return "";
}

}  // namespace

std::string log_fields(const AccessRecord& record) {
  char numbers[80];
  std::snprintf(numbers, sizeof numbers, " status=%d bytes=%" PRIu64 " ms=%.1f", record.status, record.bytes, record.ms);
  std::string fields = "id=" + base::log_value(record.id) + " method=" + (record.method.empty() ? "none" : record.method);
  fields.append(" route=").append(record.route.empty() ? "none" : record.route);
  fields += numbers;
  fields.append(" end=").append(name_of(record.ending));
  if (!record.key.empty()) fields += " key=" + base::log_value(record.key);
  return fields + " peer=" + base::log_value(record.peer);
}

RequestIds::RequestIds() {
  std::uint64_t random = 0;
  TROUPE_CHECK(RAND_bytes(reinterpret_cast<unsigned char*>(&random), sizeof random) == 1);
  char text[32];
  std::snprintf(text, sizeof text, "req_%016" PRIx64, random);
  prefix_ = text;
}

std::string RequestIds::next() {
  char text[24];
  std::snprintf(text, sizeof text, "%08" PRIx64, ++number_);
  return prefix_ + text;
}

std::string_view given_request_id(const HttpRequest& request) {
  const auto* given = request.find("x-request-id");
  const bool sane = given != nullptr && !given->empty() && given->size() <= kMaxGivenId && request.count("x-request-id") == 1 &&
                    std::all_of(given->begin(), given->end(), [](unsigned char c) { return id_char(c); });
  return sane ? std::string_view(*given) : std::string_view();
}

}  // namespace troupe::gateway
