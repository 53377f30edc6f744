"""The clients of the soak: each action is one thing that a client may do, with random details. An action raises if the server did what it
must not: no answer, a status that has no place, a stream without an end, another greedy text, a message that is not JSON."""
import collections
import json
import random
import socket
import struct
import threading
import time

import websocket

import load_clients
from load_clients import PATHS, ROUTES, ask, question
from troupe_server import EventStream, model_name

REFERENCE = "What is bread?"
WORDS = ("river", "bread", "moon", "train", "naïve", "числа", "音楽", "🚢", "rain", "\n", "  ", "zero\u200dwidth", "<|im_end|>", "\\", '"')
REFUSALS = (400, 404, 408, 413, 422, 429, 503, 504)  # to a request that was read; never 500


class World:
    """The server under test and what all clients know of it. Any thread."""

    def __init__(self, server):
        self.server = server
        begin = time.monotonic()
        self.reference = reference_text(server)
        # A program built with sanitizers takes minutes for what others do in a second: it gets less to read, but as much that is too long.
        self.slow = time.monotonic() - begin > 0.3  # a tenth of it otherwise
        self.prompt_words = (100, 300, 12_000) if self.slow else (300, 1500, 7000, 12_000)
        self.statuses = collections.Counter()
        self.stored = collections.deque(maxlen=50)  # ids of responses
        self.lock = threading.Lock()

    def count(self, key):
        with self.lock:
            self.statuses[str(key)] += 1


def reference_text(server):
    end = ask(server, "chat", REFERENCE, 16)
    return end.text if end.how == "complete" else None


def expect(good, what):
    if not good:
        raise AssertionError(what)


def text(chance, longest=40):
    return " ".join(chance.choice(WORDS) for _ in range(chance.randint(1, longest)))


def fields(chance, route):
    """Some of the fields that a route takes, with good values."""
    all_of = {"temperature": chance.uniform(0, 2), "top_p": chance.uniform(0.1, 1), "top_k": chance.randint(-1, 60), "min_p": 0.05,
              "seed": chance.getrandbits(31), "repetition_penalty": 1.1, "priority": chance.randint(-5, 5), "cache_salt": chance.choice("abc"),
              "deadline_ms": chance.choice((1, 50, 2000, 100_000)), "ignore_eos": True}
    if route in ("chat", "completions"):
        all_of |= {"n": chance.randint(2, 4), "stop": [text(chance, 2) for _ in range(chance.randint(1, 4))], "presence_penalty": 0.5,
                   "frequency_penalty": -0.5, "logit_bias": {str(chance.randrange(49152)): chance.choice((-100, 5))},
                   "stream_options": {"include_usage": True}}
        all_of |= {"logprobs": True, "top_logprobs": 3} if route == "chat" else {"logprobs": 3, "echo": True}
    picked = {key: all_of[key] for key in chance.sample(sorted(all_of), chance.randint(0, 4))}
    if "top_logprobs" in picked:
        picked["logprobs"] = True
    return picked


def answered(world, end, what):
    """Counts how a request ended that its client waited for."""
    world.count(end.status if end.how == "refused" else end.how)
    expect(end.how in ("complete", "cut") or end.how == "refused" and end.status in REFUSALS, f"{what}: {end}")


def ask_well(world, chance):
    route, stream = chance.choice(ROUTES), chance.random() < 0.6
    more = fields(chance, route)
    if not stream:
        more.pop("stream_options", None)
    prompt = text(chance)
    answered(world, ask(world.server, route, prompt, chance.randint(1, 40), stream, **more), (route, prompt, stream, more))


def ask_the_same(world, _chance):
    end = ask(world.server, "chat", REFERENCE, 16, stream=True)
    answered(world, end, REFERENCE)
    expect(end.how != "complete" or end.text == world.reference, f"the greedy answer has changed: {end.text!r}")


def ask_at_length(world, chance):
    route = chance.choice(ROUTES)
    prompt = text(chance, 4) + " " + "word " * chance.choice(world.prompt_words)
    answered(world, ask(world.server, route, prompt, chance.randint(1, 8), chance.random() < 0.5), (route, len(prompt)))


