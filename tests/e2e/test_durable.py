"""Stored responses that survive: a server is ended or killed and started again on the same folder; what was answered as stored is there, is
continued with the same tokens, listed, measured, scored and deleted."""
import json
import os
import pathlib
import signal
import tempfile
import threading
import unittest
import urllib.request

from troupe_server import LONG, Server, model_name

KILLS = 10 if LONG else 2


def text_of(response):
    return "".join(part["text"] for item in response["output"] for part in item["content"])


class Client:
    """One server after the other on one folder."""

    def __init__(self, folder, *arguments):
        self.arguments = ("--cache-dir", str(folder), "--disk-cache", "64MiB", "--kv-memory", "256MiB", *arguments)
        self.server = Server(*self.arguments)

    def restart(self, kill):
        if kill:
            self.server.signal(signal.SIGKILL)
            self.server.wait()
        else:
            self.server.stop()
        self.server = Server(*self.arguments)

    def create(self, text, expect=200, **fields):
        body = {"model": model_name(), "input": text, "temperature": 0, "max_output_tokens": 24, **fields}
        status, answer, _ = self.server.post("/v1/responses", body)
        assert status == expect, answer
        return answer

    def ask(self, method, path, body=None):
        request = urllib.request.Request(self.server.url + "/v1/responses" + path, method=method,
                                         data=None if body is None else json.dumps(body).encode())
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as fault:
            return fault.code, json.loads(fault.read())


class Durable(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def start(self, *arguments):
        client = Client(self.folder.name, *arguments)
        self.addCleanup(lambda: client.server.kill() if client.server.process.poll() is None else None)
        return client

    def test_a_conversation_goes_on_after_a_restart_with_the_same_tokens(self):
        client = self.start()
        first = client.create("Name three colors.")
        self.assertNotIn("store_error", first)
        second = client.create("Name three animals.", previous_response_id=first["id"])
        expected = text_of(client.create("And which of them can fly?", previous_response_id=second["id"], store=False))
        for kill in (False, True):
            client.restart(kill)
            status, found = client.ask("GET", "/" + second["id"])
            self.assertEqual((status, text_of(found), found["status"]), (200, text_of(second), second["status"]))
            self.assertEqual(found["usage"]["total_tokens"], second["usage"]["total_tokens"])
            again = client.create("And which of them can fly?", previous_response_id=second["id"], store=False)
            self.assertEqual(text_of(again), expected)
        third = client.create("And which of them can fly?", previous_response_id=second["id"])
        status, listed = client.ask("GET", "")
        self.assertEqual({e["id"]: (e["previous_response_id"], e["stored"]) for e in listed["data"]},
                         {first["id"]: (None, "disk"), second["id"]: (first["id"], "disk"), third["id"]: (second["id"], "disk")})
        mode = os.stat(pathlib.Path(self.folder.name) / "responses.sqlite").st_mode
        self.assertEqual(mode & 0o777, 0o600)
        status, deleted = client.ask("DELETE", f"/{second['id']}?subtree=true")
        self.assertEqual((status, deleted["responses"]), (200, 2))
        client.restart(kill=True)
        self.assertEqual(client.ask("GET", "/" + second["id"])[0], 404)
        self.assertEqual(client.ask("GET", "/" + first["id"])[0], 200)
        client.create("More.", expect=404, previous_response_id=third["id"])
        client.server.stop()

    def test_pins_and_memory(self):
        client = self.start()
        made = client.create("Tell me about the sea. " * 20)
        status, memory = client.ask("GET", f"/{made['id']}/memory")
        self.assertEqual(status, 200, memory)
        self.assertEqual(memory["path_tokens"], made["usage"]["total_tokens"])
        self.assertEqual(sum(memory["tokens"].values()), memory["path_tokens"])
        self.assertGreater(memory["tokens"]["device"], 64)
        self.assertGreater(memory["bytes"], 0)
        status, pinned = client.ask("POST", f"/{made['id']}/pin", {"ttl_seconds": 600})
        self.assertEqual((status, pinned["pinned"]), (200, True))
        self.assertGreater(client.ask("GET", "")[1]["data"][0]["pin_seconds_left"], 590)
        client.restart(kill=True)
        self.assertGreater(client.ask("GET", "")[1]["data"][0]["pin_seconds_left"], 500)
        self.assertEqual(client.ask("POST", f"/{made['id']}/pin", {"ttl_seconds": 0})[1]["pinned"], False)
        self.assertEqual(client.ask("GET", "")[1]["data"][0]["pin_seconds_left"], 0)
        self.assertEqual(client.ask("POST", "/resp_nobody/pin", {"ttl_seconds": 5})[0], 404)
        client.server.stop()

    def test_scores_are_the_log_probabilities_of_the_answer(self):
        client = self.start()
        question = "Where is the Eiffel Tower?"
        path = client.create(question, generate=False)
        answer = client.create(question, include=["message.output_text.logprobs"], max_output_tokens=12)
        entries = answer["output"][0]["content"][0]["logprobs"]
        text = text_of(answer)
        status, scored = client.ask("POST", f"/{path['id']}/score", {"continuations": [text, " No idea.", " No"]})
        self.assertEqual(status, 200, scored)
        best, other, start = scored["scores"]
        self.assertEqual(best["token_logprobs"], [e["logprob"] for e in entries][:len(best["tokens"])])
        self.assertAlmostEqual(best["logprob"], sum(best["token_logprobs"]), places=5)
        self.assertEqual(other["token_logprobs"][0], start["token_logprobs"][0])
        by_ids = client.ask("POST", f"/{path['id']}/score", {"continuations": [best["tokens"]]})[1]
        self.assertEqual(by_ids["scores"][0]["token_logprobs"], best["token_logprobs"])
        self.assertEqual(client.ask("POST", f"/{path['id']}/score", {"continuations": [[10**8]]})[0], 400)
        self.assertEqual(client.ask("POST", "/resp_nobody/score", {"continuations": ["x"]})[0], 404)
        client.server.stop()

    def test_a_second_server_on_the_folder_says_that_it_keeps_nothing(self):
        client = self.start()
        made = client.create("Name three colors.")
        second = self.start()
        answer = second.create("Name three colors.")
        self.assertEqual(answer["store_error"]["type"], "server_error")
        self.assertEqual(text_of(answer), text_of(made))
        self.assertEqual(second.ask("GET", "/" + answer["id"])[0], 200)  # in memory
        second.server.stop()
        self.assertIn("responses_not_on_disk", second.server.stderr)
        client.server.stop()

    def test_nothing_that_was_answered_is_lost_when_the_server_is_killed(self):
        client = self.start()
        stored = {}
        for kill in range(KILLS):
            server = client.server
            timer = threading.Timer(0.37 * kill % 1.5, lambda: server.signal(signal.SIGKILL))
            previous = {"previous_response_id": next(iter(stored))} if stored else {}
            try:
                while True:
                    made = client.create(f"Say {len(stored)}.", max_output_tokens=3, **previous)
                    stored[made["id"]] = text_of(made)
                    if timer.ident is None:  # each round stores one, however busy the machine is
                        timer.start()
            except (OSError, urllib.error.URLError, ConnectionError, ValueError):
                pass
            timer.join()
            server.wait()
            client.server = Server(*client.arguments)
            for response_id, text in stored.items():
                status, found = client.ask("GET", "/" + response_id)
                self.assertEqual((status, text_of(found)), (200, text))
        self.assertGreaterEqual(len(stored), KILLS)
        client.server.stop()


if __name__ == "__main__":
    unittest.main()
