#!/usr/bin/env python3
"""Monte Carlo tree search with a language model: from a start number, reach a target in a few steps of arithmetic.

    mcts.py [URL] [--branches 16] [--depth 6] [--iterations 48] [--seed 1] [--api-key KEY] [--json FILE]

The model proposes steps (k samples from one node at once) and judges positions (probability of "yes" after a question); Python does the
sums. Every call starts with the same rules and examples, then the path from the root to the node: a server that keeps a prefix tree
computes each path once, whichever branch the search jumps to. Only /v1/completions is used, so any OpenAI-compatible server can be
compared: `n` where the server knows it, else one call a sample. Same seed, same search on the same server.

Kocsis, Szepesvári: Bandit based Monte-Carlo planning (2006) for the choice of branches; virtual losses keep several of them live at once.
"""
import argparse
import asyncio
import json
import math
import random
import re
import sys
import time

from openai import AsyncOpenAI, BadRequestError

RULES = """You reach a target number step by step. Each step takes the present number and adds, subtracts or multiplies by one
number from 1 to 9, and writes the result. Write one step a line.
"""
STEP = re.compile(r"\s*-?\d+\s*([+\-*])\s*([1-9])\b")
APPLY = {"+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b}


def example(dice):
    """A solved task, as text."""
    value = start = dice.randint(1, 9)
    lines = []
    for _ in range(dice.randint(2, 5)):
        sign, operand = dice.choice("+-**"), dice.randint(1, 9)
        after = APPLY[sign](value, operand)
        lines.append(f"{value} {sign} {operand} = {after}\n")
        value = after
    return f"\nStart: {start}\nTarget: {value}\n" + "".join(lines) + "Done.\n"


def root_prompt(start, target, characters, seed):
    dice = random.Random(seed)
    text = RULES
    while len(text) < characters:
        text += example(dice)
    return text + f"\nStart: {start}\nTarget: {target}\n"


class Node:
    def __init__(self, parent, line, value, depth):
        self.parent, self.line, self.value, self.depth = parent, line, value, depth
        self.children, self.visits, self.total, self.pending, self.closed = [], 0, 0.0, 0, False

    def path(self):
        return (self.parent.path() if self.parent else "") + self.line

    def worth(self, exploration):
        """Upper confidence bound; searches under way count as visits without reward."""
        visits = self.visits + self.pending
        if visits == 0:
            return math.inf
        return self.total / visits + exploration * math.sqrt(math.log(1 + self.parent.visits + self.parent.pending) / visits)


class Search:
    def __init__(self, client, model, options):
        self.client, self.model, self.options = client, model, options
        dice = random.Random(options.seed)
        self.start, self.target = dice.randint(2, 9), dice.randint(40, 99)
        self.prompt = root_prompt(self.start, self.target, options.root_characters, options.seed)
        self.root = Node(None, "", self.start, 0)
        self.calls = self.prompt_tokens = self.cached_tokens = self.output_tokens = 0
        self.solved = []
        self.takes_n = not options.single
        self.next_seed = options.seed * 100_000

    async def complete(self, prompt, n=1, **fields):
        self.next_seed += n
        answer = await self.client.completions.create(model=self.model, prompt=prompt, n=n, seed=self.next_seed, **fields)
        self.calls += 1
        self.prompt_tokens += answer.usage.prompt_tokens
        self.output_tokens += answer.usage.completion_tokens
        details = getattr(answer.usage, "prompt_tokens_details", None)
        self.cached_tokens += (details.cached_tokens or 0) if details else 0
        return answer.choices

    async def propose(self, node):
        """k next lines, sampled."""
        fields = {"max_tokens": self.options.step_tokens, "temperature": 0.9, "stop": ["\n"]}
        prompt, k = self.prompt + node.path(), self.options.children
        if self.takes_n:
            try:
                choices = await self.complete(prompt, k, **fields)
                if len(choices) == k:
                    return [choice.text for choice in choices]
            except BadRequestError:
                pass
            self.takes_n = False
        answers = await asyncio.gather(*(self.complete(prompt, **fields) for _ in range(k)))
        return [choices[0].text for choices in answers]

    async def judge(self, node):
        """Probability of yes against no: one token."""
        question = f"Question: is {node.value} on a good way to {self.target}? Answer yes or no: "
        choice = (await self.complete(self.prompt + node.path() + question, max_tokens=1, temperature=0, logprobs=5))[0]
        top = (choice.logprobs.top_logprobs or [{}])[0] if choice.logprobs else {}
        mass = {"yes": 1e-6, "no": 1e-6}
        for token, logprob in (top or {}).items():
            word = token.strip().lower()
            if word in mass:
                mass[word] += math.exp(logprob)
        return mass["yes"] / (mass["yes"] + mass["no"])

    def select(self):
        """The most promising leaf that nobody expands at present; None if there is none."""
        node = self.root
        while node.children:
            open_children = [child for child in node.children if not child.closed]
            if not open_children:
                node.closed = True
                return None
            node = max(open_children, key=lambda child: child.worth(self.options.exploration))
        return None if node.closed or node.pending else node

    def back_up(self, node, reward):
        while node:
            node.visits, node.total, node.pending = node.visits + 1, node.total + reward, node.pending - 1
            node = node.parent

    async def expand(self, leaf):
        seen, judged = set(), []
        for text in await self.propose(leaf):
            match = STEP.match(text)
            if match is None or (match[1], match[2]) in seen:
                continue
            seen.add((match[1], match[2]))
            value = APPLY[match[1]](leaf.value, int(match[2]))
            child = Node(leaf, f"{leaf.value} {match[1]} {match[2]} = {value}\n", value, leaf.depth + 1)
            child.closed = value == self.target or child.depth == self.options.depth
            leaf.children.append(child)
            if value == self.target:
                self.solved.append(child.path())
            else:
                judged.append(child)
        scores = await asyncio.gather(*(self.judge(child) for child in judged))
        for child, score in zip(judged, scores):
            near = 1 / (1 + abs(self.target - child.value))
            child.visits, child.total = 1, 0.5 * score + 0.5 * near
        if not leaf.children:
            leaf.closed = True  # nothing that could be read as a step
        best = max((child.total for child in judged), default=0.0)
        self.back_up(leaf, 1.0 if any(child.value == self.target for child in leaf.children) else best)

    async def run(self):
        live, left = set(), self.options.iterations
        while left > 0 or live:
            while left > 0 and len(live) < self.options.branches:
                leaf = self.select()
                if leaf is None:
                    break
                node = leaf
                while node:
                    node.pending, node = node.pending + 1, node.parent
                live.add(asyncio.create_task(self.expand(leaf)))
                left -= 1
            if not live:
                break  # the whole tree is closed
            done, live = await asyncio.wait(live, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()


async def main():
    parser = argparse.ArgumentParser(description="tree search over arithmetic steps that a language model proposes")
    parser.add_argument("url", nargs="?", default="http://127.0.0.1:8080")
    parser.add_argument("--api-key", default="none")
    parser.add_argument("--branches", type=int, default=16, help="expansions under way at once")
    parser.add_argument("--children", type=int, default=4, help="samples of an expansion")
    parser.add_argument("--single", action="store_true", help="one call a sample, also where the server knows n")
    parser.add_argument("--depth", type=int, default=6, help="steps, at most")
    parser.add_argument("--iterations", type=int, default=48, help="expansions in all")
    parser.add_argument("--exploration", type=float, default=0.7)
    parser.add_argument("--step-tokens", type=int, default=20)
    parser.add_argument("--root-characters", type=int, default=1600, help="rules and examples; some 1,000 tokens")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", help="file for the figures")
    options = parser.parse_args()
    client = AsyncOpenAI(base_url=options.url.rstrip("/") + "/v1", api_key=options.api_key, timeout=600, max_retries=0)
    search = Search(client, (await client.models.list()).data[0].id, options)
    begin = time.monotonic()
    await search.run()
    wall = time.monotonic() - begin
    figures = {"wall_seconds": round(wall, 3), "calls": search.calls, "prompt_tokens": search.prompt_tokens,
               "cached_tokens": search.cached_tokens, "cached_share": round(search.cached_tokens / max(search.prompt_tokens, 1), 4),
               "output_tokens": search.output_tokens, "n": search.takes_n, "root_visits": search.root.visits,
               "solutions": len(search.solved)}
    print(f"from {search.start} to {search.target}: " + (search.solved[0].replace("\n", "; ") if search.solved else "not reached"))
    print(", ".join(f"{name} {value}" for name, value in figures.items()))
    if options.json:
        with open(options.json, "w") as file:
            json.dump(figures, file)


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        sys.exit(130)
