"""R46: a decode that was wedged left /health green, other routes hanging, and only SIGKILL ended the process. Here the compute is made to
stall: /ready turns red while it lasts, though the process lives; when the watchdog has begun anew it is green again and the streams go
on; and SIGTERM ends the process, whatever the compute does."""
import json
import signal
import socket
import time
import unittest

from troupe_server import EventStream, Server, chat_body

STUCK_AT = 12  # step; the stream that is asked for takes more


class Stuck(unittest.TestCase):
    def start(self, fault, watchdog_ms, *arguments):
        server = Server("--fault", f"{fault}:{STUCK_AT}", "--watchdog-ms", str(watchdog_ms), *arguments)
        self.addCleanup(server.kill)
        return server

    def stream(self, server, max_tokens):
        stream = EventStream(server, chat_body("Tell me about rivers.", max_tokens=max_tokens))
        self.addCleanup(stream.close)
        self.assertEqual(stream.status, 200)
        return stream

    def wait_for_ready(self, server, status, word):
        deadline = time.monotonic() + 60
        while (found := server.get("/ready")) and (found[0], json.loads(found[1])["status"]) != (status, word):
            self.assertLess(time.monotonic(), deadline, f"/ready still answers {found}\n{server.stderr}")
            time.sleep(0.1)

    def test_r46_readiness_turns_red_and_green_again(self):
        server = self.start("stall", 6000)
        self.assertEqual(server.get("/ready")[0], 200)
        stream = self.stream(server, STUCK_AT + 4)  # one stall
        self.wait_for_ready(server, 503, "stuck")
        self.assertEqual(server.get("/health")[0], 200)
        self.assertIn("vllm:num_requests_running", server.get("/metrics")[1])
        self.wait_for_ready(server, 200, "ready")
        text, reason = stream.text()
        self.assertEqual(reason, "length")
        self.assertGreater(len(text), 0)
        server.stop()

    def test_r46_a_server_without_work_is_never_stuck(self):
        server = self.start("stall", 1000)
        self.assertEqual(server.chat("Hi.", max_tokens=2), server.chat("Hi.", max_tokens=2))
        with socket.create_connection(server.address):  # the loop looks while somebody is there
            time.sleep(2)
            self.assertEqual(server.get("/ready")[0], 200)
        self.assertNotIn("engine_stuck", server.stderr)
        server.stop()

    def end_while_stuck(self, fault, watchdog_ms):
        """SIGTERM in the middle of a stall: one terminal error in the stream; returns the exit code."""
        server = self.start(fault, watchdog_ms, "--grace-seconds", "1")
        events = self.stream(server, 200).events()
        for _ in range(3):
            next(events)
        time.sleep(1.5)  # long enough for the other steps
        server.signal(signal.SIGTERM)
        errors = [e for e in events if isinstance(e, dict) and "error" in e]
        self.assertEqual(len(errors), 1, errors)
        return server, server.wait(60)

    def test_r46_sigterm_ends_a_stalled_server(self):
        _, code = self.end_while_stuck("stall", 600_000)
        self.assertEqual(code, 0)

    def test_r46_sigterm_ends_a_server_whose_step_never_ends(self):
        server, code = self.end_while_stuck("hang", 4000)
        self.assertNotEqual(code, 0)
        self.assertIn("troupe: ", server.stderr)


if __name__ == "__main__":
    unittest.main()
