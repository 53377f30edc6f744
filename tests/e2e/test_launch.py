"""`troupe launch`: the example starts, answers and stops with one command; `--check` tells what would run, and each fault with its line."""
import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import time
import unittest

from troupe_server import MODEL, PROGRAM, ROOT, Server

EXAMPLE = str(ROOT / "examples/two_shards.toml")


def processes(marker):
    """Ids of processes whose command line has `marker`."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if marker in (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"):
                found.append(int(entry.name))
        except OSError:
            pass
    return found


def children(pid):
    listed = pathlib.Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for path in listed for child in path.read_text().split()]


class Launched(Server):
    """`troupe launch FILE ARGUMENTS`, ready when constructed."""

    def __init__(self, file, *arguments, **keywords):
        super().__init__(*arguments, command=("launch", file), **keywords)


class Launch(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def example(self, *changes):
        """The example in the scratch folder, with texts replaced."""
        text = pathlib.Path(EXAMPLE).read_text()
        text = re.sub(r'model = "[^"]*"', f'model = "{MODEL}"', text)
        for what, instead in changes:
            self.assertIn(what, text)
            text = text.replace(what, instead)
        path = self.folder / "cluster.toml"
        path.write_text(text)
        return str(path)

    def check(self, path):
        return subprocess.run([PROGRAM, "launch", path, "--check", "--port", "0"], capture_output=True, text=True, timeout=60)

    def test_one_command_serves_and_leaves_nothing(self):
        shared_memory = set(os.listdir("/dev/shm"))
        trace = self.folder / "steps"
        server = Launched(self.example(), "--step-trace", str(trace))
        self.addCleanup(server.kill)
        ranks = children(server.process.pid)
        self.assertEqual(len(ranks), 2, server.stderr)
        answer = server.chat("Name a color.")
        self.assertTrue(answer.strip())
        self.assertEqual(server.chat("Name a color."), answer)
        server.stop()
        for pid in ranks:
            self.assertFalse(pathlib.Path(f"/proc/{pid}").exists(), f"rank process {pid} is still there")
        for rank in range(2):
            events = json.loads(pathlib.Path(f"{trace}.rank{rank}.json").read_text())
            self.assertLessEqual({"compute", "wire"}, {event.get("cat") for event in events})
        self.assertEqual(set(os.listdir("/dev/shm")) - shared_memory, set())

    def test_a_measured_codec_is_kept_until_it_is_measured_anew(self):
        codecs, answers = [], []
        for more in ((), (), ("--remeasure",)):
            server = Launched(self.example(), "--cache-dir", str(self.folder / "cache"), *more)
            self.addCleanup(server.kill)
            answers.append(server.chat("Name a color."))
            server.stop()
            codecs.append(re.search(r"codec (\S+) \((measured[^)]*)\)", server.stderr).groups())
        self.assertEqual([how for _, how in codecs], ["measured", "measured earlier; --remeasure", "measured"])
        self.assertEqual(codecs[1][0], codecs[0][0])
        self.assertEqual(answers[1], answers[0])

    def test_ctrl_c_while_it_loads(self):
        server = Launched(self.example(), wait=False)
        self.addCleanup(server.kill)
        time.sleep(0.5)
        ranks = children(server.process.pid)
        server.signal(signal.SIGINT)
        self.assertIn(server.wait(), (0, 1))
        self.assertEqual([pid for pid in ranks if pathlib.Path(f"/proc/{pid}").exists()], [])

    def test_check_of_a_good_file(self):
        end = self.check(self.example())
        self.assertEqual((end.returncode, end.stderr), (0, ""))
        for word in ("two-shards", "front", "left", "right", "tensor parallel 2"):
            self.assertIn(word, end.stdout)

    def test_check_tells_every_fault(self):
        path = self.example(('codec = "auto"', 'codec = "int5"'), ("tensor_parallel = 2", "tensor_parallel = 40"), ('name = "right"', 'name = "left"'))
        end = self.check(path)
        self.assertEqual((end.returncode, end.stdout), (1, ""))
        lines = end.stderr.splitlines()
        self.assertTrue(lines[-1].startswith("troupe: 3 faults"), end.stderr)
        for line in lines[:-1]:
            self.assertRegex(line, r"cluster\.toml:\d+: ")
        for word in ("replica.codec", "replica.tensor_parallel", "node.name"):
            self.assertIn(word, end.stderr)
        self.assertEqual(processes(path), [])

    def test_serve_refuses_what_cannot_be_divided(self):
        end = subprocess.run([PROGRAM, "serve", MODEL, "--port", "0", "--tensor-parallel", "40"], capture_output=True, text=True, timeout=60)
        self.assertEqual((end.returncode, end.stdout), (1, ""))
        self.assertTrue(end.stderr.startswith("troupe: --tensor-parallel: "), end.stderr)

    def test_files_that_are_not_there(self):
        for arguments in (("launch",), ("launch", str(self.folder / "none.toml"))):
            end = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=60)
            self.assertEqual(end.returncode, 1)
            self.assertIn("cluster file", end.stderr)


if __name__ == "__main__":
    unittest.main()
