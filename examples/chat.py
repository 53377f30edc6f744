#!/usr/bin/env python3
"""A conversation in the terminal over POST /v1/chat/completions, streamed. usage: chat.py [URL [KEY]]"""
import sys

from openai import OpenAI

url = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080"
client = OpenAI(base_url=url.rstrip("/") + "/v1", api_key=sys.argv[2] if len(sys.argv) > 2 else "none")
model = client.models.list().data[0].id
messages = []
print(f"Chat with {model}; an empty line ends.")
while question := input("> "):
    messages.append({"role": "user", "content": question})
    answer = ""
    for event in client.chat.completions.create(model=model, messages=messages, stream=True):
        for choice in event.choices:
            piece = choice.delta.content or ""
            print(piece, end="", flush=True)
            answer += piece
    print()
    messages.append({"role": "assistant", "content": answer})
