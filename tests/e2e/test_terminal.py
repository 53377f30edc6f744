"""`troupe chat`: with a server, and with the model in its own process."""
import subprocess
import unittest

from troupe_server import MODEL, PROGRAM, ServerTest

QUESTION = "Where is the Eiffel Tower?"


def chat(*arguments, stdin=""):
    return subprocess.run([PROGRAM, "chat", *arguments, "--temperature", "0", "--max-tokens", "24"], input=stdin, capture_output=True,
                          text=True, timeout=120)


class Terminal(ServerTest):
    def test_with_a_server(self):
        end = chat("--url", self.server.url, "--prompt", QUESTION)
        self.assertEqual(end.returncode, 0, end.stderr)
        self.assertEqual(end.stdout.strip(), self.server.chat(QUESTION).strip())

    def test_embedded_gives_the_same_answer(self):
        end = chat(MODEL, "--prompt", QUESTION)
        self.assertEqual(end.returncode, 0, end.stderr)
        self.assertEqual(end.stdout.strip(), self.server.chat(QUESTION).strip())

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
