"""`troupe chat`, `troupe run` and `troupe inspect`: with a server, and with the model in their own process."""
import json
import os
import signal
import subprocess
import tempfile
import unittest

from troupe_server import MODEL, PROGRAM, Server, ServerTest

QUESTION = "Where is the Eiffel Tower?"


def chat(*arguments, stdin=""):
    return subprocess.run([PROGRAM, "chat", *arguments, "--temperature", "0", "--max-tokens", "24"], input=stdin, capture_output=True,
                          text=True, timeout=120)


def run(*arguments, stdin=None, extra=("--temperature", "0", "--max-tokens", "24")):
    return subprocess.run([PROGRAM, "run", *arguments, *extra], input=stdin, stdin=None if stdin is not None else subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=120)


class Config(unittest.TestCase):
    def test_the_admin_sees_every_option_and_its_source(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in (("keys", "sesame\n"), ("admins", "root-sesame\n"), ("c.toml", "max-queue = 33\n")):
                with open(os.path.join(folder, name), "w") as file:
                    file.write(text)
            path = lambda name: os.path.join(folder, name)
            server = Server("--api-key-file", path("keys"), "--admin-key-file", path("admins"), "--config", path("c.toml"),
                            environment={"TROUPE_MAX_SEQUENCES": "5"})
            try:
                for key, status in ((None, 401), ("wrong", 401), ("sesame", 403)):
                    answer = server.get("/config", {"Authorization": "Bearer " + key} if key else {})
                    self.assertEqual(answer[0], status, key)
                    self.assertNotIn("max-queue", answer[1])
                status, text = server.get("/config", {"Authorization": "Bearer root-sesame"})
                self.assertEqual(status, 200)
                options = json.loads(text)["options"]
                self.assertEqual(options["max-queue"], {"value": 33, "source": "file", "default": 256})
                self.assertEqual(options["max-sequences"], {"value": 5, "source": "environment", "default": 64})
                self.assertEqual(options["port"]["source"], "command line")
                self.assertEqual(options["token-budget"], {"value": 512, "source": "default"})
                self.assertEqual(options["api-key-file"]["value"], path("keys"))
                self.assertNotIn("sesame", text)
            finally:
                server.stop()


class Terminal(ServerTest):
    def test_one_prompt(self):
        wanted = self.server.chat(QUESTION).strip()
        url = self.server.url
        for end in (run("--url", url, "--prompt", QUESTION), run("--url", url, "--prompt", "-", stdin=QUESTION + "\n"),
                    run("--url", url, stdin=QUESTION), run(MODEL, "--prompt", QUESTION)):
            self.assertEqual(end.returncode, 0, end.stderr)
            self.assertEqual(end.stdout.strip(), wanted)

    def test_a_raw_prompt_is_continued(self):
        end = run("--url", self.server.url, "--raw", "--prompt", "The capital of France is")
        self.assertEqual(end.returncode, 0, end.stderr)
        self.assertIn("Paris", end.stdout)
        self.assertNotIn("<|im", end.stdout)

    def test_one_prompt_that_cannot_be_answered(self):
        url = self.server.url
        for arguments, word in ((("--url", url), "no prompt"), (("--url", url, "--prompt", ""), "no prompt"), (("--prompt", "x"), "--url"),
                                (("--url", "http://127.0.0.1:1", "--prompt", "x"), "cannot connect"),
                                (("--url", url.replace("http:", "https:"), "--prompt", "x"), "TLS"),
                                (("--url", url, "--prompt", "x", "--raw", "--system", "y"), "--raw"),
                                (("--url", url, "--prompt", "x", "--temperature", "9"), "--temperature"),
                                (("/no/such.gguf", "--prompt", "x"), "/no/such.gguf")):
            end = run(*arguments, extra=())
            self.assertEqual(end.returncode, 1, arguments)
            self.assertIn(word, end.stderr)
            self.assertEqual(len(end.stderr.splitlines()), 1, end.stderr)
            self.assertEqual(end.stdout, "", arguments)

    def test_ctrl_c_ends_one_prompt_with_130(self):
        process = subprocess.Popen([PROGRAM, "run", "--url", self.server.url, "--prompt", "Write a very long story.", "--temperature", "0"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
        self.assertNotEqual(process.stdout.read(1), b"")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130)

    def test_the_facts_of_a_model_file(self):
        end = subprocess.run([PROGRAM, "inspect", MODEL, "--json"], capture_output=True, text=True, timeout=60)
        self.assertEqual(end.returncode, 0, end.stderr)
        facts = json.loads(end.stdout)
        self.assertEqual(facts["architecture"], "llama")
        self.assertEqual(facts["context"], 8192)
        self.assertEqual(facts["shape"]["layers"], 30)
        self.assertEqual(facts["tokenizer"]["tokens"], 49152)
        self.assertEqual(facts["file_bytes"], os.path.getsize(MODEL))
        self.assertIn("Q4_1", facts["formats"]["mlp"])
        self.assertIn("<|im_end|>", facts["tokenizer"]["ends_of_generation"])
        self.assertLess(facts["kv"]["int8"]["bytes_a_token"], facts["kv"]["fp16"]["bytes_a_token"])
        self.assertTrue(facts["servable"])
        text = subprocess.run([PROGRAM, "inspect", MODEL], capture_output=True, text=True, timeout=60)
        self.assertEqual(text.returncode, 0, text.stderr)
        for word in ("llama", "8192 tokens", "Q4_1", "K/V int8", "can be served"):
            self.assertIn(word, text.stdout)

    def test_files_that_are_no_models(self):
        with tempfile.TemporaryDirectory() as folder, open(MODEL, "rb") as model:
            start = model.read(1 << 20)
            for name, content in (("empty.gguf", b""), ("text.gguf", b"hello\n" * 100), ("cut.gguf", start), ("counts.gguf", b"GGUF\3\0\0\0" + b"\xff" * 16)):
                path = os.path.join(folder, name)
                with open(path, "wb") as file:
                    file.write(content)
                end = subprocess.run([PROGRAM, "inspect", path], capture_output=True, text=True, timeout=60)
                self.assertEqual(end.returncode, 1, name)
                self.assertIn(name, end.stderr)
                self.assertEqual(len(end.stderr.splitlines()), 1, end.stderr)
            for arguments in ((), ("/no/such.gguf",), (folder,)):
                end = subprocess.run([PROGRAM, "inspect", *arguments], capture_output=True, text=True, timeout=60)
                self.assertEqual((end.returncode, end.stdout), (1, ""))

    def test_a_conversation_from_a_pipe(self):
        end = chat("--url", self.server.url, stdin="Name three colors.\nAnd three more.\n/new\n" + QUESTION + "\n/quit\nnever asked\n")
        self.assertEqual(end.returncode, 0, end.stderr)
        self.assertIn("Red", end.stdout)
        self.assertTrue(end.stdout.strip().endswith(self.server.chat(QUESTION).strip()), end.stdout)  # /new forgot the colours

    def test_faults(self):
        for arguments, word in ((("--url", "http://127.0.0.1:1"), "cannot connect"), (("--url", "https://x"), "TLS"),
                                (("/no/such.gguf",), "/no/such.gguf"), ((), "--url"), ((MODEL, "--url", "http://x"), "not both")):
            end = chat(*arguments, stdin="hi\n")
            self.assertEqual(end.returncode, 1, arguments)
            self.assertIn(word, end.stderr)


if __name__ == "__main__":
    unittest.main()
