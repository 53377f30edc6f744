// /v1/responses as a tree: listed, pinned, measured, deleted whole or in part. The session store knows it; the loop asks and waits.
#include "gateway/answer_json.h"
#include "gateway/endpoints/endpoints.h"
#include "gateway/endpoints/response_id.h"
#include "gateway/error_body.h"
#include "gateway/query.h"
#include "gateway/restored_response.h"
#include "gateway/service.h"
#include "messages/error_reasons.h"

namespace troupe::gateway::endpoints {
namespace {

using nlohmann::json;

void write_hash(messages::Hash128::Builder out, const Hash128& hash) {
  out.setHigh(hash.high);
  out.setLow(hash.low);
}

void ask(Service& service, Connection& connection, const StoreAnswerer::Ask& question, StoreAnswerer::Take take,
         std::function<void(Error)> on_missing) {
  connection.hold(std::make_unique<StoreAnswerer>(service, connection, question, std::move(take), std::move(on_missing)));
}

/// An error of the store as the client of `id` is told.
std::function<void(Error)> answer_missing(Service& service, Connection& connection, std::string id) {
  return [&service, &connection, id = std::move(id)](Error error) {
    if (error.error_class == ErrorClass::kNotFound) error = response_id_not_found(id);
    service.answer_error(connection, error);
  };
}

bool answer_json(Connection& connection, const json& body) {
  connection.respond(200, "application/json", to_text(body));
  return true;
}

StoreAnswerer::Ask pin_question(const Caller& caller, const std::string& id, std::uint32_t ttl, bool measure) {
  return [=](std::uint64_t query) {
    return Message<messages::PinResponse>::build([&](messages::PinResponse::Builder out) {
      out.setQuery(query);
      write_hash(out.initOwner(), caller.owner);
      out.setId(id);
      out.setTtlSeconds(ttl);
      out.setMeasureOnly(measure);
    });
  };
}

json memory_of(messages::ResponsePinned::Reader pinned) {
  auto usage = pinned.getUsage();
  return {{"device", usage.getDevice()}, {"host", usage.getHost()}, {"disk", usage.getDisk()}, {"computed", usage.getComputed()}};
}

json entry_of(messages::ResponseEntry::Reader entry) {
  json out = {{"id", text_of(entry.getId())},
              {"object", "response.node"},
              {"previous_response_id", nullptr},
              {"path_tokens", entry.getPathTokens()},
              {"own_tokens", entry.getOwnTokens()},
              {"ttl_seconds_left", entry.getTtlSecondsLeft()},
              {"pin_seconds_left", entry.getPinSecondsLeft()},
              {"stored", entry.getRetention() == messages::Retention::DISK ? "disk" : "memory"}};
  if (entry.hasParent()) out["previous_response_id"] = text_of(entry.getParent());
  return out;
}

struct PinRequest {
  std::uint32_t ttl = 0;
};

Result<PinRequest> parse_pin(const JsonBody& body, const Limits&) {
  std::optional<Error> error;
  JsonFields fields(body.value, "", error);
  if (fields.find(fields::kPinTtl.name) == nullptr) fields.missing(fields::kPinTtl.name, "is needed; 0 unpins");
  PinRequest out{static_cast<std::uint32_t>(fields.integer(fields::kPinTtl, 0))};
  if (error) return *error;
  return out;
}

}  // namespace

void list_responses(Service& service, Connection& connection, HttpRequest&& request, const Caller& caller) {
  std::optional<Error> error;
  QueryFields query(request, error);
  const auto limit = static_cast<std::uint16_t>(query.integer(fields::kListLimit));
  const auto after = query.text(fields::kTreeAfter);
  if (error) return service.answer_error(connection, *error);
  ask(
      service, connection,
      [&](std::uint64_t number) {
        return Message<messages::ListResponses>::build([&](messages::ListResponses::Builder out) {
          out.setQuery(number);
          write_hash(out.initOwner(), caller.owner);
          if (!after.empty()) out.setAfter(after);
          out.setLimit(limit);
        });
      },
      [&connection](const StoreAnswer& answer) {
        auto listed = *std::get<Message<messages::ResponsesListed>>(answer);
        auto data = json::array();
        for (auto entry : listed.getEntries()) data.push_back(entry_of(entry));
        auto id_at = [&](std::size_t index) { return data.empty() ? json() : data[index]["id"]; };
        return answer_json(connection, {{"object", "list"},
                                        {"first_id", id_at(0)},
                                        {"last_id", id_at(data.size() - 1)},
                                        {"has_more", listed.getMore()},
                                        {"data", data}});
      },
      answer_missing(service, connection, ""));
}

void pin_response(Service& service, Connection& connection, HttpRequest&& request, const Caller& caller) {
  if (service.draining()) return service.answer_error(connection, draining_error());
  auto parsed = service.parse(connection, request, parse_pin);
  if (!parsed) return;
  auto id = response_id_of(request);
  ask(
      service, connection, pin_question(caller, id, parsed->ttl, false),
      [&connection, id, ttl = parsed->ttl](const StoreAnswer& answer) {
        auto pinned = *std::get<Message<messages::ResponsePinned>>(answer);
        return answer_json(connection, {{"id", id},
                                        {"object", "response.pin"},
                                        {"pinned", ttl > 0},
                                        {"ttl_seconds", ttl},
                                        {"path_tokens", pinned.getTokens()},
                                        {"memory", memory_of(pinned)}});
      },
      answer_missing(service, connection, id));
}

void response_memory(Service& service, Connection& connection, HttpRequest&& request, const Caller& caller) {
  auto id = response_id_of(request);
  ask(
      service, connection, pin_question(caller, id, 0, true),
      [&connection, id](const StoreAnswer& answer) {
        auto pinned = *std::get<Message<messages::ResponsePinned>>(answer);
        return answer_json(connection, {{"id", id},
                                        {"object", "response.memory"},
                                        {"path_tokens", pinned.getTokens()},
                                        {"tokens", memory_of(pinned)},
                                        {"bytes", pinned.getBytes()}});
      },
      answer_missing(service, connection, id));
}

void delete_response(Service& service, Connection& connection, HttpRequest&& request, const Caller& caller) {
  auto id = response_id_of(request);
  std::optional<Error> error;
  QueryFields query(request, error);
  const bool subtree = query.boolean(fields::kSubtree);
  if (error) return service.answer_error(connection, *error);
  auto deleted = [&connection, id](std::size_t responses) {
    return answer_json(connection, {{"id", id}, {"object", "response"}, {"deleted", true}, {"responses", responses}});
  };
  ask(
      service, connection,
      [&](std::uint64_t number) {
        return Message<messages::DropResponse>::build([&](messages::DropResponse::Builder out) {
          out.setQuery(number);
          write_hash(out.initOwner(), caller.owner);
          out.setId(id);
          out.setSubtree(subtree);
        });
      },
      [&service, owner = caller.owner, deleted](const StoreAnswer& answer) {
        auto ids = (*std::get<Message<messages::ResponseDropped>>(answer)).getIds();
        for (auto gone : ids) service.shelf().remove(owner, std::string(text_of(gone)), ResponseShelf::Elsewhere::kForgotten);
        return deleted(ids.size());
      },
      [&service, owner = caller.owner, id, deleted, missing = answer_missing(service, connection, id)](Error why) {
        // One under way, or that was never stored: the gateway alone knows it.
        if (why.error_class == ErrorClass::kNotFound && service.shelf().remove(owner, id))
          deleted(1);
        else
          missing(std::move(why));
      });
}

void find_stored_response(Service& service, Connection& connection, const std::string& id, const Caller& caller) {
  ask(
      service, connection,
      [&](std::uint64_t number) {
        return Message<messages::LookUpResponse>::build([&](messages::LookUpResponse::Builder out) {
          out.setQuery(number);
          write_hash(out.initOwner(), caller.owner);
          out.setId(id);
          out.setWantTokens(true);
          out.setWantRecord(true);
        });
      },
      [&service, &connection, restored = RestoredResponse(id)](const StoreAnswer& answer) mutable {
        if (!restored.add(*std::get<Message<messages::ResponseFound>>(answer))) return false;
        auto object = restored.object();
        if (object)
          connection.respond(200, "application/json", *object);
        else
          service.answer_error(connection, object.error());
        return true;
      },
      answer_missing(service, connection, id));
}

}  // namespace troupe::gateway::endpoints
