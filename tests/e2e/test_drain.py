"""SIGTERM: running requests end well, new ones get 503, the process ends with 0; a second signal, or the grace time, cuts them."""
import signal
import socket
import time
import unittest

from troupe_server import EventStream, Server, chat_body


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
