// A message from a peer: the first byte chooses its type, the second how the rest is read, as raw words or as values for its fields with
// some bytes spoilt afterwards. What is received is decoded without an exception, at a cost in proportion to its bytes, and what was
// decoded encodes to a message that is received again.
#include "actors/wire/admission.h"
#include "actors/wire/cache.h"
#include "actors/wire/common.h"
#include "actors/wire/plan.h"
#include "actors/wire/request.h"
#include "actors/wire/session_store.h"
#include "messages/membership.capnp.h"
#include "messages/received_message.h"
#include "messages/moves.capnp.h"
#include "messages/plan.capnp.h"
#include "messages/shard_control.capnp.h"
#include "messages/supervision.capnp.h"
#include "tests/fuzz/fuzz_target.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <type_traits>

using namespace troupe;

namespace {

/// The input, eaten from the front; zeros behind its end.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : data_(data), left_(size) {}
  std::uint8_t byte() {
    if (left_ == 0) return 0;
    --left_;
    return *data_++;
  }
  std::uint64_t number() {
    const std::uint8_t size = byte() % 9;
    std::uint64_t out = 0;
    for (std::uint8_t i = 0; i < size; ++i) out = out << 8 | byte();
    return out;
  }
  bool empty() const { return left_ == 0; }
  kj::Array<capnp::word> words() {
    auto out = kj::heapArray<capnp::word>(left_ / sizeof(capnp::word));
    if (out.size() > 0) std::memcpy(out.begin(), data_, out.size() * sizeof(capnp::word));
    return out;
  }

 private:
  const std::uint8_t* data_;
  std::size_t left_;
};

void fill(capnp::DynamicStruct::Builder message, Input& input, int depth);

capnp::Orphan<capnp::DynamicValue> list_of(capnp::Orphanage orphanage, capnp::ListSchema schema, Input& input, int depth) {
  auto orphan = orphanage.newOrphan(schema, input.byte() % 5);
  auto list = orphan.get();
  for (unsigned i = 0; i < list.size(); ++i) {
    switch (schema.whichElementType()) {
      case capnp::schema::Type::STRUCT: fill(list[i].as<capnp::DynamicStruct>(), input, depth + 1); break;
      case capnp::schema::Type::TEXT: list.set(i, "text"); break;
      case capnp::schema::Type::DATA: list.init(i, input.byte() % 9); break;
      case capnp::schema::Type::LIST: list.adopt(i, list_of(orphanage, schema.getListElementType(), input, depth + 1)); break;
      case capnp::schema::Type::FLOAT32:
      case capnp::schema::Type::FLOAT64: list.set(i, static_cast<double>(input.number())); break;
      case capnp::schema::Type::ENUM: list.set(i, capnp::DynamicEnum(schema.getEnumElementType(), input.byte())); break;
      case capnp::schema::Type::BOOL: list.set(i, (input.byte() & 1) != 0); break;
      case capnp::schema::Type::UINT8: list.set(i, input.byte()); break;
      case capnp::schema::Type::UINT16: list.set(i, static_cast<std::uint16_t>(input.number())); break;
      case capnp::schema::Type::UINT32: list.set(i, static_cast<std::uint32_t>(input.number())); break;
      case capnp::schema::Type::UINT64: list.set(i, input.number()); break;
      default: break;
    }
  }
  return orphan;
}

void fill_field(capnp::DynamicStruct::Builder message, capnp::StructSchema::Field field, Input& input, int depth) {
  const auto type = field.getType();
  if (depth > 4) return;
  switch (type.which()) {
    case capnp::schema::Type::STRUCT:
      if (field.getProto().isGroup()) return fill(message.get(field).as<capnp::DynamicStruct>(), input, depth + 1);
      if ((input.byte() & 1) != 0) fill(message.init(field).as<capnp::DynamicStruct>(), input, depth + 1);
      return;
    case capnp::schema::Type::LIST:
      message.adopt(field, list_of(capnp::Orphanage::getForMessageContaining(message), type.asList(), input, depth));
      return;
    case capnp::schema::Type::TEXT: return message.set(field, (input.byte() & 1) != 0 ? "some text" : "");
    case capnp::schema::Type::DATA: message.init(field, input.byte() % 20); return;
    case capnp::schema::Type::BOOL: return message.set(field, (input.byte() & 1) != 0);
    case capnp::schema::Type::ENUM: return message.set(field, capnp::DynamicEnum(type.asEnum(), input.byte()));
    case capnp::schema::Type::FLOAT32:
    case capnp::schema::Type::FLOAT64: return message.set(field, static_cast<double>(input.number()));
    case capnp::schema::Type::UINT8: return message.set(field, input.byte());
    case capnp::schema::Type::UINT16: return message.set(field, static_cast<std::uint16_t>(input.number()));
    case capnp::schema::Type::UINT32: return message.set(field, static_cast<std::uint32_t>(input.number()));
    case capnp::schema::Type::UINT64: return message.set(field, input.number());
    case capnp::schema::Type::INT32: return message.set(field, static_cast<std::int32_t>(input.number()));
    case capnp::schema::Type::INT64: return message.set(field, static_cast<std::int64_t>(input.number()));
    default: return;
  }
}

