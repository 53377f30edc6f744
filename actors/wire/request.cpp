#include "actors/wire/request.h"

#include "actors/wire/common.h"

namespace troupe::actors::wire {
namespace {

session::InputItem decode(messages::InputItem::Reader item) {
  return {to_string(item.getRole()), to_string(item.getText()), to_string(item.getName()), to_string(item.getCallId()),
          to_string(item.getArguments())};
}

void write_texts(const std::vector<std::string>& texts, capnp::List<capnp::Data>::Builder out) {
  for (unsigned i = 0; i < out.size(); ++i) out.set(i, to_data(texts[i]));
}

void write_usage(const Usage& usage, messages::RequestFinished::Builder builder) {
  builder.setPromptTokens(usage.prompt_tokens);
  builder.setOutputTokens(usage.output_tokens);
  if (usage.cache) wire::write(*usage.cache, builder.initCache());
  if (!usage.prompt_ids.empty()) {
    wire::write(usage.prompt_logprobs, builder.initPromptLogprobs());
    write_list(usage.prompt_ids, [&](unsigned n) { return builder.initPromptIds(n); });
    write_texts(usage.prompt_texts, builder.initTokenTexts(static_cast<unsigned>(usage.prompt_texts.size())));
  }
  builder.setNumericsChanged(usage.numerics_changed);
  if (usage.store_error) wire::write(*usage.store_error, builder.initStoreError());
}

}  // namespace

session::Request decode(messages::SubmitRequest::Reader submit) {
  session::Request out;
  out.request = RequestId{submit.getRequest()};
  out.endpoint = static_cast<session::Endpoint>(submit.getEndpoint());
  out.model = to_string(submit.getModel());
  out.owner = decode(submit.getOwner());
  out.connection = submit.getConnection();
  out.lane = to_string(submit.getLane());
  out.response_id = to_string(submit.getResponseId());
  out.previous_response_id = to_string(submit.getPreviousResponseId());
  out.retention = static_cast<session::Retention>(submit.getRetention());
  out.cache_salt = to_string(submit.getCacheSalt());
  out.priority = submit.getPriority();
  out.deadline_ms = submit.getDeadlineMs();
  out.elapsed_ms = submit.getElapsedMs();
  const auto input = submit.getInput();
  switch (input.which()) {
    case messages::SubmitRequest::Input::ITEMS: {
      std::vector<session::InputItem> items;
      for (auto item : input.getItems()) items.push_back(decode(item));
      out.input = std::move(items);
      break;
    }
    case messages::SubmitRequest::Input::TEXT: out.input = to_string(input.getText()); break;
    case messages::SubmitRequest::Input::TOKENS: out.input = to_vector<TokenId>(input.getTokens()); break;
  }
  out.instructions = to_string(submit.getInstructions());
  out.tools_json = to_string(submit.getToolsJson());
  out.sampling = decode(submit.getSampling());
  out.choices = submit.getChoices();
  out.max_tokens = submit.getMaxTokens();
  for (auto stop : submit.getStops()) out.stops.push_back(to_string(stop));
  out.stop_tokens = to_vector<TokenId>(submit.getStopTokens());
  out.ignore_eos = submit.getIgnoreEos();
  out.echo = submit.getEcho();
  out.score_from = submit.getScoreFrom();
  out.stream = submit.getStream();
  out.credit = submit.getCredit();
  out.key_domains = decode_hashes(submit.getKeyDomains());
  out.parse_special = submit.getParseSpecial();
  out.add_special = submit.getAddSpecial();
  out.generation_prompt = submit.getGenerationPrompt();
  out.score_continuation = submit.getScoreContinuation();
  return out;
}

Message<messages::SubmitRequest> encode(const session::Request& request) {
  return Message<messages::SubmitRequest>::build([&](messages::SubmitRequest::Builder builder) {
    builder.setRequest(request.request.value);
    builder.setEndpoint(static_cast<messages::Endpoint>(request.endpoint));
    builder.setModel(to_text(request.model));
    write(request.owner, builder.initOwner());
    builder.setConnection(request.connection);
    if (!request.lane.empty()) builder.setLane(to_text(request.lane));
    builder.setResponseId(to_text(request.response_id));
    if (!request.previous_response_id.empty()) builder.setPreviousResponseId(to_text(request.previous_response_id));
    builder.setRetention(static_cast<messages::Retention>(request.retention));
    if (!request.cache_salt.empty()) builder.setCacheSalt(to_text(request.cache_salt));
    builder.setPriority(request.priority);
    builder.setDeadlineMs(request.deadline_ms);
    builder.setElapsedMs(request.elapsed_ms);
    auto input = builder.initInput();
    if (const auto* items = std::get_if<std::vector<session::InputItem>>(&request.input)) {
      auto list = input.initItems(static_cast<unsigned>(items->size()));
      for (unsigned i = 0; i < list.size(); ++i) {
        const auto& item = (*items)[i];
        list[i].setRole(to_text(item.role));
        list[i].setText(to_text(item.text));
        if (!item.name.empty()) list[i].setName(to_text(item.name));
        if (!item.call_id.empty()) list[i].setCallId(to_text(item.call_id));
        if (!item.arguments.empty()) list[i].setArguments(to_text(item.arguments));
      }
    } else if (const auto* text = std::get_if<std::string>(&request.input)) {
      input.setText(to_text(*text));
    } else {
      const auto& tokens = std::get<std::vector<TokenId>>(request.input);
      auto list = input.initTokens(static_cast<unsigned>(tokens.size()));
      for (unsigned i = 0; i < list.size(); ++i) list.set(i, tokens[i]);
    }
    if (!request.instructions.empty()) builder.setInstructions(to_text(request.instructions));
    if (!request.tools_json.empty()) builder.setToolsJson(to_text(request.tools_json));
    write(request.sampling, builder.initSampling());
    builder.setChoices(request.choices);
    builder.setMaxTokens(request.max_tokens);
    auto stops = builder.initStops(static_cast<unsigned>(request.stops.size()));
    for (unsigned i = 0; i < stops.size(); ++i) stops.set(i, to_text(request.stops[i]));
    write_list(request.stop_tokens, [&](unsigned n) { return builder.initStopTokens(n); });
    builder.setIgnoreEos(request.ignore_eos);
    builder.setEcho(request.echo);
    builder.setScoreFrom(request.score_from);
    builder.setStream(request.stream);
    builder.setCredit(request.credit);
    builder.setParseSpecial(request.parse_special);
    builder.setAddSpecial(request.add_special);
    builder.setGenerationPrompt(request.generation_prompt);
    builder.setScoreContinuation(request.score_continuation);
    write(request.key_domains, builder.initKeyDomains(static_cast<unsigned>(request.key_domains.size())));
  });
}

Message<messages::RequestAdmitted> request_admitted(RequestId request, std::uint32_t prompt_tokens, std::uint32_t queued_requests) {
  return Message<messages::RequestAdmitted>::build([&](messages::RequestAdmitted::Builder builder) {
    builder.setRequest(request.value);
    builder.setPromptTokens(prompt_tokens);
    builder.setQueuedRequests(queued_requests);
  });
}

Message<messages::TokenDelta> token_delta(RequestId request, std::uint32_t number, const std::vector<session::Piece>& pieces) {
  return Message<messages::TokenDelta>::build(
      [&](messages::TokenDelta::Builder builder) {
        builder.setRequest(request.value);
        builder.setNumber(number);
        auto list = builder.initPieces(static_cast<unsigned>(pieces.size()));
        for (unsigned i = 0; i < list.size(); ++i) {
          const auto& piece = pieces[i];
          auto out = list[i];
          out.setChoice(piece.choice);
          out.setTokens(static_cast<std::uint16_t>(std::min<std::uint32_t>(piece.tokens, UINT16_MAX)));
          out.setText(to_text(piece.text));
          if (piece.token_ids.empty()) continue;
          write_list(piece.token_ids, [&](unsigned n) { return out.initTokenIds(n); });
          write(piece.logprobs, out.initLogprobs());
          write_texts(piece.token_texts, out.initTokenTexts(static_cast<unsigned>(piece.token_texts.size())));
          write_list(piece.token_offsets, [&](unsigned n) { return out.initTokenOffsets(n); });
          write_list(piece.controls, [&](unsigned n) { return out.initControls(n); });
        }
      },
      32);
}

Message<messages::RequestFinished> request_finished(RequestId request, const std::vector<session::ChoiceEnd>& ends, const Usage& usage) {
  return Message<messages::RequestFinished>::build([&](messages::RequestFinished::Builder builder) {
    builder.setRequest(request.value);
    auto list = builder.initOutcome().initChoices(static_cast<unsigned>(ends.size()));
    for (unsigned i = 0; i < list.size(); ++i) {
      list[i].setReason(static_cast<messages::FinishReason>(ends[i].reason));
      list[i].setOutputTokens(ends[i].output_tokens);
      if (ends[i].stop) list[i].setStop(to_text(*ends[i].stop));
    }
    write_usage(usage, builder);
  });
}

Message<messages::RequestFinished> request_failed(RequestId request, const Error& error, const Usage& usage) {
  return Message<messages::RequestFinished>::build([&](messages::RequestFinished::Builder builder) {
    builder.setRequest(request.value);
    write(error, builder.initOutcome().initError());
    write_usage(usage, builder);
  });
}

Message<messages::RequestFinished> request_tokenized(RequestId request, const std::vector<TokenId>& tokens,
                                                     const std::vector<std::string>& texts, const std::optional<std::string>& text) {
  return Message<messages::RequestFinished>::build([&](messages::RequestFinished::Builder builder) {
    builder.setRequest(request.value);
    auto list = builder.initOutcome().initTokens(static_cast<unsigned>(tokens.size()));
    for (unsigned i = 0; i < list.size(); ++i) list.set(i, tokens[i]);
    builder.setPromptTokens(static_cast<std::uint32_t>(tokens.size()));
    if (!texts.empty()) write_texts(texts, builder.initTokenTexts(static_cast<unsigned>(texts.size())));
    if (text) builder.setText(to_data(*text));
  });
}

}  // namespace troupe::actors::wire
