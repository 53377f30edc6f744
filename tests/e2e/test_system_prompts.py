"""System prompts that are kept in the cache: warm after the start, still there when all else was pushed out, put and deleted by the admin,
loaded from the disk after a restart."""
import json
import pathlib
import random
import re
import shutil
import tempfile
import time
import unittest
import urllib.error
import urllib.request

from troupe_server import Server, model_name

SMALL_DEVICE = ("--kv-memory", "20MiB")  # some 50 blocks of this model; half of them can be pinned
WORDS = "river stone lantern orchard copper window harbour meadow thunder velvet compass island marble ribbon winter".split()
ADMIN = {"Authorization": "Bearer root-sesame"}
BLOCK = 32


def words_of(seed, count):
    """About a token a word; no two seeds share a start."""
    dice = random.Random(seed)
    return f"Story {seed}: " + " ".join(dice.choice(WORDS) for _ in range(count))


class SystemPromptsTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="troupe-prompts-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        (self.folder / "admins").write_text("root-sesame\n")
        self.first, self.second = words_of(1, 200), words_of(2, 150)
        (self.folder / "second.txt").write_text(self.second + "\n")
        (self.folder / "prompts.toml").write_text(
            f"[[prompt]]\nname = \"first\"\ntext = {json.dumps(self.first)}\n[[prompt]]\nname = \"second\"\nfile = \"second.txt\"\n")
        self.servers = []
        self.addCleanup(lambda: [server.kill() for server in self.servers])

    def serve(self, *arguments):
        server = Server(*SMALL_DEVICE, "--cache-dir", str(self.folder / "cache"), "--log-level", "info", "--admin-key-file",
                        str(self.folder / "admins"), "--system-prompts", str(self.folder / "prompts.toml"), *arguments)
        self.servers.append(server)
        return server

    def prompts(self, server):
        status, text = server.get("/v1/system_prompts", ADMIN)
        self.assertEqual(status, 200, text)
        return {prompt["name"]: prompt for prompt in json.loads(text)["data"]}

    def wait(self, server, condition, seconds=60):
        deadline = time.monotonic() + seconds
        while not condition(prompts := self.prompts(server)):
            self.assertLess(time.monotonic(), deadline, f"{prompts}\n{server.stderr}")
            time.sleep(0.1)
        return prompts

    def wait_warm(self, server, *names):
        return self.wait(server, lambda prompts: all(prompts[name]["status"] == "warm" for name in names))

    def chat(self, server, system, user, **fields):
        """(text, usage)"""
        status, body, _ = server.post("/v1/chat/completions", {
            "model": model_name(), "messages": [{"role": "system", "content": system}, {"role": "user", "content": user}], "temperature": 0,
            "max_tokens": 8, **fields})
        self.assertEqual(status, 200, body)
        return body["choices"][0]["message"]["content"], body["usage"]

    def cached(self, server, system, user="What is this about?", **fields):
        return self.chat(server, system, user, **fields)[1]["prompt_tokens_details"]["cached_tokens"]

    def push_out(self, server, first_seed, prompts=5):
        for seed in range(first_seed, first_seed + prompts):
            self.chat(server, words_of(seed, 330), "And?", max_tokens=1)

    def test_warm_after_the_start_and_whatever_comes(self):
        server = self.serve()
        prompts = self.wait_warm(server, "first", "second")
        whole = {name: prompt["tokens"] // BLOCK * BLOCK for name, prompt in prompts.items()}
        self.assertGreater(whole["first"], 150)
        self.assertEqual(prompts["first"]["memory"]["device"], whole["first"])
        # The prefix goes up to the user's words: all but they and the opening of the answer is in it.
        _, usage = self.chat(server, self.first, "Why?")
        self.assertGreaterEqual(usage["prompt_tokens_details"]["cached_tokens"], whole["first"])
        self.assertLess(usage["prompt_tokens"] - prompts["first"]["tokens"], 16)
        status, body, _ = server.post("/v1/responses", {"model": model_name(), "instructions": self.second, "input": "Why?", "max_output_tokens": 4,
                                                        "store": False})
        self.assertEqual(status, 200, body)
        self.assertGreaterEqual(body["usage"]["input_tokens_details"]["cached_tokens"], whole["second"])
        self.assertLess(self.cached(server, self.first, "salted", cache_salt="s"), BLOCK)

        other = words_of(3, 200)
        self.chat(server, other, "What is this about?")
        self.push_out(server, 10)
        self.assertLess(self.cached(server, other), BLOCK)  # the pool is that small
        self.assertGreaterEqual(self.cached(server, self.first), whole["first"])
        self.assertGreaterEqual(self.cached(server, self.second), whole["second"])
        # The same words as without the cache.
        warm = self.chat(server, self.first, "Where?")[0]
        self.assertEqual(self.chat(server, self.first, "Where?", cache_salt="cold")[0], warm)

        # Who is deleted goes like all others.
        self.assertEqual(self.delete(server, "first"), 200)
        self.assertEqual(self.delete(server, "first"), 404)
        self.push_out(server, 20)
        self.assertLess(self.cached(server, self.first), whole["first"])
        self.assertGreaterEqual(self.cached(server, self.second), whole["second"])

        self.assertEqual(len(re.findall(r"system_prompt_warm name=first tokens=\d+ ms=\d+", server.stderr)), 1, server.stderr)
        self.assertNotIn("Story", server.stderr)
        server.stop()

    def delete(self, server, name):
        request = urllib.request.Request(f"{server.url}/v1/system_prompts/{name}", headers=ADMIN, method="DELETE")
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status
        except urllib.error.HTTPError as fault:
            return fault.code

    def put(self, server, name, text, headers=ADMIN):
        return server.post("/v1/system_prompts", {"name": name, "text": text}, headers)[:2]

    def test_put_replaced_and_too_large(self):
        server = self.serve()
        self.assertEqual(self.put(server, "third", "x", {})[0], 401)
        self.wait_warm(server, "first", "second")
        new = words_of(4, 100)
        status, body = self.put(server, "first", new)
        self.assertEqual(status, 200, body)
        self.assertGreater(body["tokens"], 100)
        self.wait_warm(server, "first")
        self.push_out(server, 30)
        self.assertGreaterEqual(self.cached(server, new), body["tokens"] // BLOCK * BLOCK)
        self.assertLess(self.cached(server, self.first), BLOCK)
        # Beyond what can be pinned: said, and served like any other text.
        large = words_of(5, 700)
        status, body = self.put(server, "large", large)
        self.assertEqual(status, 200, body)
        prompts = self.wait(server, lambda prompts: prompts["large"]["status"] == "refused")
        self.assertIn("pinned", prompts["large"]["error"])
        self.assertIn("system_prompt_not_kept name=large", server.stderr)
        self.assertGreaterEqual(self.cached(server, self.second), prompts["second"]["tokens"] // BLOCK * BLOCK)
        self.chat(server, large, "And?")
        self.assertEqual(self.put(server, "huge", words_of(6, 9000))[0], 400)  # more than a context
        server.stop()

    def test_loaded_from_the_disk(self):
        server = self.serve("--disk-cache", "128MiB")
        prompts = self.wait_warm(server, "first", "second")
        server.wait_for_metrics(lambda m: sum(v for k, v in m.items() if k.startswith("troupe:cache_tier_unwritten_blocks")) == 0, 30)
        server.stop()
        server = self.serve("--disk-cache", "128MiB")
        self.wait_warm(server, "first", "second")
        hits = sum(value for key, value in server.metrics().items() if key.startswith("troupe:cache_tier_hit") and "disk" in key)
        self.assertGreater(hits, 0, server.metrics())
        self.assertGreaterEqual(self.cached(server, self.first), prompts["first"]["tokens"] // BLOCK * BLOCK)
        server.stop()


if __name__ == "__main__":
    unittest.main()
