// FakeEngine: an EnginePort without an engine. Each request behaves as its last input item says:
//   "words=N"  N deltas " w0", " w1", ... as far as credits allow, then stop      "hang"    is admitted, then nothing
//   "length"   one delta, then length        "refuse"  429 before admission        "fail"    one delta, then an error
//   "nothing"  no answer at all              "lost"    context_length_exceeded     else      the text comes back in one delta
// All calls come from the loop thread. What it saw is kept for tests, behind a lock.
#pragma once
#include "gateway/engine_port.h"
#include "messages/admission.capnp.h"
#include "messages/error_reasons.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace troupe::gateway {

class FakeEngine final : public EnginePort {
 public:
  explicit FakeEngine(EngineEvents& events) : events_(events) {}

  void submit(Message<messages::SubmitRequest> request) override {
    {
      std::lock_guard lock(mutex_);
      submitted_.push_back(request);
    }
    auto id = request->getRequest();
    Session session;
    session.choices = request->getChoices();
    session.credit = request->getCredit();
    session.logprobs = request->getSampling().getTopLogprobs() != 255;
    session.text = text_of(request->getInput());
    if (request->getEndpoint() == messages::Endpoint::TOKENIZE) return tokenized(id, *request, whole_text_of(request->getInput()));
    if (request->getScoreContinuation()) return scored(id, request->getPreviousResponseId().cStr());
    if (session.text == "nothing") return;
    if (session.text == "refuse") return fail(id, messages::ErrorClass::OVERLOADED, ErrorReason::kQueueFull, 1500);
    if (session.text == "lost") return fail(id, messages::ErrorClass::CONTEXT_TOO_LONG, ErrorReason::kContextLength, 0);
    if (session.text.rfind("words=", 0) == 0) session.words = std::strtoull(session.text.c_str() + 6, nullptr, 10);
    events_.admitted(Message<messages::RequestAdmitted>::build([&](auto out) {
      out.setRequest(id);
      out.setPromptTokens(7);
    }));
    if (request->getMaxTokens() == 0) return finish(id, session, messages::FinishReason::LENGTH);
    auto& kept = sessions_[id] = session;
    if (session.text != "hang") pump(id, kept);
  }

  void cancel(RequestId request, bool silent) override {
    {
      std::lock_guard lock(mutex_);
      (silent ? silent_cancels_ : cancels_).push_back(request.value);
    }
    auto found = sessions_.find(request.value);
    if (found == sessions_.end()) return;
    auto session = found->second;
    sessions_.erase(found);
    if (!silent) finish(request.value, session, messages::FinishReason::CANCELLED);
  }

  void grant_credit(RequestId request, std::uint32_t deltas) override {
    grants_++;
    auto found = sessions_.find(request.value);
    if (found == sessions_.end()) return;
    found->second.credit += deltas;
    if (found->second.text != "hang") pump(request.value, found->second);
  }

  void connection_closed(std::uint64_t connection) override {
    std::lock_guard lock(mutex_);
    closed_.push_back(connection);
  }

  void drop_response(const Hash128&, const std::string& id) override {
    std::lock_guard lock(mutex_);
    dropped_.push_back(id);
  }

  /// Knows the responses that were submitted to be stored, as long as nobody has dropped them; each is one block on the device.
  void ask_store(StoreQuestion question) override {
    std::visit([this](const auto& message) { answer(*message); }, question);
  }

  /// Answered by what was given with answer_event_reads(), if there is one.
  void read_block_events(Message<messages::ReadBlockEvents> read) override {
    std::lock_guard lock(mutex_);
    event_reads_.push_back(read);
    if (event_answer_) event_answer_(*read);
  }

  // Any thread.
  std::vector<Message<messages::SubmitRequest>> submitted() const { return copy(submitted_); }
  std::vector<std::uint64_t> cancels() const { return copy(cancels_); }
  std::vector<std::uint64_t> silent_cancels() const { return copy(silent_cancels_); }
  std::vector<std::uint64_t> closed() const { return copy(closed_); }
  std::vector<std::string> dropped() const { return copy(dropped_); }
  std::uint64_t grants() const { return grants_; }
  std::vector<Message<messages::ReadBlockEvents>> event_reads() const { return copy(event_reads_); }
  void answer_event_reads(std::function<void(messages::ReadBlockEvents::Reader)> answer) {
    std::lock_guard lock(mutex_);
    event_answer_ = std::move(answer);
  }

  static Message<messages::DirectoryChanged> directory(const std::string& model = "tiny", std::uint32_t replicas = 1) {
    return Message<messages::DirectoryChanged>::build([&](messages::DirectoryChanged::Builder out) {
      auto served = out.initModels(1)[0];
      served.setName(model);
      served.setContextTokens(2048);
      served.setReplicasServing(replicas);
      auto domains = served.initKeyDomains(1);
      domains[0].setHigh(1);
      domains[0].setLow(2);
    });
  }

