#!/usr/bin/env python3
"""An agent of several turns whose tools speak a plain text protocol: a line `name: argument` asks for a tool, the next message brings
`RESULT: ...`, and a line `ANSWER: ...` ends the task. Each turn continues the last response by its id, so the server computes only what is
new, also after a restart of the server where it keeps responses on disk.   usage: agent.py [--url URL] [--api-key KEY] [TASK]"""
import argparse
import ast
import datetime
import operator

from openai import OpenAI

INSTRUCTIONS = """You solve tasks with tools. To use one, write a line by itself and then stop:
calculator: 12 * (3 + 4)
date: today
You will be told the result as RESULT: ... When you know the answer, write a line: ANSWER: followed by it."""
EXAMPLE = [("user", "What is 2 times 15?"), ("assistant", "calculator: 2 * 15"), ("user", "RESULT: 30"), ("assistant", "ANSWER: 30"),
           ("user", "What day is it?"), ("assistant", "date: today"), ("user", "RESULT: 2024-05-01"), ("assistant", "ANSWER: 2024-05-01"),
           ("user", "What is 96 divided by 8?"), ("assistant", "calculator: 96 / 8"), ("user", "RESULT: 12.0"), ("assistant", "ANSWER: 12")]
OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv, ast.USub: operator.neg}


def calculator(text):
    def value(node):
        if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
            return node.value
        if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
            return OPERATORS[type(node.op)](value(node.left), value(node.right))
        if isinstance(node, ast.UnaryOp) and type(node.op) in OPERATORS:
            return OPERATORS[type(node.op)](value(node.operand))
        raise ValueError("only numbers and + - * / are understood")

    return value(ast.parse(text.strip(), mode="eval").body)


TOOLS = {"calculator": calculator, "date": lambda _: datetime.date.today().isoformat()}


def call(line):
    name, _, argument = line.partition(":")
    try:
        return f"RESULT: {TOOLS[name](argument)}"
    except (ValueError, SyntaxError, ZeroDivisionError) as error:
        return f"RESULT: error: {error}"


def main():
    parser = argparse.ArgumentParser(description="an agent with two tools")
    parser.add_argument("--url", default="http://127.0.0.1:8080")
    parser.add_argument("--api-key", default="none")
    parser.add_argument("--turns", type=int, default=6)
    parser.add_argument("task", nargs="?", default="What is 17 times 23?")
    options = parser.parse_args()
    client = OpenAI(base_url=options.url.rstrip("/") + "/v1", api_key=options.api_key)
    model = client.models.list().data[0].id
    # An example conversation: small models follow what they see, not what they are told.
    opening = [("system", INSTRUCTIONS), *EXAMPLE, ("user", options.task)]
    previous, message = None, [{"role": role, "content": content} for role, content in opening]
    for turn in range(1, options.turns + 1):
        response = client.responses.create(model=model, input=message, previous_response_id=previous, max_output_tokens=120,
                                           temperature=0, store=True)
        previous, text, usage = response.id, response.output_text, response.usage
        print(f"--- turn {turn}: {usage.input_tokens_details.cached_tokens} of {usage.input_tokens} prompt tokens from the cache\n{text}")
        lines = text.splitlines()
        answer = next((line for line in lines if line.startswith("ANSWER:")), None)
        wanted = next((line for line in lines if line.partition(":")[0] in TOOLS), None)
        if answer:
            print("=>", answer.removeprefix("ANSWER:").strip())
            return
        message = call(wanted) if wanted else "Write one line, like calculator: 1 + 2, or like ANSWER: 3"
        print("<-", message)
    print(f"no answer in {options.turns} turns")


if __name__ == "__main__":
    main()
