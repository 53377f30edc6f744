// The endpoints: each checks its request and answers, at once or later through an Exchange. Loop thread. One file each.
#pragma once
#include "gateway/access.h"
#include "gateway/http_request.h"

namespace troupe::gateway {

class Connection;
class Service;

using Endpoint = void (*)(Service&, Connection&, HttpRequest&&, const Caller&);

namespace endpoints {

void page(Service&, Connection&, HttpRequest&&, const Caller&);                  // GET /, /app.js, /style.css
void health(Service&, Connection&, HttpRequest&&, const Caller&);                // GET /health: the process lives
void ready(Service&, Connection&, HttpRequest&&, const Caller&);                 // GET /ready: it takes work
void metrics(Service&, Connection&, HttpRequest&&, const Caller&);               // GET /metrics: Prometheus text
void config(Service&, Connection&, HttpRequest&&, const Caller&);                // GET /config: options and their sources
void models(Service&, Connection&, HttpRequest&&, const Caller&);                // GET /v1/models
void model(Service&, Connection&, HttpRequest&&, const Caller&);                 // GET /v1/models/{id}
void chat_completions(Service&, Connection&, HttpRequest&&, const Caller&);      // POST /v1/chat/completions
void responses(Service&, Connection&, HttpRequest&&, const Caller&);             // GET /v1/responses: a WebSocket, or list_responses
void list_responses(Service&, Connection&, HttpRequest&&, const Caller&);        // GET /v1/responses: the caller's trees
void pin_response(Service&, Connection&, HttpRequest&&, const Caller&);          // POST /v1/responses/{id}/pin
void response_memory(Service&, Connection&, HttpRequest&&, const Caller&);       // GET /v1/responses/{id}/memory
void score_response(Service&, Connection&, HttpRequest&&, const Caller&);        // POST /v1/responses/{id}/score
void create_response(Service&, Connection&, HttpRequest&&, const Caller&);       // POST /v1/responses
void count_response_input(Service&, Connection&, HttpRequest&&, const Caller&);  // POST /v1/responses/input_tokens
void get_response(Service&, Connection&, HttpRequest&&, const Caller&);          // GET /v1/responses/{id}, also as a stream
void delete_response(Service&, Connection&, HttpRequest&&, const Caller&);       // DELETE /v1/responses/{id}
void cancel_response(Service&, Connection&, HttpRequest&&, const Caller&);       // POST /v1/responses/{id}/cancel
void response_input_items(Service&, Connection&, HttpRequest&&, const Caller&);  // GET /v1/responses/{id}/input_items

/// GET /v1/responses/{id} where the gateway no longer has it.
void find_stored_response(Service&, Connection&, const std::string& id, const Caller&);

void cache_events(Service&, Connection&, HttpRequest&&, const Caller&);          // GET /v1/cache/events
void list_system_prompts(Service&, Connection&, HttpRequest&&, const Caller&);   // GET /v1/system_prompts
void put_system_prompt(Service&, Connection&, HttpRequest&&, const Caller&);     // POST /v1/system_prompts
void delete_system_prompt(Service&, Connection&, HttpRequest&&, const Caller&);  // DELETE /v1/system_prompts/{name}
void completions(Service&, Connection&, HttpRequest&&, const Caller&);           // POST /v1/completions
void count_chat_input(Service&, Connection&, HttpRequest&&, const Caller&);      // POST /v1/chat/completions/input_tokens
void tokenize(Service&, Connection&, HttpRequest&&, const Caller&);              // POST /tokenize
void detokenize(Service&, Connection&, HttpRequest&&, const Caller&);            // POST /detokenize
void apply_template(Service&, Connection&, HttpRequest&&, const Caller&);        // POST /apply-template
void version(Service&, Connection&, HttpRequest&&, const Caller&);               // GET /version
void openapi(Service&, Connection&, HttpRequest&&, const Caller&);               // GET /openapi.json

}  // namespace endpoints
}  // namespace troupe::gateway
