#!/usr/bin/env python3
"""How well llama.cpp's quantized path agrees with the fp32 reference of tests/data/golden/smollm2_q4_1_greedy.json.

Teacher-forced: step i sees the prompt and the first i reference ids, whatever llama.cpp would have chosen. For each step:
  agreement   its best id is the reference's best id
  error       mean |difference of log-probability| over the five ids that the reference ranks best
Writes the figures to tests/data/golden/llama_cpp_agreement.json, which tests/runtime/exec/golden_test.cpp holds ours against.

  pip install xllamacpp==2026.10.11549
  python tests/reference/llama_cpp_agreement.py MODEL.gguf
"""
import json
import pathlib
import sys
from importlib.metadata import version

import xllamacpp

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "data" / "golden"
COMMA = 28  # a token whose text is always complete
CANDIDATES = 100  # log-probabilities asked for: the reference's five are among them


def start_server(model):
    params = xllamacpp.CommonParams()
    params.model.path = model
    params.n_ctx = 2048
    params.n_parallel = 1
    params.warmup = False
    params.cpuparams.n_threads = 2
    params.cpuparams_batch.n_threads = 2
    return xllamacpp.Server(params)


def log_probabilities(server, ids):
    """{id: natural log-probability} of the best candidates for the token behind `ids`, best first."""
    # The bias decides what is drawn, never the log-probabilities, which come from the raw logits; without it a step that ends
    # the text, or whose token ends inside a character, reports none.
    answer = server.handle_completions(
        {"prompt": ids, "max_tokens": 1, "temperature": 0, "logprobs": CANDIDATES, "logit_bias": [[COMMA, 1000]]}
    )
    entries = answer["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
    return {entry["id"]: entry["logprob"] for entry in entries}


def main():
    golden = json.loads((GOLDEN / "smollm2_q4_1_greedy.json").read_text())
    server = start_server(sys.argv[1])
    steps = agreed = missing = values = 0
    error = worst_margin = 0.0
    for case in golden["cases"]:
        for i, (best, top5, margin) in enumerate(zip(case["greedy_ids"], case["top5"], case["margin"])):
            got = log_probabilities(server, case["prompt_ids"] + case["greedy_ids"][:i])
            steps += 1
            if next(iter(got)) == best:
                agreed += 1
            else:
                worst_margin = max(worst_margin, margin)
            for token, reference in top5:
                if token not in got:
                    missing += 1
                    continue
                values += 1
                error += abs(got[token] - reference)
        print(f"{case['id']}: {agreed}/{steps}", file=sys.stderr)
    figures = {
        "engine": f"llama.cpp (PyPI xllamacpp {version('xllamacpp')}), CPU, 2 threads, default settings",
        "model": golden["model"],
        "steps": steps,
        "top1_agreement": agreed / steps,
        "mean_top5_error": error / values,
        "missing_candidates": missing,
        "largest_margin_of_a_disagreement": worst_margin,
    }
    (GOLDEN / "llama_cpp_agreement.json").write_text(json.dumps(figures, indent=2) + "\n")
    print(json.dumps(figures, indent=2))


main()
