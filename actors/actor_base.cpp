#include "actors/actor_base.h"

#include <kj/exception.h>

namespace troupe::actors {

std::string describe(std::exception_ptr exception) {
  try {
    std::rethrow_exception(std::move(exception));
  } catch (const kj::Exception& error) {
    return std::string("kj: ") + error.getDescription().cStr();
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "unknown exception";
  }
}

std::string describe(const caf::error& reason) { return caf::to_string(reason); }

ActorBase::ActorBase(caf::actor_config& config, ContextPtr context, const char* role_name)
    : caf::event_based_actor(config), context_(std::move(context)), role_name_(role_name) {
  set_exception_handler([this](std::exception_ptr& exception) -> caf::error {
    log(base::LogLevel::kError, "actor_failed", "what=\"" + describe(exception) + "\"");
    return caf::sec::runtime_error;
  });
  set_default_handler([this](caf::scheduled_actor*, const caf::message_view& message) -> caf::result<caf::message> {
    // Only the type: the content may be prompt text.
    log(base::LogLevel::kWarning, "unexpected_message", "elements=" + std::to_string(message.content().size()));
    return caf::sec::unexpected_message;
  });
  // CAF answers a message that nobody understood with an error; by default that would end its sender.
  set_error_handler([this](caf::error& error) { log(base::LogLevel::kWarning, "message_refused", "reason=" + describe(error)); });
  set_down_handler([](const caf::down_msg&) {});
}

void ActorBase::log(base::LogLevel level, std::string_view event, std::string_view fields) const {
  if (base::log_enabled(level))
    base::log(level, event, "actor=" + std::string(role_name_) + (fields.empty() ? "" : " ") + std::string(fields));
}

}  // namespace troupe::actors
