// Deadline: the one time limit a connection is under, by what it waits for. Loop milliseconds; loop thread.
#pragma once
#include <cstdint>

namespace troupe::gateway {

class Deadline {
 public:
  enum class Kind { kNone, kIdle, kHead, kBody, kLinger, kWsClose };
  void arm(Kind kind, std::uint64_t now, unsigned ms) {
    kind_ = kind;
    at_ = now + ms;
  }
  void clear() { kind_ = Kind::kNone; }
  Kind kind() const { return kind_; }
  bool passed(std::uint64_t now) const { return kind_ != Kind::kNone && now >= at_; }

 private:
  Kind kind_ = Kind::kNone;
  std::uint64_t at_ = 0;
};

}  // namespace troupe::gateway
