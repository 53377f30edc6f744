"""`troupe bench`: every suite with tiny settings, a foreign server, faults, and what an interrupt leaves. No figure is judged."""
import json
import pathlib
import re
import signal
import subprocess
import tempfile
import time
import unittest
import xml.etree.ElementTree

from troupe_server import MODEL, PROGRAM, ServerTest

TINY = ("--repetitions", "1", "--prefill-tokens", "48", "--batch", "1,2", "--context-tokens", "16", "--decode-steps", "6", "--product-rows", "1,16")
TINY_HTTP = ("--clients", "2", "--requests", "3", "--prompt-tokens", "40", "--system-tokens", "40", "--answer-tokens", "6", "--turns", "2",
             "--streams", "2", "--stream-tokens", "60", "--newcomer-tokens", "120", "--settle-seconds", "0.05", "--ignore-eos")
TINY_CACHE = ("--repetitions", "1", "--clients", "2", "--requests", "4", "--prompt-tokens", "40", "--system-tokens", "80", "--answer-tokens", "4",
              "--turns", "2", "--chat-tokens", "160", "--tree-root-tokens", "100", "--tree-branches", "3", "--tree-depth", "3",
              "--tree-children", "2", "--tree-expansions", "4")


def bench(*arguments):
    return subprocess.run([PROGRAM, "bench", *arguments], capture_output=True, text=True, timeout=240)


def caught(process, number):
    """Whether the process has a handler for this signal."""
    try:
        status = pathlib.Path(f"/proc/{process}/status").read_text()
    except OSError:
        return False
    return int(re.search(r"SigCgt:\s+(\w+)", status).group(1), 16) >> (number - 1) & 1 == 1


