"""Everything a user can get wrong at start ends in one line that says what to do, and exit code 1."""
import os
import pathlib
import re
import resource
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.request

from troupe_server import MODEL, PROGRAM, ROOT, Server, model_name


def run(*arguments, **environment):
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=60, env={**os.environ, **environment})


class Start(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def file(self, name, content):
        path = self.folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    def refused(self, *arguments, words=(), **environment):
        end = run("serve", *arguments, **environment)
        self.assertEqual(end.returncode, 1, end.stderr)
        self.assertEqual(end.stderr.count("\n"), 1, end.stderr)
        self.assertTrue(end.stderr.startswith("troupe: "), end.stderr)
        self.assertEqual(end.stdout, "")
        for word in words:
            self.assertIn(word, end.stderr)

    def test_model_files(self):
        whole = pathlib.Path(MODEL).read_bytes()
        self.refused("/no/such/file.gguf", words=["/no/such/file.gguf"])
        self.refused(str(self.folder), words=[str(self.folder)])
        self.refused(self.file("empty.gguf", ""), words=["empty.gguf"])
        self.refused(self.file("text.gguf", "this is not a model\n" * 100), words=["text.gguf"])
        self.refused(self.file("zip.gguf", b"PK\3\4" + bytes(5000)), words=["zip.gguf"])
        self.refused(self.file("head.gguf", whole[:5000]), words=["head.gguf", "offset"])
        self.refused(self.file("cut.gguf", whole[:-1000]), words=["cut.gguf", "offset"])
        self.refused(self.file("version.gguf", whole[:4] + b"\x63" + whole[5:100000]), words=["version.gguf", "version"])
        foreign = whole.replace(b"\x05\x00\x00\x00\x00\x00\x00\x00llama", b"\x05\x00\x00\x00\x00\x00\x00\x00lamma", 1)
        self.refused(self.file("foreign.gguf", foreign), words=["foreign.gguf", "lamma"])
        self.refused(words=["GGUF"])

    def test_r86_r88_files_that_ended_other_servers(self):
        """A zero dimension was a division by it (R86, 88 bytes); a download that was cut killed the process long after its start (R88)."""
        zero = b"GGUF\3\0\0\0\1" + bytes(15) + b"\1" + bytes(7) + b"t\2\0\0\0"
        paths = [self.file("zero.gguf", zero.ljust(88, b"\0"))]
        whole = pathlib.Path(MODEL).read_bytes()
        paths += [self.file(name, whole[:size]) for name, size in (("half.gguf", len(whole) // 2), ("last.gguf", len(whole) - 100))]
        for path in paths:
            self.refused(path, words=[os.path.basename(path)])
            end = run("inspect", path)
            self.assertEqual((end.returncode, end.stderr.count("\n")), (1, 1), end.stderr)

    def test_options(self):
        self.refused(MODEL, "--prot", "1", words=["--prot", "--help"])
        self.refused(MODEL, "--port", "99999", words=["--port", "65535"])
        self.refused(MODEL, "--kv-format", "int3", words=["--kv-format", "fp16"])
        self.refused(MODEL, "--isa", "sse9", words=["--isa"])
        self.refused(MODEL, "--fault", "explode:1", words=["fault"])
        self.refused(MODEL, words=["TROUPE_PORT"], TROUPE_PORT="many")
        self.refused(MODEL, "--host", "not an address", words=["not an address"])
        self.refused(MODEL, "--kv-memory", "1K", words=["kv-memory"])
        self.refused(MODEL, "--host-cache", "1K", words=["host-cache", "blocks"])
        self.refused(MODEL, "--host-cache", "999TiB", words=["host-cache", "memory that this machine has"])
        self.refused(MODEL, "--disk-cache", "1GiB", "--cache-dir", "none", words=["disk-cache", "--cache-dir"])
        self.refused(MODEL, "--fault", "slow-disk:0", words=["fault"])

    def test_config_file(self):
        self.refused(MODEL, "--config", "/no/such.toml", words=["/no/such.toml"])
        self.refused(MODEL, "--config", self.file("a.toml", "port = 1\nprot = 2\n"), words=["a.toml:2", "prot"])
        self.refused(MODEL, "--config", self.file("b.toml", "port = \n"), words=["b.toml:1"])

    def test_key_files(self):
        self.refused(MODEL, "--api-key-file", "/no/such/keys", words=["/no/such/keys"])
        self.refused(MODEL, "--api-key-file", self.file("none", "# only words\n\n"), words=["none", "key"])
        self.refused(MODEL, "--api-key-file", self.file("blank", "good\nbad key\n"), words=["line 2"])

    def test_system_prompts(self):
        self.refused(MODEL, "--system-prompts", "/no/such/prompts.toml", words=["/no/such/prompts.toml"])
        self.refused(MODEL, "--system-prompts", self.file("p1.toml", '[[prompt]]\nname = "a"\n'), words=["p1.toml:1", "prompt a", "text or file"])
        self.refused(MODEL, "--system-prompts", self.file("p2.toml", '[[prompt]]\nname = "a b"\ntext = "x"\n'), words=["p2.toml:1", "name"])
        self.refused(MODEL, "--system-prompts", self.file("p3.toml", '[[prompt]]\nname = "a"\nfile = "none"\n'), words=["prompt a", "none"])

    def test_port_in_use(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = str(taken.getsockname()[1])
            self.refused(MODEL, "--port", port, words=[port, "use"])

    def test_usage(self):
        self.assertEqual(run().returncode, 1)
        self.assertEqual(run("dance").returncode, 1)
        self.assertIn("serve", run("--help").stdout)
        self.assertIn("--stall-budget-ms", run("serve", "--help").stdout)
        for command in ("options", "api", "completions"):
            self.assertIn("usage:", run(command, "--help").stdout)
        version = re.search(r"project\(troupe VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text()).group(1)
        self.assertEqual(run("--version").stdout, f"troupe {version}\n")

    def test_a_config_file_serves(self):
        config = self.file("good.toml", f'model = "{MODEL}"\nport = 0\nserved-model-name = "small"\nkv-memory = "64MiB"\n')
        server = Server("--config", config)
        try:
            self.assertIn('"small"', server.get("/v1/models")[1])
            self.assertIn("SmolLM2", server.stderr + model_name())
        finally:
            server.stop()
            server.kill()


class Cache(unittest.TestCase):
    """What one start leaves for the next."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name) / "cache"

    def answer(self, *arguments, environment=None, keeps=True):
        """(was the start from the cache, what the model says); `keeps`: until what was packed is in the folder."""
        server = Server("--kv-memory", "64MiB", "--log-level", "info", *arguments, environment=environment)
        try:
            text = server.chat("What is the capital of France?", 16)
            deadline = time.monotonic() + 60
            while keeps and not re.search("packed earlier|packed_weights_kept", server.stderr):
                self.assertLess(time.monotonic(), deadline, server.stderr)
                time.sleep(0.05)
            server.stop()
            return "packed earlier" in server.stderr, text
        finally:
            server.kill()

    def packed(self):
        return sorted(self.folder.glob("*.packed"))

    def test_the_second_start_uses_what_the_first_has_packed(self):
        option = ("--cache-dir", str(self.folder))
        cached, first = self.answer(*option)
        self.assertFalse(cached)
        self.assertEqual(len(self.packed()), 1)
        self.assertEqual(self.packed()[0].stat().st_mode & 0o777, 0o600)
        self.assertEqual(self.answer(*option), (True, first))
        # Damaged: packed anew, with the same words, and replaced.
        good = self.packed()[0].read_bytes()
        middle = len(good) // 2
        self.packed()[0].write_bytes(good[:middle] + bytes([good[middle] ^ 1]) + good[middle + 1:])
        self.assertEqual(self.answer(*option), (False, first))
        self.assertEqual(self.packed()[0].read_bytes(), good)
        self.packed()[0].write_bytes(good[:middle])
        self.assertEqual(self.answer(*option), (False, first))
        self.assertEqual(self.answer(*option), (True, first))

    def test_a_folder_that_cannot_be_written_stops_nothing(self):
        cached, _ = self.answer("--cache-dir", "/proc/no/such/folder", keeps=False)
        self.assertFalse(cached)

    def test_a_limit_on_file_sizes_stops_nothing(self):
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, limits[1]))  # for what is started from here
        try:
            server = Server("--kv-memory", "64MiB", "--log-level", "info", "--cache-dir", str(self.folder))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        try:
            deadline = time.monotonic() + 60
            while "packed_weights_not_kept" not in server.stderr:
                self.assertIsNone(server.process.poll(), server.stderr)
                self.assertLess(time.monotonic(), deadline, server.stderr)
                time.sleep(0.05)
            self.assertTrue(server.chat("Name a colour.", 8))
            self.assertEqual([path.name for path in self.folder.iterdir() if "packed" in path.name], [])
            server.stop()
        finally:
            server.kill()

    def test_where_the_folder_is(self):
        home = {"XDG_CACHE_HOME": str(self.folder.parent), "TROUPE_CACHE_DIR": "auto"}
        self.folder = self.folder.parent / "troupe"
        self.answer(environment=home)
        self.assertEqual(len(self.packed()), 1)
        self.packed()[0].unlink()
        for nowhere in ("none", ""):
            self.answer(environment={**home, "TROUPE_CACHE_DIR": nowhere}, keeps=False)
            self.assertEqual(self.packed(), [])

    def test_it_may_be_deleted_and_two_may_start_at_once(self):
        servers = [Server("--kv-memory", "64MiB", "--cache-dir", str(self.folder), wait=False) for _ in range(2)]
        try:
            for server in servers:
                server.url = server._wait_for_url()
            words = {server.chat("Name a colour.", 8) for server in servers}
            self.assertEqual(len(words), 1)
            shutil.rmtree(self.folder)
            self.assertEqual({server.chat("Name a colour.", 8) for server in servers}, words)
            for server in servers:
                server.stop()
        finally:
            for server in servers:
                server.kill()


class Memory(unittest.TestCase):
    """Anonymous memory of a node: the packed weights, the keys and values in use, and little else; packed now or earlier."""
    OTHER_MIB = 64  # code of the actors, the loop and its buffers, tokenizer, RoPE tables, rows of a step

    def test_anonymous_memory(self):
        with tempfile.TemporaryDirectory() as folder:
            for start in ("packs", "finds"):
                server = Server("--cache-dir", folder, "--kv-memory", "64MiB", wait=False)
                try:
                    peak = [0.0]
                    ended = threading.Event()

                    def watch():
                        while not ended.is_set():
                            peak[0] = max(peak[0], anonymous_mib(server.process.pid))
                            time.sleep(0.002)

                    watcher = threading.Thread(target=watch)
                    watcher.start()
                    server.url = server._wait_for_url()
                    server.chat("Tell me a story.", 32)
                    ended.set()
                    watcher.join()
                    server.stop()
                    weights = int(re.search(r"weights (\d+) MiB", server.stderr).group(1))
                    values = int(re.search(r"keys and values (\d+) MiB", server.stderr).group(1))
                    self.assertGreater(peak[0], weights, start)  # or it was not measured
                    self.assertLess(peak[0], 1.15 * (weights + values) + self.OTHER_MIB, start)
                finally:
                    server.kill()


def anonymous_mib(process):
    try:
        status = pathlib.Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0.0
    found = re.search(r"RssAnon:\s+(\d+) kB", status)
    return int(found.group(1)) / 1024 if found else 0.0


class ApiKeys(unittest.TestCase):
    def test_every_route_but_the_open_ones(self):
        with tempfile.NamedTemporaryFile("w", suffix=".keys") as keys:
            keys.write("# users\nfirst-key\nsecond-key\n")
            keys.flush()
            server = Server("--api-key-file", keys.name)
        try:
            for path in ("/health", "/ready", "/"):
                self.assertEqual(server.get(path)[0], 200, path)
            for path in ("/v1/models", "/metrics", "/v1/responses", "/v1/nothing"):
                self.assertEqual(server.get(path)[0], 401, path)
            self.assertEqual(server.post("/v1/chat/completions", {})[0], 401)
            self.assertEqual(server.get("/v1/models", {"Authorization": "Bearer wrong"})[0], 401)
            self.assertEqual(server.get("/v1/models", {"Authorization": "Bearer first-key"})[0], 200)
            self.assertEqual(server.get("/v1/models", {"Authorization": "Bearer second-key"})[0], 200)
            self.assertNotIn("first-key", server.stderr)
        finally:
            server.stop()
            server.kill()

    def test_closed_standard_streams(self):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        process = subprocess.Popen(["sh", "-c", 'exec "$0" "$@" <&- >&- 2>&-', PROGRAM, "serve", MODEL, "--port", str(port)])
        self.addCleanup(process.kill)
        deadline = time.monotonic() + 60
        while True:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=5) as answer:
                    self.assertEqual(answer.status, 200)
                break
            except OSError:
                self.assertIsNone(process.poll())
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.1)
        process.terminate()
        self.assertEqual(process.wait(30), 0)


if __name__ == "__main__":
    unittest.main()
