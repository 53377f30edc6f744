"""Ranks in processes of their own with blocks below the device: whoever is killed while blocks are written and read, rank or server, tokens
stay the same, and what all ranks have kept is found again. A folder that another server uses is left to it."""
import os
import random
import signal
import threading
import time
import unittest

from test_cache import CacheTest, prompt_of
from test_shards import rank_processes, wait_until
from troupe_server import LONG

RANKS = ("--tensor-parallel", "2", "--codec", "int8", "--log-level", "info")
TIERS = ("--host-cache", "24MiB", "--disk-cache", "96MiB")
SEEDS = range(100, 108)
CLIENTS = 3
VICTIMS = ["rank", "server", "ranks"] * (10 if LONG else 1)


class ShardCaches(CacheTest):
    def ask_all(self, server, seeds, wanted):
        for seed in seeds:
            text, _ = self.ask(server, prompt_of(seed))
            self.assertEqual(text, wanted[seed], f"prompt {seed}\n{server.stderr[-3000:]}")

    def disturb(self, server, victim, wanted):
        """Clients ask while one kind of process is killed; what they have heard by then, and whether they were cut off."""
        faults = []

        def client(seeds):
            try:
                self.ask_all(server, seeds, wanted)
            except AssertionError as fault:
                faults.append(str(fault))
            except OSError as fault:
                if victim != "server":
                    faults.append(repr(fault))

        threads = [threading.Thread(target=client, args=(random.sample(SEEDS, 4),)) for _ in range(CLIENTS)]
        for thread in threads:
            thread.start()
        time.sleep(random.uniform(0.05, 1.5))
        ranks = list(rank_processes(server.process.pid).values())
        chosen = {"rank": ranks[:1] or [], "ranks": ranks, "server": [server.process.pid]}[victim]
        for pid in chosen:
            os.kill(pid, signal.SIGKILL)
        for thread in threads:
            thread.join()
        self.assertEqual(faults, [])

    def test_whoever_is_killed_the_tokens_stay(self):
        server = self.serve(*RANKS, *TIERS)
        wanted = {seed: self.ask(server, prompt_of(seed))[0] for seed in SEEDS}
        for victim in VICTIMS:
            self.disturb(server, victim, wanted)
            if victim == "server":
                server.wait()
                server = self.serve(*RANKS, *TIERS)
        self.wait_written(server)
        server.stop()
        server = self.serve(*RANKS, *TIERS)
        _, usage = self.ask(server, prompt_of(SEEDS[0]))
        self.ask_all(server, SEEDS, wanted)
        self.assertGreater(self.cache_of(usage)["disk"], 0, server.stderr[-3000:])

    def test_a_folder_in_use_is_left_to_its_user(self):
        first = self.serve(*RANKS, "--disk-cache", "64MiB")
        second = self.serve(*RANKS, "--disk-cache", "64MiB")
        self.assertEqual(second.stderr.count("another process uses it"), 2, second.stderr)
        text = self.ask(first, prompt_of(1))[0]
        self.assertEqual(self.ask(second, prompt_of(1))[0], text)
        self.wait_written(first)
        first.signal(signal.SIGKILL)
        first.wait()
        for pid in rank_processes(second.process.pid).values():  # its successors find the folder free
            before = second.metrics()["troupe:group_epoch"]
            os.kill(pid, signal.SIGKILL)
            self.assertTrue(wait_until(lambda: second.metrics()["troupe:group_epoch"] > before), second.stderr[-3000:])
        second.wait_for_metrics(lambda m: m['troupe:cache_tier_blocks{state="stored",tier="disk"}'] > 0)
        self.assertEqual(self.ask(second, prompt_of(1))[0], text)


if __name__ == "__main__":
    unittest.main()