class Bench(ServerTest):
    def check_http(self, figures):
        self.assertEqual([f["scenario"] for f in figures], ["ttft", "unique", "shared", "multiturn", "newcomer"])
        for figure in figures:
            self.assertEqual(figure["errors"], 0, figure)
            self.assertGreater(figure["ttft_ms"]["p50"], 0, figure)
            self.assertGreater(figure["output_tok_s"], 0, figure)
            self.assertGreater(figure["prompt_tokens_mean"], 0, figure)
        self.assertEqual(figures[0]["clients"], 1)
        self.assertEqual(figures[1]["clients"], 2)
        self.assertEqual(len(figures[3]["ttft_ms_p50_by_turn"]), 2)
        self.assertGreater(figures[2]["cached_tokens_mean"], 0)  # the common system prompt
        self.assertGreater(figures[4]["newcomer_prompt_tokens"], 100)
        self.assertGreater(figures[4]["itl_during_ms"]["max"], 0)

    def test_all_suites(self):
        with tempfile.TemporaryDirectory() as folder:
            data, page = pathlib.Path(folder, "out.json"), pathlib.Path(folder, "out.html")
            end = bench(MODEL, "prefill", "decode", "step", "roof", "http", *TINY, *TINY_HTTP, "--json", str(data), "--html", str(page))
            self.assertEqual(end.returncode, 0, end.stderr)
            self.assertEqual(end.stderr, "")  # no bar where nobody looks, no warning
            report = json.loads(data.read_text())
            root = xml.etree.ElementTree.fromstring(page.read_text())
        for title in ("prefill:", "decode:", "step, scheduled, batch 1", "step, served, batch 2", "roof:", "http:"):
            self.assertIn(title, end.stdout)

        self.assertFalse(report["interrupted"])
        self.assertIn("Q4_1", report["weights"])
        self.assertGreater(report["threads"], 0)
        self.assertEqual([(r["run"], r["batch"]) for r in report["runs"]], [("prefill", 1), ("decode", 1), ("decode", 2)])
        for run in report["runs"]:
            self.assertGreater(run["median_tokens_per_second"], 0, run)
        self.assertEqual({(s["path"], s["batch"]) for s in report["steps"]},
                         {("scheduled", 1), ("scheduled", 2), ("served", 1), ("served", 2)})
        for step in report["steps"]:
            parts = {part["name"]: part["us"] for part in step["parts"]}
            for name in ("embedding", "norm, QKV", "RoPE, K/V append", "attention", "attention output", "norm, gate, up", "SwiGLU, down",
                         "norm, head", "sampling"):
                self.assertGreater(parts[name], 0, step)
            # The parts make up the step.
            self.assertAlmostEqual(sum(parts.values()) / 1e3, step["step_ms"], delta=0.02 * step["step_ms"], msg=str(step))
        self.assertTrue({"actors", "gateway", "client"} <= set(next(s for s in report["steps"] if s["path"] == "served")["processor_us"]))
        self.assertIn("DRAM read", {peak["what"] for peak in report["peaks"]})
        self.assertEqual({product["name"] for product in report["products"]}, {"QKV", "attention output", "gate, up", "down", "head"})
        for product in report["products"]:
            self.assertGreater(product["gops"], 0, product)
            self.assertGreater(product["share_of_peak_percent"], 0, product)
        self.check_http(report["http"])
        headings = [heading.text for heading in root.iter("h2")]
        self.assertEqual(headings, ["Prefill", "Decode", "Where a step's time goes", "Roof", "Serving over HTTP"])
        self.assertGreater(len(list(root.iter("svg"))), 5)

    def test_a_server_elsewhere(self):
        end = bench("--url", self.server.url, *TINY_HTTP, "--json")
        self.assertEqual(end.returncode, 0, end.stderr)
        report = json.loads(end.stdout)
        self.check_http(report["http"])
        self.assertEqual(report["url"], self.server.url)
        self.assertEqual(report["runs"], [])

    def check_cache(self, figures, cases):
        self.assertEqual([(f["scenario"], f["where"]) for f in figures], cases)
        for figure in figures:
            self.assertEqual(figure["errors"], 0, figure)
            self.assertGreater(figure["ttft_ms"]["p50"], 0, figure)
            self.assertGreater(figure["output_tok_s"], 0, figure)
            self.assertGreater(figure["prompt_tokens_mean"], 0, figure)
        by_case = {(f["scenario"], f["where"]): f for f in figures}
        self.assertLess(by_case["turn", "cold"]["cached_tokens_mean"], 32)
        self.assertGreater(by_case["turn", "device"]["cached_tokens_mean"], 128)
        self.assertGreater(by_case["turn", "device"]["ratio_to"]["ratio"], 0)
        tree = by_case["mcts", "3 branches"]
        self.assertEqual(tree["requests"], 4 * (1 + 2))
        self.assertGreater(tree["cached_percent"], 50)
        return by_case

    def test_cache(self):
        with tempfile.TemporaryDirectory() as folder:
            page, trace = pathlib.Path(folder, "out.html"), pathlib.Path(folder, "a.blocks")
            trace.write_text("0+3\n0+2 9\n0+3 4\n7\n8\n")
            end = bench(MODEL, "cache", *TINY_CACHE, "--trace", str(trace), "--html", str(page), "--json", "--cache-dir", folder)
            self.assertEqual(end.returncode, 0, end.stderr)
            self.assertEqual(end.stderr, "")
            self.assertIn("Prefix cache", [heading.text for heading in xml.etree.ElementTree.fromstring(page.read_text()).iter("h2")])
            self.assertEqual(list(pathlib.Path(folder).glob("bench-*")), [])  # its blocks are gone
        report = json.loads(end.stdout)
        cases = [("turn", where) for where in ("cold", "device", "host", "disk", "slow disk")]
        cases += [("shared", "2 clients"), ("multiturn", "2 clients"), ("mcts", "3 branches"), ("none", "device only"), ("none", "with tiers"),
                  ("trace", "2 clients")]
        figures = self.check_cache(report["cache"], cases)
        self.assertGreater(figures["turn", "host"]["cached_tokens_mean_by_tier"]["host"], 64)
        self.assertGreater(figures["turn", "disk"]["cached_tokens_mean_by_tier"]["disk"], 64)
        self.assertEqual(figures["trace", "2 clients"]["requests"], 4)
        self.assertGreater(figures["trace", "2 clients"]["cached_percent"], 0)
        self.assertGreater(figures["none", "with tiers"]["ratio_to"]["ratio"], 0)
        self.assertEqual(report["runs"], [])

    def test_cache_of_a_server_elsewhere(self):
        end = bench("--url", self.server.url, "cache", *TINY_CACHE, "--ignore-eos", "--json")
        self.assertEqual(end.returncode, 0, end.stderr)
        report = json.loads(end.stdout)
        self.check_cache(report["cache"], [("turn", "cold"), ("turn", "device"), ("shared", "2 clients"), ("multiturn", "2 clients"),
                                           ("mcts", "3 branches")])
        self.assertIn("--url", report["notes"][0])

    def test_an_interrupt_keeps_what_there_is(self):
        process = subprocess.Popen([PROGRAM, "bench", MODEL, "prefill", "--prefill-tokens", "64", "--repetitions", "1000", "--json"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        time.sleep(3)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, errors)
        report = json.loads(output)
        self.assertTrue(report["interrupted"])
        for run in report["runs"]:
            self.assertLess(run["repetitions"], 1000)

    def test_an_interrupt_while_it_loads_is_no_fault(self):
        process = subprocess.Popen([PROGRAM, "bench", MODEL, "prefill", "http", "--repetitions", "1000", "--cache-dir", "none", "--json"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + 30
        while not caught(process.pid, signal.SIGINT):
            self.assertLess(time.monotonic(), deadline)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
        self.assertEqual((process.returncode, errors), (130, ""))
        self.assertTrue(json.loads(output)["interrupted"])

    def test_figures_that_cannot_be_written_are_a_fault(self):
        for arguments in ((), ("--json",)):
            with open("/dev/full", "w") as full:
                end = subprocess.run([PROGRAM, "bench", MODEL, "prefill", *TINY, *arguments], stdout=full, stderr=subprocess.PIPE, text=True,
                                     timeout=240)
            self.assertEqual(end.returncode, 1, arguments)
            self.assertIn("cannot write", end.stderr)

    def test_faults(self):
        for arguments, words in (((), "GGUF"), (("/no/such.gguf",), "/no/such.gguf"), ((MODEL, "speed"), "prefill, decode, step, roof, http"),
                                 ((MODEL, "--batch", "9999"), "1 to 4096"), ((MODEL, "prefill", "--prefill-tokens", "65536"), "context has"),
                                 ((MODEL, "decode", "--batch", "4096"), "--kv-memory"), ((MODEL, "--html", "/no/such/folder/x.html"), "cannot write"),
                                 (("--url", "http://127.0.0.1:1"), "cannot connect"), ((MODEL, "--url", "http://127.0.0.1:1"), "not both"),
                                 (("decode", "--url", "http://127.0.0.1:1"), "only http"),
                                 ((MODEL, "cache", "--trace", "/no/such.blocks"), "cannot read /no/such.blocks"),
                                 ((MODEL, "cache", "--cache-scenario", "turn", "--chat-tokens", "65536"), "context has"),
                                 ((MODEL, "cache", "--cache-dir", "none"), "--cache-dir")):
            end = bench(*arguments)
            self.assertEqual(end.returncode, 1, arguments)
            self.assertIn(words, end.stderr, arguments)
            self.assertEqual(end.stderr.count("\n"), 1, end.stderr)


if __name__ == "__main__":
    unittest.main()
