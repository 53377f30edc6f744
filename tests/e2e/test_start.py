"""Everything a user can get wrong at start ends in one line that says what to do, and exit code 1."""
import os
import pathlib
import socket
import subprocess
import tempfile
import time
import unittest
import urllib.request

from troupe_server import MODEL, PROGRAM, Server, model_name


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

    def test_options(self):
        self.refused(MODEL, "--prot", "1", words=["--prot", "--help"])
        self.refused(MODEL, "--port", "99999", words=["--port", "65535"])
        self.refused(MODEL, "--kv-format", "int3", words=["--kv-format", "fp16"])
        self.refused(MODEL, "--isa", "sse9", words=["--isa"])
        self.refused(MODEL, "--fault", "explode:1", words=["fault"])
        self.refused(MODEL, words=["TROUPE_PORT"], TROUPE_PORT="many")
        self.refused(MODEL, "--host", "not an address", words=["not an address"])
        self.refused(MODEL, "--kv-memory", "1K", words=["kv-memory"])

    def test_config_file(self):
        self.refused(MODEL, "--config", "/no/such.toml", words=["/no/such.toml"])
        self.refused(MODEL, "--config", self.file("a.toml", "port = 1\nprot = 2\n"), words=["a.toml:2", "prot"])
        self.refused(MODEL, "--config", self.file("b.toml", "port = \n"), words=["b.toml:1"])

    def test_key_files(self):
        self.refused(MODEL, "--api-key-file", "/no/such/keys", words=["/no/such/keys"])
        self.refused(MODEL, "--api-key-file", self.file("none", "# only words\n\n"), words=["none", "key"])
        self.refused(MODEL, "--api-key-file", self.file("blank", "good\nbad key\n"), words=["line 2"])

    def test_port_in_use(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = str(taken.getsockname()[1])
            self.refused(MODEL, "--port", port, words=[port, "use"])

    def test_usage(self):
        self.assertEqual(run().returncode, 1)
        self.assertEqual(run("dance").returncode, 1)
        self.assertIn("serve", run("--help").stdout)
        self.assertIn("--stall-budget-ms", run("serve", "--help").stdout)

    def test_a_config_file_serves(self):
        config = self.file("good.toml", f'model = "{MODEL}"\nport = 0\nserved-model-name = "small"\nkv-memory = "64MiB"\n')
        server = Server("--config", config)
        try:
            self.assertIn('"small"', server.get("/v1/models")[1])
            self.assertIn("SmolLM2", server.stderr + model_name())
        finally:
            server.stop()
            server.kill()


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
