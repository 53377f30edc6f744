"""Blocks below the device: greedy tokens are the same cold and from every tier, after restarts, SIGKILL and damage; slow, full, read-only and
foreign caches cost time at most. Public reports: a restored prefix is really used, a failed save is no save, a restart finds the disk's
blocks, a full host tier evicts, a disk slower than computing is not read."""
import concurrent.futures
import os
import pathlib
import random
import shutil
import signal
import tempfile
import time
import unittest

from troupe_server import LONG, Server, model_name

SMALL_DEVICE = ("--kv-memory", "20MiB")  # some 50 blocks of this model: a prompt or two
WORDS = "river stone lantern orchard copper window harbour meadow thunder velvet compass island marble ribbon winter".split()


def prompt_of(seed, words=420):
    """Some 1.3 tokens a word; no two seeds share a start."""
    dice = random.Random(seed)
    return f"Story {seed}: " + " ".join(dice.choice(WORDS) for _ in range(words))


class CacheTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="troupe-cache-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.servers = []
        self.addCleanup(lambda: [server.kill() for server in self.servers])

    def serve(self, *arguments, device=SMALL_DEVICE):
        server = Server(*device, "--cache-dir", self.folder, *arguments)
        self.servers.append(server)
        return server

    def ask(self, server, prompt, tokens=24, **fields):
        """(text, usage) of a greedy completion."""
        status, body, _ = server.post("/v1/completions", {"model": model_name(), "prompt": prompt, "max_tokens": tokens, "temperature": 0,
                                                          "ignore_eos": True, **fields})
        self.assertEqual(status, 200, body)
        return body["choices"][0]["text"], body["usage"]

    def cache_of(self, usage):
        """Tokens by tier; they add up to the prompt."""
        cache = usage["prompt_tokens_details"]["cache_report"]
        self.assertEqual(cache["device"] + cache["host"] + cache["disk"] + cache["computed"], usage["prompt_tokens"], usage)
        self.assertEqual(usage["prompt_tokens_details"]["cached_tokens"], usage["prompt_tokens"] - cache["computed"])
        return cache

    def push_out(self, server, first_seed, prompts=4):
        for seed in range(first_seed, first_seed + prompts):
            self.ask(server, prompt_of(seed), 1)

    def wait_written(self, server):
        """Nothing that was published still waits to be written down."""
        return server.wait_for_metrics(lambda m: sum(v for k, v in m.items() if k.startswith("troupe:cache_tier_unwritten_blocks")) == 0, 120)


