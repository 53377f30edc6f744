"""Ranks in two network namespaces, and a link between them that fails without a word: it is noticed soon, and once the link is back, the
streams that ran end with the tokens of an undisturbed run. Needs root and iproute2."""
import os
import pathlib
import subprocess
import tempfile
import threading
import unittest

from test_faults import QUESTIONS
from troupe_server import MODEL, EventStream, Server, chat_body

TOKENS = 200  # long enough to be cut
NOTICED_SECONDS = 4  # 1 s, on a busy machine
MARK = f"{os.getpid() % 10000:04}"
ENDS = [f"troupe-e2e-{MARK}-{end}" for end in (0, 1)]
CONTROL = "10.81.9.1"

FILE = f"""
[cluster]
name = "cut-links"
[replica]
model = "{MODEL}"
tensor_parallel = 2
codec = "int8"
[data_plane]
interface = "wire"
[control]
address = "{CONTROL}"
[[node]]
name = "front"
roles = ["gateway"]
[[node]]
name = "left"
roles = ["mixed"]
namespace = "{ENDS[0]}"
[[node]]
name = "right"
roles = ["mixed"]
namespace = "{ENDS[1]}"
"""


def ip(line):
    subprocess.run(["ip", *line.split()], check=True, capture_output=True, text=True)


def make_links():
    """A control link to each namespace, and one for rows between them."""
    for end, name in enumerate(ENDS):
        outer = f"troupe-{MARK}-{end}"
        ip(f"netns add {name}")
        ip(f"link add {outer} type veth peer name control netns {name}")
        ip(f"addr add 10.81.{end}.1/30 dev {outer}")
        if end == 0:
            ip(f"addr add {CONTROL}/32 dev {outer}")
        ip(f"link set {outer} up")
        ip(f"-n {name} addr add 10.81.{end}.2/30 dev control")
        ip(f"-n {name} link set control up")
        ip(f"-n {name} route add {CONTROL}/32 via 10.81.{end}.1")
    ip(f"link add wire netns {ENDS[0]} type veth peer name wire netns {ENDS[1]}")
    for end, name in enumerate(ENDS):
        ip(f"-n {name} addr add 10.82.0.{end + 1}/24 dev wire")
        ip(f"-n {name} link set wire up")


def remove_links():
    for name in ENDS:
        subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


class CutLinks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.addClassCleanup(remove_links)
        try:
            make_links()
        except (OSError, subprocess.CalledProcessError) as fault:
            raise unittest.SkipTest(f"no network namespaces here: {getattr(fault, 'stderr', '') or fault}") from None
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        path = pathlib.Path(folder.name) / "cluster.toml"
        path.write_text(FILE)
        cls.server = Server(command=("launch", str(path)))
        cls.addClassCleanup(cls.server.kill)
        cls.undisturbed = cls.texts(lambda: None)

    @classmethod
    def texts(cls, disturb):
        """Of all questions at once; `disturb` is called once their tokens come."""
        streams = [EventStream(cls.server, chat_body(question, max_tokens=TOKENS)) for question in QUESTIONS]
        found = [None] * len(streams)

        def read(index):
            try:
                found[index] = streams[index].text()
            except Exception as fault:  # noqa: BLE001
                found[index] = repr(fault)
            finally:
                streams[index].close()

        threads = [threading.Thread(target=read, args=(index,)) for index in range(len(streams))]
        for thread in threads:
            thread.start()
        disturb()
        for thread in threads:
            thread.join()
        return found

    def epochs_lost(self):
        return self.server.metrics()["troupe:epoch_restarts_total"]

    def cut(self, down, up):
        before = self.epochs_lost()

        def disturb():
            ip(down)
            try:
                self.server.wait_for_metrics(lambda metrics: metrics["troupe:epoch_restarts_total"] > before, NOTICED_SECONDS)
            finally:
                ip(up)

        self.assertEqual(self.texts(disturb), self.undisturbed, self.server.stderr[-3000:])
        self.assertEqual(self.server.get("/ready")[0], 200)

    def test_packets_of_the_data_link_get_lost(self):
        # To a card that is not there: both ends see a link that is up.
        self.cut(f"-n {ENDS[1]} neigh replace 10.82.0.1 lladdr 02:00:00:00:00:01 nud permanent dev wire",
                 f"-n {ENDS[1]} neigh del 10.82.0.1 dev wire")

    def test_the_data_link_goes_down(self):
        self.cut(f"-n {ENDS[1]} link set wire down", f"-n {ENDS[1]} link set wire up")

    def test_the_control_link_goes_down(self):
        self.cut(f"link set troupe-{MARK}-1 down", f"link set troupe-{MARK}-1 up")


if __name__ == "__main__":
    unittest.main()