def reset(connection):
    """Closes so that the other side sees a reset."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def leave(world, chance):
    """A stream that its client leaves: at once, during the prompt or after some events; politely or not."""
    route = chance.choice(list(PATHS))
    stream = EventStream(world.server, question(route, text(chance, 300), 200, **fields(chance, route)), path=PATHS[route],
                         timeout=load_clients.PATIENCE)
    try:
        world.count(stream.status)
        expect(stream.status == 200 or stream.status in REFUSALS, f"status {stream.status}")
        events = stream.events() if stream.status == 200 else iter(())
        for _ in range(chance.randrange(12)):
            next(events, None)
        if chance.random() < 0.5:
            reset(stream.socket)
    finally:
        stream.close()


def raw(world, data, chance, read=True):
    """Sends bytes as they are, perhaps in pieces; what comes back until the server closes or says nothing for some seconds."""
    with socket.create_connection(world.server.address, timeout=15) as connection:
        try:
            step = chance.choice((len(data), 1 + len(data) // 3, 1 + len(data) // 10)) or 1
            for start in range(0, len(data), step):
                connection.sendall(data[start:start + step])
                time.sleep(chance.choice((0, 0, 0.01)))
            if not read:
                if chance.random() < 0.5:
                    reset(connection)
                return b""
            return connection.recv(65536)
        except OSError:
            return b""


def post_bytes(path, body, more=b""):
    return b"POST " + path.encode() + b" HTTP/1.1\r\nHost: localhost\r\n" + more + b"Content-Length: %d\r\n\r\n" % len(body) + body


def leave_early(world, chance):
    """Sends a request, or half of it, and is gone."""
    route = chance.choice(list(PATHS))
    data = post_bytes(PATHS[route], json.dumps(question(route, text(chance, 2000), 50, stream=True)).encode())
    raw(world, data[:chance.choice((len(data), len(data) // 2, 20))], chance, read=False)


def broken_json(chance, route):
    """A body that must be refused."""
    good = json.dumps(question(route, text(chance), 5)).encode()
    kind = chance.randrange(6)
    if kind == 0:
        return good[:chance.randrange(len(good))]
    if kind == 1:
        return b"[" * chance.randint(70, 5000)
    if kind == 2:
        return good.replace(b'"', b"\xc4\xe3", 1)
    if kind == 3:
        return chance.choice((b"[]", b'"x"', b"null", b"1", b"", b"{", b"\xff\xfe"))
    body = json.loads(good)
    if kind == 4:
        body[chance.choice(("temperature", "top_p", "seed", "stream", "max_tokens" if route != "responses" else "max_output_tokens"))] = \
            chance.choice(("hot", [], {}, -1e99, [1], {"a": 1}))
    else:
        body[{"chat": "messages", "completions": "prompt", "responses": "input"}[route]] = chance.choice((5, {}, True, [[[]]], [{"role": 1}]))
    return json.dumps(body).encode()


def send_nonsense(world, chance):
    route = chance.choice(list(PATHS))
    body = broken_json(chance, route)
    status, answer, _ = world.server.post(PATHS[route], body, timeout=load_clients.PATIENCE)
    world.count(status)
    expect(status in REFUSALS and status not in (408, 504) and answer["error"]["message"], f"{route} {body[:200]!r}: {status} {answer}")


def send_bytes(world, chance):
    """What is not HTTP at all, or nearly is."""
    good = post_bytes("/v1/chat/completions", json.dumps(question("chat", "Hi.", 1)).encode())
    kind = chance.randrange(5)
    if kind == 0:
        data = chance.randbytes(chance.randint(1, 3000))
    elif kind == 1:
        place = chance.randrange(len(good))
        data = good[:place] + chance.randbytes(3) + good[place + 3:]
    elif kind == 2:
        data = b"GET / HTTP/1.1\r\n" + b"".join(b"H%d: %s\r\n" % (n, b"x" * 200) for n in range(200)) + b"\r\n"
    elif kind == 3:
        data = post_bytes("/v1/chat/completions", b"x" * 10, b"Transfer-Encoding: chunked\r\n")
    else:
        data = good * 3  # three requests in a row
    raw(world, data + b"\r\n\r\n", chance)


def send_too_much(world, chance):
    body = json.dumps(question("chat", "x" * chance.randint(200_001, 400_000), 1)).encode()
    answer = raw(world, post_bytes("/v1/chat/completions", body), chance)
    expect(answer == b"" or b" 413 " in answer.split(b"\r\n", 1)[0], answer[:200])  # empty: the answer was lost in the reset


def read_slowly(world, chance):
    """Reads nothing for a while, then the rest, if it is still there."""
    stream = EventStream(world.server, question("chat", text(chance), 300, n=4, logprobs=True, top_logprobs=20, ignore_eos=True),
                         timeout=load_clients.PATIENCE)
    try:
        stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        time.sleep(chance.uniform(1, 8))
        if stream.status == 200 and chance.random() < 0.5:
            for _ in stream.events():
                pass
    except (ConnectionError, ValueError):
        world.count("slow reader cut")
    finally:
        stream.close()


def say_nothing(world, chance):
    with socket.create_connection(world.server.address, timeout=15) as connection:
        connection.sendall(chance.choice((b"", b"", b"GET", b"GET / HTTP/1.1\r\nHo")))
        time.sleep(chance.uniform(0.1, 6))


def branch_on_socket(world, chance):
    """Lanes of one WebSocket: answers, continuations, cancels and bad events in any order; at the end it may simply leave."""
    host, port = world.server.address
    connection = websocket.create_connection(f"ws://{host}:{port}/v1/responses", timeout=load_clients.PATIENCE)
    open_lanes, parents = set(), []
    try:
        for _ in range(chance.randint(1, 8)):
            lane = f"lane{chance.randrange(4)}"
            kind = chance.random()
            if kind < 0.15:
                connection.send(chance.choice(("{", "[]", '{"type":"x"}', '{"type":"response.create"}', "\u0000", '{"type":"response.cancel"}')))
            elif kind < 0.2:
                connection.send_binary(chance.randbytes(20))
            elif kind < 0.3:
                connection.ping()
            elif kind < 0.5 and lane in open_lanes:
                connection.send(json.dumps({"type": "response.cancel", "stream_id": lane}))
            elif lane not in open_lanes:
                body = {"type": "response.create", "stream_id": lane, "model": model_name(), "input": text(chance), "max_output_tokens": 24}
                if parents and chance.random() < 0.5:
                    body["previous_response_id"] = chance.choice(parents)
                if chance.random() < 0.1:
                    body["generate"] = False
                connection.send(json.dumps(body))
                open_lanes.add(lane)
            if chance.random() < 0.4:
                drain_lanes(world, connection, open_lanes, parents, limit=20)
        if chance.random() < 0.7:
            drain_lanes(world, connection, open_lanes, parents)
        elif chance.random() < 0.5:
            reset(connection.sock)
    finally:
        connection.close(timeout=1) if chance.random() < 0.5 else connection.shutdown()


def drain_lanes(world, connection, open_lanes, parents, limit=1 << 30):
    """Reads until no lane is open, or `limit` events."""
    while open_lanes and limit > 0:
        limit -= 1
        event = json.loads(connection.recv())
        kind, lane = event["type"], event.get("stream_id")
        if kind == "response.completed" or kind == "response.incomplete":
            parents.append(event["response"]["id"])
            world.stored.append(event["response"]["id"])
        if kind == "error" and event.get("status", 400) not in (*REFUSALS, 499):
            raise AssertionError(event)
        if kind in ("response.completed", "response.incomplete", "response.failed", "response.cancelled", "error"):
            open_lanes.discard(lane)
            world.count(kind)


def use_stored(world, chance):
    """Makes a stored response, or reads, resumes, cancels, continues or deletes one that another client made."""
    if not world.stored or chance.random() < 0.3:
        body = {"model": model_name(), "input": text(chance), "max_output_tokens": 30}
        stream = EventStream(world.server, body, path="/v1/responses", timeout=load_clients.PATIENCE)
        try:
            for number, event in enumerate(stream.events() if stream.status == 200 else ()):
                if event["type"] == "response.created":
                    world.stored.append(event["response"]["id"])
                if number > 10 and chance.random() < 0.2:
                    break  # it goes on without a reader
        finally:
            stream.close()
        return
    wanted = "/v1/responses/" + chance.choice(list(world.stored))
    kind = chance.randrange(6)
    if kind == 0:
        status, _ = world.server.get(wanted)
    elif kind == 1:
        status, _ = world.server.get(wanted + f"?stream=true&starting_after={chance.randrange(20)}")
    elif kind == 2:
        status, _, _ = world.server.post(wanted + "/cancel", b"", timeout=load_clients.PATIENCE)
    elif kind == 3:
        status, _ = world.server.get(wanted + "/input_items")
    elif kind == 4:
        status = answer_status(raw(world, b"DELETE " + wanted.encode() + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", chance))
    else:
        body = {"model": model_name(), "input": text(chance, 5), "max_output_tokens": 10, "previous_response_id": wanted.split("/")[-1]}
        status, _, _ = world.server.post("/v1/responses", body, timeout=load_clients.PATIENCE)
    world.count(status)
    expect(status == 200 or status in REFUSALS or status == 409, f"{kind} {wanted}: {status}")


def answer_status(answer):
    return int(answer.split(b" ", 2)[1]) if answer else 400


def use_the_rest(world, chance):
    """All other routes."""
    if chance.random() < 0.5:
        path = chance.choice(("/", "/app.js", "/health", "/ready", "/metrics", "/v1/models", "/version", "/openapi.json", "/nothing", "/config",
                              "/v1/models/none"))
        status, _ = world.server.get(path)
        expect(status in (200, 401, 403, 404), f"{path}: {status}")
    else:
        path, body = chance.choice((("/tokenize", {"content": text(chance)}), ("/tokenize", {"prompt": text(chance, 3000)}),
                                    ("/detokenize", {"tokens": [chance.randrange(50_000) for _ in range(20)]}),
                                    ("/apply-template", {"messages": [{"role": "user", "content": text(chance)}]}),
                                    ("/v1/chat/completions/input_tokens", question("chat", text(chance), 1))))
        status, answer, _ = world.server.post(path, body, timeout=load_clients.PATIENCE)
        expect(status in (200, 400, 429), f"{path}: {status} {answer}")
    world.count(status)


ACTIONS = {  # name: (how often, function)
    "ask well": (30, ask_well), "ask the same": (6, ask_the_same), "ask at length": (3, ask_at_length), "leave": (15, leave),
    "leave early": (8, leave_early), "send nonsense": (12, send_nonsense), "send bytes": (8, send_bytes), "send too much": (2, send_too_much),
    "read slowly": (3, read_slowly), "say nothing": (4, say_nothing), "branch on a socket": (10, branch_on_socket),
    "use stored": (8, use_stored), "use the rest": (10, use_the_rest)}
