"""Ranks in processes of their own, disturbed while they start: killed ranks are started again, a parent that is killed or told to end leaves
nothing behind, ranks that never stay alive are given up with a reason, and clients cannot take the files that a rank's start needs."""
import os
import random
import signal
import socket
import subprocess
import threading
import time
import unittest

from test_shards import RANKS, left_behind, rank_processes, wait_until
from troupe_server import LONG, PROGRAM, MODEL, Server

STARTS = 30 if LONG else 2
START_SECONDS = 1.0  # of which any moment may be the one


def running(pids):
    """Those that still are rank processes."""
    found = []
    for pid in pids:
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                found += [pid] if b"shard" in file.read() else []
        except OSError:
            continue
    return found


class Starts(unittest.TestCase):
    def start(self, *arguments):
        server = Server(*RANKS, "--codec", "int8", *arguments, wait=False)
        self.addCleanup(server.kill)
        return server

    def test_ranks_that_are_killed_meanwhile_are_started_again(self):
        texts = set()
        for _ in range(STARTS):
            server = self.start()
            self.assertTrue(wait_until(lambda s=server: rank_processes(s.process.pid)))
            time.sleep(random.uniform(0, START_SECONDS))
            victim = random.choice(list(rank_processes(server.process.pid).values()))
            os.kill(victim, signal.SIGKILL)
            server.url = server._wait_for_url()
            texts.add(server.chat("Hello"))
            self.assertTrue(wait_until(lambda s=server: "process_ended" in s.stderr), server.stderr)
            server.stop()
        self.assertEqual(len(texts), 1)

    def test_a_parent_that_is_killed_or_told_to_end_meanwhile_leaves_nothing_behind(self):
        before = left_behind()
        for turn in range(2 * STARTS):
            number = (signal.SIGKILL, signal.SIGTERM)[turn % 2]
            server = self.start()
            self.assertTrue(wait_until(lambda s=server: rank_processes(s.process.pid)))
            time.sleep(random.uniform(0, START_SECONDS))
            ranks = rank_processes(server.process.pid).values()
            server.signal(number)
            code = server.wait(30)
            self.assertIn(code, (0, -number), server.stderr)
            self.assertNotRegex(server.stderr, "shard_died|epoch_lost|link_lost|warning|error")
            self.assertTrue(wait_until(lambda r=ranks: not running(r), 10), server.stderr)
        if left_behind() - before:  # a rank that is killed while it makes a segment leaves its name until the next start
            server = self.start()
            server.url = server._wait_for_url()
            server.stop()
        self.assertEqual(left_behind() - before, set())

    @unittest.skipUnless(LONG, "it waits between starts; tests/actors/processes_test.cpp has the same without")
    def test_ranks_that_never_stay_alive_are_given_up_with_a_reason(self):
        server = self.start()
        stop = threading.Event()
        killed = set()

        def kill_all():
            while not stop.wait(0.02):
                for pid in rank_processes(server.process.pid).values():
                    killed.add(pid)
                    os.kill(pid, signal.SIGKILL)

        killer = threading.Thread(target=kill_all)
        killer.start()
        try:
            self.assertEqual(server.wait(60), 3)
        finally:
            stop.set()
            killer.join()
        self.assertRegex(server.stderr, r"troupe: rank \d does not stay alive: ")
        self.assertLessEqual(len(killed), 14)  # 6 of each and, in a race, one more: later each time, not as fast as it goes


class FewFiles(unittest.TestCase):
    """With so few open files that clients could take them all."""
    LIMIT = 64

    def test_a_limit_that_is_too_low_is_told_at_once(self):
        done = subprocess.run(["sh", "-c", 'ulimit -n 32; exec "$@"', "sh", PROGRAM, "serve", MODEL, "--port", "0", *RANKS], timeout=60,
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr, "the limit of open files is 32, and 48 are needed")

    def test_idle_clients_do_not_keep_a_rank_from_being_started_again(self):
        server = Server(*RANKS, "--codec", "int8", program=["sh", "-c", f'ulimit -n {self.LIMIT}; exec "$@"', "sh", PROGRAM])
        self.addCleanup(server.kill)
        text = server.chat("Hello")
        epoch = server.metrics()["troupe:group_epoch"]
        idle = [socket.create_connection(server.address) for _ in range(self.LIMIT)]
        time.sleep(0.2)
        os.kill(next(iter(rank_processes(server.process.pid).values())), signal.SIGKILL)
        self.assertTrue(wait_until(lambda: server.stderr.count("rank_joined") == 3), server.stderr)
        for connection in idle:
            connection.close()
        self.assertTrue(wait_until(lambda: server.metrics()["troupe:group_epoch"] > epoch), server.stderr)
        self.assertEqual(server.chat("Hello"), text)
        server.stop()


if __name__ == "__main__":
    unittest.main()