void fill(capnp::DynamicStruct::Builder message, Input& input, int depth) {
  for (const auto field : message.getSchema().getNonUnionFields()) fill_field(message, field, input, depth);
  const auto choices = message.getSchema().getUnionFields();
  if (choices.size() > 0) fill_field(message, choices[input.byte() % choices.size()], input, depth);
}

/// Decoding of the types that have a plain form; the others are read by receive_message alone.
template <class Schema>
void use(const Message<Schema>& message) {
  if constexpr (requires { actors::wire::decode(*message); }) {
    const auto plain = actors::wire::decode(*message);
    if constexpr (requires { actors::wire::encode(plain).bytes(); }) {
      const auto encoded = actors::wire::encode(plain);
      const auto bytes = encoded.bytes();
      auto words = kj::heapArray<capnp::word>(bytes.size() / sizeof(capnp::word));
      std::memcpy(words.begin(), bytes.begin(), bytes.size());
      const auto again = receive_message<Schema>(kj::mv(words));
      if (!again) std::abort();
      actors::wire::decode(**again);
    }
  }
}
void use(const Message<messages::AppendPrompt>& message) {
  schedule::AdmitSequence admit;
  actors::wire::append_page(admit, *message);
}
template <class Response, class Schema>
void join(const Message<Schema>& page) {
  actors::wire::PageJoiner<Response> joiner;
  for (int i = 0; i < 3; ++i) joiner.add(*page);
}
void use(const Message<messages::ResponseFound>& message) { join<session::FoundResponse>(message); }
void use(const Message<messages::StoreResponse>& message) { join<session::StoredResponse>(message); }

template <class Schema>
void take(Input& input) {
  kj::Array<capnp::word> words;
  if ((input.byte() & 1) == 0) {
    words = input.words();
  } else {
    capnp::MallocMessageBuilder builder;
    fill(builder.initRoot<capnp::DynamicStruct>(capnp::Schema::from<Schema>()), input, 0);
    words = capnp::messageToFlatArray(builder);
    while (!input.empty()) {
      const std::size_t at = (std::size_t{input.byte()} << 8 | input.byte()) % words.asBytes().size();
      words.asBytes()[at] = input.byte();
    }
  }
  if (const auto message = receive_message<Schema>(kj::mv(words))) use(*message);
}

// Its runs do not agree on this macro.
// clang-format off
#define TYPES(X) \
  X(SubmitRequest) X(RequestAdmitted) X(TokenDelta) X(RequestFinished) X(Cancel) X(GrantCredit) X(ChooseReplica) X(ReplicaChosen) \
  X(ReplicaRefused) X(AdmitSequence) X(AppendPrompt) X(SequenceAdmitted) X(AdmissionRefused) X(AbortSequence) X(TokensGenerated) \
  X(PromptScored) X(ReplicaLoad) X(SubscribeReplica) X(ReplicaDescribed) X(DirectoryChanged) X(PinPath) X(PathPinned) \
  X(ForwardPlan) X(ForwardResult) X(MovesFinished) X(ResyncWanted) X(ResyncSequences) X(Match) X(PrefixMatched) X(LeaseBlocks) \
  X(BlocksLeased) X(PublishBlocks) X(ReleaseBlocks) X(Pin) X(Pinned) X(LoadFinished) X(WriteDownWanted) X(WrittenDown) \
  X(BlockEvents) X(ReadBlockEvents) X(WatchBlocks) X(FlushTier) X(TierFlushed) X(LookUpResponse) X(ResponseFound) X(ResponseMissing) X(StoreResponse) \
  X(ResponseStored) X(PinResponse) X(ResponsePinned) X(DropResponse) X(ResponseDropped) X(ListResponses) X(ResponsesListed) \
  X(ConnectionClosed) X(LoadShard) X(LoadProgress) X(ShardLoaded) X(EnterEpoch) X(ShardReady) X(InventoryReported) \
  X(ReportInventory) X(MoveBlocks) X(LeaveEpoch) X(EpochLeft) X(ShardFailed) X(ActorStarted) X(ActorGivenUp) X(RestartGroup) \
  X(GroupLost) X(GroupReady) X(DrainNode) X(Drained) X(Join) X(JoinAccepted) X(JoinRefused) X(Heartbeat) X(MembershipChanged) \
  X(LeaveCluster)
// clang-format on
#define AS_TAKER(type) take<messages::type>,
constexpr void (*kTakers[])(Input&) = {TYPES(AS_TAKER)};

}  // namespace

FUZZ_TARGET(message) {
  Input input(data, size);
  kTakers[input.byte() % std::size(kTakers)](input);
  return 0;
}
