"""SIGTERM: running requests end well, new ones get 503, the process ends with 0; a second signal, or the grace time, cuts them."""
import itertools
import signal
import socket
import threading
import time
import unittest

import websocket

from load_clients import PATIENCE, ROUTES, ask
from troupe_server import EventStream, Server, chat_body

DRAINING = ("draining", "server_draining")  # in an error object, and in a response's


class Drain(unittest.TestCase):
    def start(self, *arguments):
        server = Server(*arguments)
        self.addCleanup(server.kill)
        return server

    def test_running_streams_end_and_new_ones_are_refused(self):
        server = self.start()
        want = server.chat("Tell me about rivers.", max_tokens=120)
        stream = EventStream(server, chat_body("Tell me about rivers.", max_tokens=120))
        self.addCleanup(stream.close)
        events = stream.events()
        next(events)
        server.signal(signal.SIGTERM)
        time.sleep(0.1)
        try:
            status, body, headers = server.post("/v1/chat/completions", chat_body("Hi."))
            self.assertEqual(status, 503, body)
            self.assertIn("Retry-After", headers)
        except OSError:
            self.fail("a draining server answers 503 until its last request has ended")
        text, done = "", False
        for event in events:
            if event == "[DONE]":
                done = True
            else:
                text += event["choices"][0]["delta"].get("content") or ""
        self.assertTrue(done)
        self.assertTrue(want.endswith(text) and len(text) > 0)
        self.assertEqual(server.wait(), 0)

    def cut(self, server):
        """Reads the stream to its end; it must end in one error event, never silently."""
        stream = EventStream(server, chat_body("Tell me a very long story.", max_tokens=6000))
        self.addCleanup(stream.close)
        events = stream.events()
        next(events)
        server.signal(signal.SIGTERM)
        return events

    def errors(self, events):
        return [e for e in events if isinstance(e, dict) and "error" in e]

    def test_grace_time_cuts(self):
        server = self.start("--grace-seconds", "1")
        self.assertEqual(len(self.errors(self.cut(server))), 1)
        self.assertEqual(server.wait(), 0)

    def test_no_grace_cuts_at_once(self):
        server = self.start("--grace-seconds", "0")
        self.assertEqual(len(self.errors(self.cut(server))), 1)
        self.assertEqual(server.wait(20), 0)

    def test_second_signal_is_quicker(self):
        server = self.start("--grace-seconds", "600")
        events = self.cut(server)
        time.sleep(0.3)
        server.signal(signal.SIGINT)
        self.assertEqual(len(self.errors(events)), 1)
        self.assertEqual(server.wait(20), 0)

    def test_under_load_every_request_ends(self):
        """Streams and plain answers on every route, running, waiting and refused ones, and readers that do not read: those that can end in
        the grace time do so with the tokens of an idle server, the others with one error each."""
        server = self.start("--max-sequences", "8", "--grace-seconds", "5")
        short = {route: ask(server, route, "Tell me about rivers.", 16).text for route in ROUTES}
        ends, begun = self.load(server, [(route, max_tokens, stream) for route in ROUTES for max_tokens in (16, 16, 6000)
                                         for stream in (True, False)])
        sleepers = [EventStream(server, chat_body("Tell me a very long story.", max_tokens=6000)) for _ in range(2)]
        for sleeper in sleepers:
            self.addCleanup(sleeper.close)
        self.assertTrue(begun.wait(PATIENCE))
        server.signal(signal.SIGTERM)
        time.sleep(0.1)
        for route in ROUTES:
            try:
                end = ask(server, route, "Hi.", 1)
            except (OSError, websocket.WebSocketException) as fault:  # over already, or the handshake is refused
                refused = getattr(fault, "status_code", 503)
                self.assertEqual(refused, 503)
            else:
                self.assertEqual((end.how, end.status), ("refused", 503), f"{route}: {end}")
        for route, max_tokens, stream, end in ends():
            how = f"{route} max_tokens={max_tokens} stream={stream}: {end}"
            if end.how == "refused":  # a plain answer that was cut, or one that still waited
                self.assertIn((end.status, end.code), ((503, code) for code in DRAINING), how)
            elif end.how == "complete":
                self.assertTrue(max_tokens > 16 or end.text == short[route], how)
            else:
                self.assertIn((end.how, end.code), (("cut", code) for code in DRAINING), how)
        self.assertEqual(server.wait(PATIENCE), 0, server.stderr)

    def test_second_signal_under_load(self):
        server = self.start("--max-sequences", "4", "--grace-seconds", "600")
        ends, begun = self.load(server, [(route, 6000, stream) for route in ROUTES for stream in (True, False)])
        self.assertTrue(begun.wait(PATIENCE))
        server.signal(signal.SIGTERM)
        time.sleep(0.5)
        server.signal(signal.SIGTERM)
        for route, _, stream, end in ends():
            self.assertIn(end.how, ("cut", "refused"), f"{route} stream={stream}: {end}")
        self.assertEqual(server.wait(60), 0, server.stderr)

    def load(self, server, requests):
        """Sends all at once; returns (what waits for all their ends, an event that is set once two streams have begun)."""
        found, begun, count = [], threading.Event(), itertools.count(1)

        def one(route, max_tokens, stream):
            end = None
            try:
                end = ask(server, route, "Tell me about rivers.", max_tokens, stream, lambda: next(count) == 2 and begun.set(),
                          ignore_eos=max_tokens > 1000)
            finally:
                found.append((route, max_tokens, stream, end))

        threads = [threading.Thread(target=one, args=request) for request in requests]
        for thread in threads:
            thread.start()

        def ends():
            for thread in threads:
                thread.join(PATIENCE)
            self.assertEqual(len(found), len(requests), "requests that never ended")
            return found

        return ends, begun

    def test_an_idle_server_ends_at_once(self):
        server = self.start()
        server.signal(signal.SIGINT)
        self.assertEqual(server.wait(20), 0)

    def test_signal_while_loading(self):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        server = Server("--port", str(port), wait=False)
        self.addCleanup(server.kill)
        server.url = f"http://127.0.0.1:{port}"
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            try:
                self.assertEqual(server.get("/health")[0], 200)
                break
            except OSError:
                time.sleep(0.01)
        server.signal(signal.SIGTERM)
        self.assertEqual(server.wait(30), 0)


if __name__ == "__main__":
    unittest.main()
