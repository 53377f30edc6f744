#!/usr/bin/env python3
"""Writes tests/data/traces/NAME.blocks: which blocks each request of a public trace asks for, in the order of the trace.

Run: python3 tests/reference/trace_blocks.py TRACE.jsonl > tests/data/traces/NAME.blocks
TRACE.jsonl is one of github kvcache-ai/Mooncake, FAST25-release/traces (Apache-2.0): one object a request, whose hash_ids name its blocks
of 512 tokens; equal ids are equal prefixes. A line of the output is a request: runs "first" or "first+count" of ids.
"""
import json
import sys


def runs(ids):
    found = []
    for block in ids:
        if found and found[-1][0] + found[-1][1] == block:
            found[-1][1] += 1
        else:
            found.append([block, 1])
    return " ".join(f"{first}+{count}" if count > 1 else str(first) for first, count in found)


with open(sys.argv[1]) as trace:
    for line in trace:
        print(runs(json.loads(line)["hash_ids"]))
