"""Overload, too long prompts, clients that leave, bad requests: the answer says what is wrong and the process lives."""
import json
import socket
import threading
import unittest

from troupe_server import EventStream, ServerTest, chat_body, is_idle, model_name


class Overload(ServerTest):
    arguments = ("--max-sequences", "1", "--max-queue", "1")

    def test_queue_full_is_429_with_retry_after(self):
        stream = EventStream(self.server, chat_body("Tell me a long story.", max_tokens=400))
        events = stream.events()
        next(events)  # it runs
        waiting = []

        def ask():
            waiting.append(self.server.post("/v1/chat/completions", chat_body("Hi.", max_tokens=2)))

        threads = [threading.Thread(target=ask) for _ in range(6)]
        for thread in threads:
            thread.start()
        self.assertEqual(list(events)[-1], "[DONE]")
        stream.close()
        for thread in threads:
            thread.join()
        refused = [w for w in waiting if w[0] == 429]
        served = [w for w in waiting if w[0] == 200]
        self.assertEqual(len(refused) + len(served), 6)
        self.assertGreaterEqual(len(refused), 4)
        self.assertGreaterEqual(len(served), 1)
        for _, body, headers in refused:
            self.assertEqual(body["error"]["code"], "queue_full")
            self.assertGreaterEqual(int(headers["Retry-After"]), 1)
        self.server.wait_idle()


class Limits(ServerTest):
    arguments = ("--allowed-host", "chat.example")

    def test_context_length_exceeded_names_both_counts(self):
        status, body, _ = self.server.post("/v1/chat/completions", chat_body("one two three " * 4000, max_tokens=2))
        self.assertEqual(status, 400)
        self.assertEqual(body["error"]["code"], "context_length_exceeded")
        self.assertRegex(body["error"]["message"], r"8192")
        self.assertRegex(body["error"]["message"], r"1[0-9]{4}")

    def test_text_that_never_fits_costs_no_tokenizing(self):
        for text in (" " * 1_900_000, "a" * 1_900_000):
            status, body, _ = self.server.post("/v1/chat/completions", chat_body(text, max_tokens=2))
            self.assertEqual(status, 400)
            self.assertEqual(body["error"]["code"], "context_length_exceeded")
            self.assertRegex(body["error"]["message"], r"8192 tokens.* 190\d{4} bytes")

    def test_ids_out_of_the_vocabulary(self):
        for field, value in (("logit_bias", {"49152": 5}), ("logit_bias", {"4294967294": 5}), ("stop_token_ids", [49152])):
            status, body, _ = self.server.post("/v1/chat/completions", chat_body("x", max_tokens=2, **{field: value}))
            self.assertEqual((status, body["error"]["param"]), (400, field), body)

    def test_a_client_that_leaves_frees_its_blocks(self):
        self.server.chat("Hi.")
        before = self.server.wait_idle()
        streams = [EventStream(self.server, chat_body(f"Story {i}: tell it at length.", max_tokens=3000)) for i in range(8)]
        for stream in streams:
            next(stream.events())
        self.assertGreater(self.server.metrics()["vllm:num_requests_running"], 0)
        for stream in streams:
            stream.close()
        after = self.server.wait_for_metrics(
            lambda m: is_idle(m) and m["vllm:kv_cache_usage_perc"] <= before["vllm:kv_cache_usage_perc"] + 0.02)
        self.assertLess(after["vllm:generation_tokens_total"], 8 * 3000)

    def test_r40_a_client_that_leaves_during_prefill(self):
        """A client that had gone while its prompt was processed kept the engine busy with the rest of it."""
        before = self.server.wait_idle()["vllm:prompt_tokens_total"]
        data = json.dumps(chat_body("word " * 6000, max_tokens=2000, stream=True)).encode()
        connection = socket.create_connection(self.server.address)
        connection.sendall(f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data)
        self.server.wait_for_metrics(lambda m: not is_idle(m))
        connection.close()
        after = self.server.wait_idle()["vllm:prompt_tokens_total"]
        self.assertLess(after - before, 5000)  # of 6000: the chunks that were under way when the metrics were read

    def test_bad_requests(self):
        ask = lambda **fields: {**chat_body("x", max_tokens=2), **fields}  # noqa: E731
        cases = [
            (b"{", None), (b"[]", None), (b"", None), (b'{"messages": "x"}', "messages"),
            (ask(messages=[]), "messages"), (ask(messages=[{"role": "user"}]), "messages"), (ask(messages=[{"role": 3, "content": "x"}]), "messages"),
            (ask(temperature="hot"), "temperature"), (ask(temperature=-1), "temperature"), (ask(top_p=2), "top_p"),
            (ask(max_tokens=-5), "max_tokens"), (ask(max_tokens=1.5), "max_tokens"), (ask(n=0), "n"), (ask(n=1000), "n"),
            (ask(stop=[""]), "stop"), (ask(stop=["a"] * 99), "stop"), (ask(top_logprobs=50, logprobs=True), "top_logprobs"),
            (ask(seed="x"), "seed"), (ask(stream="yes"), "stream"), (b'{"messages":' + b"[" * 500, None),
        ]
        for body, parameter in cases:
            with self.subTest(body=str(body)[:60]):
                status, answer, _ = self.server.post("/v1/chat/completions", body)
                self.assertEqual(status, 400, answer)
                self.assertEqual(answer["error"]["type"], "invalid_request_error")
                if parameter:
                    self.assertIn(parameter, answer["error"]["param"])
        self.assertEqual(self.server.get("/v1/nothing")[0], 404)
        self.assertEqual(self.server.get("/v1/chat/completions")[0], 405)
        self.assertEqual(self.server.get("/health")[0], 200)
        self.assertEqual(self.server.get("/ready")[0], 200)
        self.assertIn(model_name(), self.server.get("/v1/models")[1])

    def test_foreign_pages_and_hosts_are_refused(self):
        self.assertEqual(self.server.get("/v1/models", {"Origin": "https://evil.example"})[0], 403)
        self.assertEqual(self.server.get("/v1/models", {"Host": "evil.example"})[0], 403)
        self.assertEqual(self.server.get("/v1/models", {"Host": "chat.example"})[0], 200)
        self.assertEqual(self.server.get("/v1/models", {"Origin": self.server.url})[0], 200)


if __name__ == "__main__":
    unittest.main()
