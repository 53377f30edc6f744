"""Ranks in processes of their own: one is killed or stopped while streams run, and they end with the tokens of an undisturbed run; the
parent is killed, told to end, or asked for the control port by a stranger. Nothing is left behind."""
import glob
import os
import random
import re
import signal
import socket
import threading
import time
import unittest

from test_faults import QUESTIONS, answers
from troupe_server import LONG, Server

RANKS = ("--tensor-parallel", "2", "--log-level", "info")
KILLS = 50 if LONG else 3
SECONDS = 60  # for a group to be there again on a busy machine


def rank_processes(parent):
    """{node name: pid} of the rank processes of a server."""
    found = {}
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(path) as file:
                fields = file.read().rsplit(")", 1)[1].split()
            with open(os.path.dirname(path) + "/cmdline", "rb") as file:
                command = file.read().split(b"\0")
        except OSError:
            continue
        if int(fields[1]) == parent and fields[0] != "Z" and command[1:2] == [b"shard"]:
            found[command[2].decode()] = int(os.path.basename(os.path.dirname(path)))
    return found


def left_behind():
    return {name for folder in ("/dev/shm", "/tmp") for name in glob.glob(folder + "/*") if re.search("ucx|troupe", name)}


def wait_until(what, seconds=SECONDS):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if what():
            return True
        time.sleep(0.05)
    return False


class Shards(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(*RANKS)
        cls.undisturbed = {question: text for (_, question), text in answers(cls.server).items()}

    @classmethod
    def tearDownClass(cls):
        cls.server.kill()

    def ranks(self):
        self.assertTrue(wait_until(lambda: len(rank_processes(self.server.process.pid)) == 2), self.server.stderr[-3000:])
        return rank_processes(self.server.process.pid)

    def epoch(self):
        return self.server.metrics()["troupe:group_epoch"]

    def disturb(self, number, delay):
        """Streams run while a rank gets a signal, and their text is as if nothing had been."""
        victim = random.choice(sorted(self.ranks().items()))
        before = self.epoch()
        timer = threading.Timer(delay, lambda: os.kill(victim[1], number))
        timer.start()
        try:
            for (_, question), text in answers(self.server).items():
                self.assertEqual(text, self.undisturbed[question], f"{victim} after {delay} s")
        finally:
            timer.join()
        self.assertTrue(wait_until(lambda: self.epoch() > before), self.server.stderr[-3000:])
        self.assertTrue(wait_until(lambda: victim[1] not in self.ranks().values()))
        self.assertTrue(wait_until(lambda: self.server.get("/ready")[0] == 200), self.server.stderr[-3000:])

    def test_a_killed_rank_is_replaced_and_the_streams_go_on(self):
        for _ in range(KILLS):
            self.disturb(signal.SIGKILL, random.uniform(0.05, 1.5))

    def test_a_stopped_rank_is_noticed_and_replaced(self):
        self.disturb(signal.SIGSTOP, random.uniform(0.1, 1.0))

    def test_strangers_at_the_control_port_are_refused(self):
        port = self.control_port()
        memory = self.resident()
        with socket.create_connection(("127.0.0.1", port)) as stranger:
            stranger.sendall(bytes([1, 0, 0, 0, 0x60, 0, 0, 0]) + bytes(24))  # CAF's protocol, a message of 1.5 GiB
            stranger.settimeout(20)
            try:
                while stranger.recv(4096):
                    pass
            except ConnectionResetError:
                pass
        self.assertTrue(wait_until(lambda: "link_refused" in self.server.stderr), self.server.stderr[-2000:])
        self.assertLess(self.resident(), memory + (64 << 20))

    def control_port(self):
        """The other port that the server listens at."""
        inodes = set()
        for path in glob.glob(f"/proc/{self.server.process.pid}/fd/*"):
            try:
                inodes.update(re.findall(r"socket:\[(\d+)\]", os.readlink(path)))
            except OSError:
                continue
        ports = set()
        with open("/proc/net/tcp") as file:
            for fields in (line.split() for line in file.readlines()[1:]):
                if fields[3] == "0A" and fields[9] in inodes:
                    ports.add(int(fields[1].split(":")[1], 16))
        ports.discard(self.server.address[1])
        self.assertEqual(len(ports), 1)
        return ports.pop()

    def resident(self):
        with open(f"/proc/{self.server.process.pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


class Ends(unittest.TestCase):
    def setUp(self):
        self.before = left_behind()
        self.server = Server(*RANKS)
        self.addCleanup(self.server.kill)
        self.processes = set(rank_processes(self.server.process.pid).values())
        self.assertEqual(len(self.processes), 2)

    def gone(self):
        return not any(os.path.exists(f"/proc/{pid}") and "shard" in self.command(pid) for pid in self.processes)

    def command(self, pid):
        try:
            with open(f"/proc/{pid}/cmdline") as file:
                return file.read()
        except OSError:
            return ""

    def test_no_rank_outlives_a_killed_parent(self):
        self.server.process.send_signal(signal.SIGKILL)
        self.assertTrue(wait_until(self.gone))
        self.assertTrue(wait_until(lambda: not left_behind() - self.before, 10), left_behind() - self.before)

    def test_an_asked_for_end_is_clean(self):
        for pid in self.processes:  # as a service manager does, which tells all processes
            os.kill(pid, signal.SIGTERM)
        self.server.stop()  # which expects exit code 0
        self.assertTrue(self.gone())
        self.assertNotRegex(self.server.stderr, "shard_died|epoch_lost|rank_ends|process_ended|link_lost|warning|error")
        self.assertTrue(wait_until(lambda: not left_behind() - self.before, 10), left_behind() - self.before)


if __name__ == "__main__":
    unittest.main()