 private:
  std::vector<std::string> stored_ids(messages::Hash128::Reader owner) {
    std::lock_guard lock(mutex_);
    std::vector<std::string> ids;
    for (const auto& request : submitted_) {
      const std::string id = request->getResponseId().cStr();
      const bool own = request->getOwner().getHigh() == owner.getHigh() && request->getOwner().getLow() == owner.getLow();
      const bool ended = !sessions_.contains(request->getRequest());
      const bool stored = ended && !id.empty() && request->getRetention() != messages::Retention::CONNECTION;
      if (own && stored && std::find(dropped_.begin(), dropped_.end(), id) == dropped_.end()) ids.push_back(id);
    }
    std::sort(ids.begin(), ids.end());
    return ids;
  }
  template <class Question>
  bool knows(Question question) {
    const auto ids = stored_ids(question.getOwner());
    const std::string id = question.getId().cStr();
    if (std::find(ids.begin(), ids.end(), id) != ids.end()) return true;
    if (id == "silent") return false;
    events_.store_answered(Message<messages::ResponseMissing>::build([&](messages::ResponseMissing::Builder out) {
      out.setQuery(question.getQuery());
      out.initError().setClass(messages::ErrorClass::NOT_FOUND);
      out.getError().setClientText("Previous response not found");
    }));
    return false;
  }
  void answer(messages::LookUpResponse::Reader question) {
    if (!knows(question)) return;
    events_.store_answered(Message<messages::ResponseFound>::build([&](messages::ResponseFound::Builder out) {
      out.setQuery(question.getQuery());
      out.initPage().setCount(1);
      out.setModel("tiny");
      out.setPromptTokens(3);
      out.initTokens(5);
      const std::string record = R"({"version":1,"instructions":"","items":[],"output":"as it was","created_at":77,"finish":"length"})";
      out.setRecord(kj::StringPtr(record.c_str(), record.size()).asBytes());
    }));
  }
  void answer(messages::ListResponses::Reader question) {
    auto ids = stored_ids(question.getOwner());
    std::erase_if(ids, [&](const std::string& id) { return id <= question.getAfter().cStr(); });
    const bool more = ids.size() > question.getLimit();
    if (more) ids.resize(question.getLimit());
    events_.store_answered(Message<messages::ResponsesListed>::build([&](messages::ResponsesListed::Builder out) {
      out.setQuery(question.getQuery());
      out.setMore(more);
      auto entries = out.initEntries(static_cast<unsigned>(ids.size()));
      for (unsigned i = 0; i < ids.size(); i++) {
        entries[i].setId(ids[i]);
        if (i > 0) entries[i].setParent(ids[0]);
        entries[i].setPathTokens(40);
        entries[i].setOwnTokens(8);
        entries[i].setRetention(messages::Retention::MEMORY);
      }
    }));
  }
  void answer(messages::PinResponse::Reader question) {
    if (!knows(question)) return;
    events_.store_answered(Message<messages::ResponsePinned>::build([&](messages::ResponsePinned::Builder out) {
      out.setQuery(question.getQuery());
      out.setTokens(40);
      out.initUsage().setDevice(32);
      out.getUsage().setComputed(8);
      out.setBytes(question.getMeasureOnly() ? 1000 : question.getTtlSeconds());
    }));
  }
  void answer(messages::DropResponse::Reader question) {
    if (!knows(question)) return;
    const std::string id = question.getId().cStr();
    events_.store_answered(Message<messages::ResponseDropped>::build([&](messages::ResponseDropped::Builder out) {
      out.setQuery(question.getQuery());
      out.initIds(1).set(0, id);
    }));
    std::lock_guard lock(mutex_);
    dropped_.push_back(id);
  }

  static std::string text_of(messages::SubmitRequest::Input::Reader input) {
    if (input.isText()) return input.getText().cStr();
    if (input.isTokens()) return std::to_string(input.getTokens().size()) + " tokens";
    auto items = input.getItems();
    return items.size() > 0 ? items[items.size() - 1].getText().cStr() : "";
  }

  static std::string whole_text_of(messages::SubmitRequest::Input::Reader input) {
    if (!input.isItems()) return text_of(input);
    std::string text;
    for (auto item : input.getItems()) text += item.getText().cStr();
    return text;
  }

  /// Two tokens behind a path of two, if it is there.
  void scored(std::uint64_t id, const std::string& path) {
    if (path.rfind("resp_", 0) != 0) return fail(id, messages::ErrorClass::NOT_FOUND, ErrorReason::kPreviousResponse, 0);
    events_.finished(Message<messages::RequestFinished>::build([&](messages::RequestFinished::Builder out) {
      out.setRequest(id);
      out.getOutcome().initChoices(1)[0].setReason(messages::FinishReason::LENGTH);
      out.setPromptTokens(4);
      auto ids = out.initPromptIds(4);
      for (unsigned i = 0; i < 4; i++) ids.set(i, 10 + i);
      auto chosen = out.initPromptLogprobs().initChosen(2);
      chosen.set(0, -0.5F);
      chosen.set(1, -1.5F);
      auto texts = out.initTokenTexts(4);
      for (unsigned i = 0; i < 4; i++) texts.set(i, kj::StringPtr("abcd").asBytes().slice(i, i + 1));
    }));
  }

