#!/usr/bin/env python3
"""A tree of answers, as agents and tree searches use it: the question is asked once, then several continuations go on from the same
response. Each is a branch of one tree on the server, whose shared part is computed once. usage: branches.py [URL [KEY]]"""
import sys

from openai import OpenAI

url = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080"
client = OpenAI(base_url=url.rstrip("/") + "/v1", api_key=sys.argv[2] if len(sys.argv) > 2 else "none")
model = client.models.list().data[0].id


def respond(connection, text, parent=None, **fields):
    """Asks on the socket; returns (response, text)."""
    connection.response.create(model=model, input=text, max_output_tokens=60, **({"previous_response_id": parent} if parent else {}), **fields)
    parts = []
    for event in connection:
        if event.type == "response.output_text.delta":
            parts.append(event.delta)
        elif event.type in ("response.completed", "response.incomplete"):
            return event.response, "".join(parts)
        elif event.type in ("error", "response.failed"):
            raise SystemExit(event.to_json())
    raise SystemExit("the connection ended")


with client.responses.connect() as connection:
    root, text = respond(connection, "We plan a day in Paris. Name one museum and one park.", temperature=0)
    print("root:", text)
    for step in ("What should we do in the morning?", "What should we do in the evening?", "What if it rains?"):
        response, text = respond(connection, step, parent=root.id, temperature=0)
        usage = response.usage
        print(f"\n- {step}  ({usage.input_tokens_details.cached_tokens} of {usage.input_tokens} prompt tokens from the cache)\n{text}")
