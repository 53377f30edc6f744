"""GET /v1/cache/events: who applies the events has what the tiers have, comes back where he stopped, and sees a restart by the ids."""
import http.client
import json
import pathlib
import shutil
import tempfile
import threading
import time
import unittest

from test_cache import prompt_of
from troupe_server import Server, model_name

KEY = {"Authorization": "Bearer root-sesame"}


class Follower:
    """Knows what it was told: the keys of each tier, and the last id."""

    def __init__(self):
        self.keys = {"device": set(), "host": set(), "disk": set()}
        self.tokens = {}
        self.last_id = self.first = self.fault = None
        self.connection = None

    def follow(self, server):
        self.connection = http.client.HTTPConnection(*server.address, timeout=60)
        self.connection.request("GET", "/v1/cache/events?tokens=true", headers={**KEY, **({"Last-Event-ID": self.last_id} if self.last_id else {})})
        self.answer = self.connection.getresponse()
        assert self.answer.status == 200, self.answer.read()
        self.first = None
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self):
        identity = None
        try:
            for line in self.answer:
                text = line.decode().rstrip("\n")
                if text.startswith("id: "):
                    identity = text[4:]
                elif text.startswith("data: "):
                    self._apply(json.loads(text[6:]))
                    if identity:
                        self.last_id, identity = identity, None
        except (OSError, ValueError, http.client.HTTPException, AttributeError):
            pass  # cut off
        except AssertionError as fault:
            self.fault = fault

    def _apply(self, event):
        self.first = self.first or event
        if event["type"] == "cleared":
            for tier in [event["tier"]] if event["tier"] else self.keys:
                self.keys[tier].clear()
        elif event["type"] == "stored":
            assert event["key"] not in self.keys[event["tier"]], event
            self.keys[event["tier"]].add(event["key"])
            if event["tokens"]:
                self.tokens[event["key"]] = (event["parent"], event["tokens"])
        else:
            assert event["key"] in self.keys[event["tier"]], event
            self.keys[event["tier"]].remove(event["key"])

    def leave(self):
        self.connection.sock.shutdown(2)
        self.thread.join(10)


class CacheEvents(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="troupe-events-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        (self.folder / "admins").write_text("root-sesame\n")

    def serve(self):
        server = Server("--kv-memory", "20MiB", "--host-cache", "64MiB", "--disk-cache", "64MiB", "--cache-dir", str(self.folder / "cache"),
                        "--admin-key-file", str(self.folder / "admins"))
        self.addCleanup(server.kill)
        return server

    def ask(self, server, seed):
        body = {"model": model_name(), "prompt": prompt_of(seed, 300), "max_tokens": 1, "temperature": 0}
        self.assertEqual(server.post("/v1/completions", body)[0], 200)

    def agree(self, server, follower):
        """Nothing is being written down any more, and the follower has as many blocks as each tier."""
        def agreed(metrics):
            unwritten = sum(v for k, v in metrics.items() if k.startswith("troupe:cache_tier_unwritten_blocks"))
            counts = {tier: metrics[f'troupe:cache_tier_blocks{{state="stored",tier="{tier}"}}'] for tier in ("host", "disk")}
            return unwritten == 0 and all(len(follower.keys[tier]) == count for tier, count in counts.items())
        server.wait_for_metrics(agreed, 30)
        self.assertIsNone(follower.fault)

    def test_a_follower_that_leaves_and_comes_back(self):
        server = self.serve()
        self.assertEqual(server.get("/v1/cache/events")[0], 401)  # no key
        self.assertEqual(server.get("/v1/cache/events?after=seven", KEY)[0], 400)
        self.ask(server, 1)
        follower = Follower()
        follower.follow(server)
        self.ask(server, 2)
        self.agree(server, follower)
        self.assertEqual((follower.first["type"], follower.first["tier"]), ("cleared", None))
        self.assertGreater(len(follower.keys["device"]), 10)

        # Token ids are those of the prompt, block by block.
        tokens = server.post("/tokenize", {"content": prompt_of(2, 300)})[1]["tokens"]
        children = {parent: (key, ids) for key, (parent, ids) in follower.tokens.items() if ids == tokens[:32] or parent}
        parent, found = None, 0
        while parent in children and children[parent][1] == tokens[found * 32:found * 32 + 32]:
            parent, found = children[parent][0], found + 1
        self.assertGreater(found, 8)

        follower.leave()
        number = int(follower.last_id.split("-")[1])
        for seed in range(3, 7):  # the device is too small for all of it
            self.ask(server, seed)
        follower.follow(server)
        self.agree(server, follower)
        self.assertEqual(follower.first["number"], number + 1)
        self.assertGreater(len(follower.keys["host"]), len(follower.keys["device"]))

        life, on_disk = follower.last_id.split("-")[0], set(follower.keys["disk"])
        began = time.monotonic()
        server.stop()
        self.assertLess(time.monotonic() - began, 15)  # no stream holds up a drain
        follower.thread.join(10)
        self.assertTrue(on_disk <= follower.keys["disk"])

        server = self.serve()
        follower.follow(server)
        self.agree(server, follower)
        self.assertEqual((follower.first["type"], follower.first["tier"]), ("cleared", None))
        self.assertNotEqual(follower.last_id.split("-")[0], life)
        self.assertTrue(on_disk <= follower.keys["disk"])
        self.ask(server, 7)
        self.agree(server, follower)
        follower.leave()
        server.stop()


if __name__ == "__main__":
    unittest.main()