  /// One token a byte of the text, or the ids as given; the text comes back.
  void tokenized(std::uint64_t id, messages::SubmitRequest::Reader request, const std::string& text) {
    events_.finished(Message<messages::RequestFinished>::build([&](messages::RequestFinished::Builder out) {
      out.setRequest(id);
      auto given = request.getInput();
      auto count = given.isTokens() ? given.getTokens().size() : static_cast<unsigned>(text.size());
      auto tokens = out.getOutcome().initTokens(count);
      for (unsigned i = 0; i < count; i++) tokens.set(i, given.isTokens() ? given.getTokens()[i] : static_cast<unsigned char>(text[i]));
      out.setPromptTokens(count);
      if (!request.getEcho()) return;
      auto texts = out.initTokenTexts(count);
      for (unsigned i = 0; i < count && i < text.size(); i++) texts.set(i, kj::arrayPtr(reinterpret_cast<const kj::byte*>(&text[i]), 1));
      out.setText(kj::StringPtr(text.c_str(), text.size()).asBytes());
    }));
  }

  struct Session {
    std::string text;
    std::uint16_t choices = 1;
    std::uint64_t words = 1;
    std::uint64_t sent = 0;
    std::uint32_t number = 0;
    std::uint32_t credit = 0;
    bool logprobs = false;
  };

  void pump(std::uint64_t id, Session& session) {
    while (session.credit > 0 && session.sent < session.words) {
      session.credit--;
      auto text = session.text.rfind("words=", 0) == 0 ? " w" + std::to_string(session.sent) : session.text;
      send_delta(id, session, text);
      session.sent++;
    }
    if (session.sent < session.words) return;
    auto ended = session;
    sessions_.erase(id);
    if (ended.text == "fail") return fail(id, messages::ErrorClass::INTERNAL, ErrorReason::kComputeFault, 0);
    finish(id, ended, ended.text == "length" ? messages::FinishReason::LENGTH : messages::FinishReason::STOP);
  }

  void send_delta(std::uint64_t id, Session& session, const std::string& text) {
    events_.delta(Message<messages::TokenDelta>::build([&](messages::TokenDelta::Builder out) {
      out.setRequest(id);
      out.setNumber(session.number++);
      auto pieces = out.initPieces(session.choices);
      for (unsigned choice = 0; choice < session.choices; choice++) {
        auto piece = pieces[choice];
        piece.setChoice(static_cast<std::uint16_t>(choice));
        piece.setTokens(1);
        piece.setText(text);
        if (!session.logprobs) continue;
        auto logprobs = piece.initLogprobs();
        logprobs.initChosen(1).set(0, -0.5F);
        logprobs.setWidth(1);
        logprobs.initIds(1).set(0, 42);
        logprobs.initLogprobs(1).set(0, -0.25F);
        piece.initTokenIds(1).set(0, 7);
        piece.initTokenOffsets(1).set(0, session.number - 1);
        auto texts = piece.initTokenTexts(2);
        texts.set(0, kj::StringPtr(text.c_str(), text.size()).asBytes());
        texts.set(1, kj::StringPtr("other").asBytes());
      }
    }));
  }

  void finish(std::uint64_t id, const Session& session, messages::FinishReason reason) {
    events_.finished(Message<messages::RequestFinished>::build([&](messages::RequestFinished::Builder out) {
      out.setRequest(id);
      auto choices = out.getOutcome().initChoices(session.choices);
      for (auto choice : choices) choice.setReason(reason);
      out.setPromptTokens(7);
      out.setOutputTokens(static_cast<std::uint32_t>(session.sent * session.choices));
      auto tokens = out.initCache().initTokens();
      tokens.setDevice(4);
      tokens.setComputed(3);
    }));
  }

  void fail(std::uint64_t id, messages::ErrorClass error_class, ErrorReason reason, std::uint32_t retry_after_ms) {
    events_.finished(Message<messages::RequestFinished>::build([&](messages::RequestFinished::Builder out) {
      out.setRequest(id);
      auto error = out.getOutcome().initError();
      error.setClass(error_class);
      error.setReason(static_cast<std::uint16_t>(reason));
      error.setClientText("made to fail");
      error.setRetryAfterMs(retry_after_ms);
    }));
  }

  template <class T>
  std::vector<T> copy(const std::vector<T>& list) const {
    std::lock_guard lock(mutex_);
    return list;
  }

  EngineEvents& events_;
  std::map<std::uint64_t, Session> sessions_;  // loop thread
  mutable std::mutex mutex_;
  std::vector<Message<messages::SubmitRequest>> submitted_;
  std::vector<std::uint64_t> cancels_, silent_cancels_, closed_;
  std::vector<std::string> dropped_;
  std::vector<Message<messages::ReadBlockEvents>> event_reads_;
  std::function<void(messages::ReadBlockEvents::Reader)> event_answer_;
  std::atomic<std::uint64_t> grants_ = 0;
};

}  // namespace troupe::gateway
