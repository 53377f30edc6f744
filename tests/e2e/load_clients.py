"""What the tests of overload, drain and soak share: one question over any route of the API, and how it ended."""
import dataclasses
import json

import websocket

from troupe_server import EventStream, chat_body, model_name

PATHS = {"chat": "/v1/chat/completions", "completions": "/v1/completions", "responses": "/v1/responses"}
ROUTES = (*PATHS, "websocket")
PATIENCE = 240  # seconds; a request that takes longer hangs


@dataclasses.dataclass
class Ending:
    """How a request ended: "complete", "refused" (a status that is not 200, or the same on a WebSocket), "cut" (begun, then one
    terminal error), or "silent", which no request may be."""
    how: str
    status: int = 200
    text: str = ""
    code: str = ""
    retry_after: int = 0


def question(route, text, max_tokens, **fields):
    """The greedy body of a question for a route; the same tokens on each but completions, which has no template."""
    if route == "chat":
        return chat_body(text, max_tokens=max_tokens, **fields)
    if route == "completions":
        return {"model": model_name(), "prompt": text, "temperature": 0, "max_tokens": max_tokens, **fields}
    return {"model": model_name(), "input": text, "temperature": 0, "max_output_tokens": max_tokens, "store": False, **fields}


def ask(server, route, text, max_tokens, stream=False, begun=None, **fields):
    """Asks and waits for the end. `begun()` is called at the first event of a stream."""
    body = question(route, text, max_tokens, **fields)
    if route == "websocket":
        return ask_socket(server, body, begun)
    answer = EventStream(server, body, path=PATHS[route], stream=stream, timeout=PATIENCE)
    try:
        if answer.status != 200:
            return refused(answer.status, answer.object()["error"], int(answer.headers.get("retry-after", "0")))
        if not stream:
            return Ending("complete", text=text_of(answer.object()))
        return follow(with_first(answer.events(), begun))
    except (ConnectionError, ValueError):
        return Ending("silent")
    finally:
        answer.close()


def ask_socket(server, body, begun=None):
    host, port = server.address
    try:
        connection = websocket.create_connection(f"ws://{host}:{port}/v1/responses", timeout=PATIENCE)
    except websocket.WebSocketBadStatusException as refusal:
        return refused(refusal.status_code, json.loads(refusal.resp_body)["error"], int(refusal.resp_headers.get("retry-after", "0")))
    try:
        connection.send(json.dumps({"type": "response.create", **body}))
        return follow(with_first(socket_events(connection), begun))
    except (ConnectionError, websocket.WebSocketException):
        return Ending("silent")
    finally:
        connection.close()


def socket_events(connection):
    while True:
        text = connection.recv()
        if not text:  # closed
            return
        yield json.loads(text)


def with_first(events, begun):
    for number, event in enumerate(events):
        if number == 0 and begun is not None:
            begun()
        yield event


def refused(status, error, retry_after):
    return Ending("refused", status, code=error["code"], retry_after=retry_after)


def text_of(answer):
    """Text of an answer that is not streamed, of whichever route."""
    if "output" in answer:
        return "".join(part["text"] for item in answer["output"] for part in item["content"])
    choice = answer["choices"][0]
    return choice["message"]["content"] if "message" in choice else choice["text"]


def follow(events):
    """Reads a stream to its end; more than one terminal event is a fault of its own."""
    text, ending, started, finished = "", None, False, set()
    for event in events:
        if event == "[DONE]":
            break
        kind = event.get("type", "")
        if kind == "error" or "error" in event and not kind:
            error = event.get("error") or {}
            if not started and event.get("status", 200) != 200:
                return refused(event["status"], error, event.get("retry_after", 0))
            assert ending is None, f"a second terminal event: {event}"
            ending = Ending("cut", code=error.get("code") or "", text=text)
        elif kind.startswith("response."):
            started = True
            if kind == "response.output_text.delta":
                text += event["delta"]
            elif kind in ("response.completed", "response.incomplete"):
                return Ending("complete", text=text)
            elif kind in ("response.failed", "response.cancelled"):
                return Ending("cut", text=text, code=((event["response"].get("error") or {}).get("code") or ""))
        for choice in event.get("choices", ()):
            started = True
            text += (choice["delta"].get("content") or "") if "delta" in choice else choice["text"]
            if choice["finish_reason"]:
                assert choice["index"] not in finished, f"a second terminal event: {event}"
                finished.add(choice["index"])
                ending = ending or Ending("complete")
    if ending is None:
        return Ending("silent", text=text)
    ending.text = text
    return ending
