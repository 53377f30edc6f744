// A child that stores and drops responses is killed at random moments. The next one finds all that was confirmed, as it was written, and
// nothing half. The child says what it is about to do, and what is done.
#include "runtime/session/response_log.h"
#include "tests/support/diary_child.h"
#include "tests/support/random.h"
#include "tests/support/scratch_folder.h"

#include <catch2/catch.hpp>

#include <unistd.h>

#include <chrono>
#include <set>
#include <thread>

namespace troupe::session {
namespace {

constexpr Hash128 kOwner{1, 2};
constexpr UnixSeconds kNow = 1'800'000'000;

enum class Word : std::uint32_t { kReady, kStored, kDropping, kDropped };
struct Entry {
  Word word = Word::kReady;
  std::uint32_t number = 0;
};

std::string id_of(std::uint32_t number) { return "resp_" + std::to_string(number); }

/// All that is in response `number` follows from it. Its parent is the one with half its number, if that is there.
StoredResponse make(std::uint32_t number) {
  StoredResponse out;
  out.id = id_of(number);
  out.owner = kOwner;
  out.retention = Retention::kDisk;
  test::SmallRandom random(number);
  out.tokens.resize(random.below(3000));
  for (auto& token : out.tokens) token = static_cast<TokenId>(random.below(50'000));
  out.record = std::string(random.below(5000), static_cast<char>('a' + number % 26)) + out.id;
  out.prompt_tokens = number;
  return out;
}

[[noreturn]] void drive(const ResponseLogOptions& options, int diary, std::uint32_t next) {
  const auto note = [diary](Word word, std::uint32_t number) {
    const Entry entry{word, number};
    if (::write(diary, &entry, sizeof entry) < 0) ::_exit(2);
  };
  ResponseLog log(options);
  if (!log.open(kNow)) ::_exit(3);
  note(Word::kReady, 0);
  test::SmallRandom random(next);
  for (;; ++next) {
    auto response = make(next);
    if (const auto parent = log.find(kOwner, id_of(next / 2), kNow)) {
      response.parent = id_of(next / 2);
      response.inherited = static_cast<std::uint32_t>(parent->tokens.size() / 2);
    }
    if (!log.store(response, kNow)) ::_exit(4);
    note(Word::kStored, next);
    if (random.below(3) != 0) continue;
    const auto victim = static_cast<std::uint32_t>(random.below(next + 1));
    note(Word::kDropping, victim);
    if (!log.drop(kOwner, std::vector<std::string>{id_of(victim)}, kNow)) ::_exit(5);
    note(Word::kDropped, victim);
  }
}

void kill_and_check(int kills) {
  ResponseLogOptions options{.folder = test::scratch_folder() / "log_crash", .max_bytes = 1U << 30};
  std::filesystem::remove_all(options.folder);
  std::set<std::uint32_t> kept, unsure;
  std::uint32_t next = 1;
  test::SmallRandom random(11);
  for (int round = 0; round < kills; ++round) {
    CAPTURE(round);
    test::DiaryChild<Entry> child([&](int diary) { drive(options, diary, next); });
    const auto note = [&](const Entry& entry) {
      if (entry.word == Word::kStored) {
        kept.insert(entry.number);
        next = entry.number + 1;
      } else if (entry.word == Word::kDropping) {
        unsure.insert(entry.number);
      } else if (entry.word == Word::kDropped) {
        kept.erase(entry.number);
        unsure.erase(entry.number);
      }
    };
    Entry entry;
    REQUIRE(child.read(entry));  // ready
    // A busy machine may not let the child run before it is killed: every second one stores something first.
    if (round % 2 == 1) {
      do {
        REQUIRE(child.read(entry));
        note(entry);
      } while (entry.word != Word::kStored);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(random.below(25'000)));
    child.kill();
    REQUIRE(child.was_killed());
    while (child.read(entry)) note(entry);
    next += 2;  // the one that may have been under way has its number for good

    ResponseLog log(options);
    std::size_t there = 0;
    for (std::uint32_t number = 1; number < next; ++number) {
      const auto found = log.find(kOwner, id_of(number), kNow);
      if (kept.contains(number) && !unsure.contains(number)) REQUIRE(found.ok());
      if (!found) {
        REQUIRE(found.error().error_class == ErrorClass::kNotFound);
        kept.erase(number);
        continue;
      }
      ++there;
      kept.insert(number);
      const auto wanted = make(number);
      REQUIRE(found->record == wanted.record);
      REQUIRE(found->tokens.size() >= wanted.tokens.size());
      REQUIRE(std::equal(wanted.tokens.rbegin(), wanted.tokens.rend(), found->tokens.rbegin()));
    }
    unsure.clear();
    REQUIRE(log.size() == there);
  }
  CHECK(kept.size() > static_cast<std::size_t>(kills) / 4);
}

TEST_CASE("a log that is killed loses nothing that it confirmed") { kill_and_check(10); }
TEST_CASE("a log that is killed 200 times loses nothing that it confirmed", "[.long]") { kill_and_check(200); }

}  // namespace
}  // namespace troupe::session