class Caches(CacheTest):
    def test_every_tier_gives_the_same_tokens(self):
        """R36: what was cached never changes a greedy answer. R58: a restart finds the blocks of the disk."""
        two_ranks = ("--tensor-parallel", "2", "--codec", "int8")  # each holds its heads' part of every block
        for kv, ranks in (("int8", ()), ("fp16", ()), ("fp32", ()), ("int8", two_ranks)):
            with self.subTest(kv=kv, ranks=ranks):
                size = {"int8": "20MiB", "fp16": "40MiB", "fp32": "80MiB"}[kv]
                device = ("--kv-memory", size, "--kv", kv, *ranks)
                prompt = prompt_of(1)
                plain = Server(*device, "--cache-dir", self.folder)
                self.servers.append(plain)
                cold, usage = self.ask(plain, prompt)
                self.assertEqual(self.cache_of(usage)["computed"], usage["prompt_tokens"])
                plain.stop()
                server = self.serve("--host-cache", "256MiB", "--disk-cache", "256MiB", device=device)
                self.assertEqual(self.ask(server, prompt)[0], cold)
                again, usage = self.ask(server, prompt)
                self.assertEqual(again, cold)
                self.assertGreater(self.cache_of(usage)["device"], usage["prompt_tokens"] * 0.9)
                self.wait_written(server)
                self.push_out(server, 2)
                again, usage = self.ask(server, prompt)
                self.assertEqual(again, cold)
                self.assertGreater(self.cache_of(usage)["host"], usage["prompt_tokens"] * 0.8, usage)
                server.stop()
                server = self.serve("--disk-cache", "256MiB", device=device)
                again, usage = self.ask(server, prompt)
                self.assertEqual(again, cold)
                self.assertGreater(self.cache_of(usage)["disk"], usage["prompt_tokens"] * 0.8, usage)
                server.stop()

    def test_cold_and_warm_answers_are_equal(self):
        """R36, over many prompts and a device tier that forgets most of them."""
        server = self.serve("--host-cache", "32MiB")
        dice = random.Random(36)
        prompts = [prompt_of(1000 + i, dice.randint(20, 160)) for i in range(1000 if LONG else 20)]
        warm = 0
        for begin in range(0, len(prompts), 20):
            part = prompts[begin:begin + 20]
            cold = [self.ask(server, prompt, 12)[0] for prompt in part]
            for prompt, text in zip(part, cold):
                again, usage = self.ask(server, prompt, 12)
                self.assertEqual(again, text)
                warm += usage["prompt_tokens_details"]["cached_tokens"] > 16
        self.assertGreater(warm, len(prompts) // 2)

    def test_a_fork_inside_a_loaded_block(self):
        """Prompts that leave a cached one at every offset of a block."""
        for kv in ("int8", "fp16", "fp32") if LONG else ("int8",):
            device = ("--kv-memory", "80MiB", "--kv", kv)
            server = self.serve("--disk-cache", "128MiB", device=device)
            base = server.post("/tokenize", {"content": prompt_of(1, 120)})[1]["tokens"]
            self.ask(server, base, 1)
            self.wait_written(server)
            server.stop()
            plain = Server(*device, "--cache-dir", self.folder)
            self.servers.append(plain)
            server = self.serve("--disk-cache", "128MiB", device=device)
            for offset in range(0, 33, 1 if LONG else 5):
                fork = base[:64 + offset] + base[:9]
                cold = self.ask(plain, fork, 6, cache_salt=str(offset))[0]
                again, usage = self.ask(server, fork, 6)
                self.assertEqual(again, cold, (kv, offset))
                self.assertGreaterEqual(usage["prompt_tokens_details"]["cached_tokens"], 64)
            server.stop()
            plain.stop()

    def test_restart_after_sigkill(self):
        """R54: what is found after a restart is really used."""
        server = self.serve("--disk-cache", "256MiB")
        cold, _ = self.ask(server, prompt_of(1))
        self.wait_written(server)
        for _ in range(10 if LONG else 3):
            with concurrent.futures.ThreadPoolExecutor(4) as pool:
                running = [pool.submit(self.try_ask, server, prompt_of(seed)) for seed in range(10, 14)]
                time.sleep(random.uniform(0.05, 1.5))
                server.signal(signal.SIGKILL)
                server.wait()
                for done in running:
                    done.result()
            server = self.serve("--disk-cache", "256MiB")
            again, usage = self.ask(server, prompt_of(1))
            self.assertEqual(again, cold)
            self.assertGreater(self.cache_of(usage)["disk"], usage["prompt_tokens"] * 0.8, usage)
            for seed in range(10, 14):
                self.assertEqual(self.ask(server, prompt_of(seed))[0], self.ask(server, prompt_of(seed), cache_salt="cold")[0])
            self.wait_written(server)

    def try_ask(self, server, prompt):
        try:
            self.ask(server, prompt)
        except OSError:
            pass  # killed meanwhile

    def test_damaged_blocks_are_computed(self):
        server = self.serve("--disk-cache", "128MiB")
        cold, _ = self.ask(server, prompt_of(1))
        self.wait_written(server)
        server.stop()
        [path] = pathlib.Path(self.folder).rglob("*.blocks")
        size, dice = path.stat().st_size, random.Random(3)
        with open(path, "r+b") as file:  # a bit in each of many places
            for _ in range(400):
                at = dice.randrange(4096, size)
                file.seek(at)
                byte = file.read(1)[0]
                file.seek(at)
                file.write(bytes([byte ^ 1 << dice.randrange(8)]))
        server = self.serve("--disk-cache", "128MiB")
        again, usage = self.ask(server, prompt_of(1))
        self.assertEqual(again, cold)
        self.assertLess(self.cache_of(usage)["disk"], usage["prompt_tokens"] * 0.9)
        server.stop()
        for what in ("emptied", "cut", "gone"):
            if what == "gone":
                path.unlink()
            else:
                os.truncate(path, 0 if what == "emptied" else path.stat().st_size // 2)
            server = self.serve("--disk-cache", "128MiB")
            self.assertEqual(self.ask(server, prompt_of(1))[0], cold, what)
            server.stop()

    def test_a_foreign_cache_is_a_miss(self):
        server = self.serve("--disk-cache", "128MiB")
        self.ask(server, prompt_of(1))
        self.wait_written(server)
        server.stop()
        server = self.serve("--disk-cache", "128MiB", "--weights", "int8-channel")  # other numerics: other blocks
        _, usage = self.ask(server, prompt_of(1))
        self.assertEqual(self.cache_of(usage)["disk"], 0)
        server.stop()
        server = self.serve("--disk-cache", "128MiB")
        _, usage = self.ask(server, prompt_of(1))
        self.assertGreater(self.cache_of(usage)["disk"], 0)
        second = self.serve("--disk-cache", "128MiB")  # of two processes, one has it
        self.assertIn("disk", second.stderr)
        self.assertEqual(self.cache_of(self.ask(second, prompt_of(1))[1])["disk"], 0)

    def test_a_host_tier_smaller_than_a_prompt(self):
        """R60: a full host tier evicts, and a prefix that is there in part is computed from there on."""
        server = self.serve("--host-cache", "4MiB")
        cold, _ = self.ask(server, prompt_of(1))
        for seed in (2, 3, 1, 2, 1):
            self.ask(server, prompt_of(seed), 1)
        self.assertEqual(self.ask(server, prompt_of(1))[0], cold)
        server.wait_idle()

    def test_a_disk_slower_than_computing_is_not_read(self):
        """R62."""
        server = self.serve("--disk-cache", "256MiB")
        prompts = [prompt_of(seed) for seed in range(20, 28)]
        texts = [self.ask(server, prompt)[0] for prompt in prompts]
        self.wait_written(server)
        server.stop()
        server = self.serve("--disk-cache", "256MiB", "--fault", "slow-disk:2")
        self.ask(server, prompts[0], 1)  # learns it
        hits, misses = [], []
        for i, prompt in enumerate(prompts[1:], 1):
            for salt, times in ((None, hits), (f"cold {i}", misses)):
                begin = time.monotonic()
                text, usage = self.ask(server, prompt, 24, **({"cache_salt": salt} if salt else {}))
                times.append(time.monotonic() - begin)
                self.assertEqual(text, texts[i])
                if salt is None:
                    self.assertEqual(self.cache_of(usage)["miss"], "cheaper_to_compute")
        self.assertLess(sorted(hits)[len(hits) // 2], 1.5 * sorted(misses)[len(misses) // 2])  # the bench measures it closer

    @unittest.skipUnless(os.geteuid() == 0 and shutil.which("mount"), "needs mount")
    def test_a_full_disk_and_a_read_only_folder(self):
        """R56: what could not be kept is not said to be; serving goes on."""
        mounted = os.system(f"mount -t tmpfs -o size=6m tmpfs {self.folder} 2>/dev/null") == 0
        if not mounted:
            self.skipTest("no tmpfs may be mounted here")
        self.addCleanup(os.system, f"umount -l {self.folder}")
        server = self.serve("--disk-cache", "64MiB")
        cold, _ = self.ask(server, prompt_of(1))
        self.push_out(server, 2)
        self.assertEqual(self.ask(server, prompt_of(1))[0], cold)
        server.stop()
        os.system(f"mount -o remount,ro {self.folder}")
        server = self.serve("--disk-cache", "64MiB")
        self.assertEqual(self.ask(server, prompt_of(1))[0], cold)
        server.stop()

    def test_cancelled_requests_harm_no_other(self):
        """R52: eight requests share 128 tokens; two leave early and come again, four others run beside them."""
        server = self.serve("--host-cache", "16MiB", "--disk-cache", "64MiB")
        shared = prompt_of(1, 90)
        prompts = [shared + f" Part {i}: " + prompt_of(100 + i, 20) for i in range(8)] + [prompt_of(200 + i, 60) for i in range(4)]
        alone = [self.ask(server, prompt, 16, cache_salt=f"alone {i}")[0] for i, prompt in enumerate(prompts)]
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            for _ in range(3):
                running = [pool.submit(self.ask, server, prompt, 16) for prompt in prompts]
                leaving = [pool.submit(self.leave_early, server, prompts[i]) for i in (1, 5)]
                for i, done in enumerate(running):
                    self.assertEqual(done.result()[0], alone[i])
                for done in leaving:
                    done.result()
                self.push_out(server, 300, 2)
        server.wait_idle()

    def leave_early(self, server, prompt):
        import http.client
        import json
        host, port = server.address
        connection = http.client.HTTPConnection(host, port)
        connection.request("POST", "/v1/completions", json.dumps({"model": model_name(), "prompt": prompt, "max_tokens": 64}),
                           {"Content-Type": "application/json"})
        time.sleep(random.uniform(0.015, 0.02))
        connection.close()


if __name__ == "__main__":
    unittest.main()
