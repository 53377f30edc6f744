"""The programs in examples/ against a server: they end well and show what they promise."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

from troupe_server import ROOT, ServerTest


class ExamplesTest(ServerTest):
    def run_example(self, name, *arguments):
        done = subprocess.run([sys.executable, str(ROOT / "examples" / name), *arguments], capture_output=True, text=True, timeout=200)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_agent(self):
        text = self.run_example("agent.py", "--url", self.server.url)
        self.assertIn("RESULT: 391", text)
        self.assertIn("=> 391", text)

    def test_mcts(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "figures.json"
            self.run_example("mcts.py", self.server.url, "--iterations", "6", "--branches", "4", "--json", str(path))
            figures = json.loads(path.read_text())
        self.assertEqual(figures["root_visits"], 6)
        self.assertGreater(figures["output_tokens"], 0)
        self.assertGreater(figures["cached_share"], 0.85)  # the root is computed once

    def test_branches(self):
        text = self.run_example("branches.py", self.server.url)
        self.assertEqual(text.count("prompt tokens from the cache"), 3)


if __name__ == "__main__":
    unittest.main()
