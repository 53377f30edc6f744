#!/usr/bin/env python3
"""Checks tests/data/golden/smollm2_tokens.jsonl against the reference tokenizer (PyPI `tokenizers`), built from a model file's vocabulary.

Run: pip install tokenizers; python3 tests/reference/tokenizer_reference.py MODEL.gguf
Adds " --special" to write tests/data/golden/smollm2_special.jsonl to standard output instead: blanks beside control tokens and at the start.
Prints, for each pre-tokenizer, on how many lines its ids differ. The golden ids are those of GPT-2's byte-level rule ("byte level"). Cutting
digits out first ("digits, byte level", llama.cpp's rule for this vocabulary) differs where blanks or a newline stand before a number.
"""
import json
import pathlib
import struct
import sys

from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers

GOLDEN = pathlib.Path(__file__).parent.parent / "data" / "golden" / "smollm2_tokens.jsonl"
CONTROL = 3
WORDS = ["Hello", " Hello", "  Hello", " ", "x", " x", "\n", "\n\nx", "\t x", "123", " 123", "\u3000x", "\u00e9", " \U0001f600", "'s", "", "!", " <s> x"]
MARKS = ["<|im_start|>", "<|im_end|>", "<|endoftext|>"]


def read_array(data, key):
    """A metadata array of strings or int32 numbers."""
    at = data.index(key) + len(key)
    kind, element, count = struct.unpack_from("<IIQ", data, at)
    at += 16
    if kind != 9 or element not in (5, 8):
        raise ValueError(f"{key}: not an array of strings or int32")
    if element == 5:
        return list(struct.unpack_from(f"<{count}i", data, at))
    values = []
    for _ in range(count):
        (length,) = struct.unpack_from("<Q", data, at)
        values.append(data[at + 8 : at + 8 + length].decode())
        at += 8 + length
    return values


def reference(data, pre_tokenizer):
    tokens = read_array(data, b"tokenizer.ggml.tokens")
    merges = [tuple(merge.split(" ")) for merge in read_array(data, b"tokenizer.ggml.merges")]
    types = read_array(data, b"tokenizer.ggml.token_type")
    tokenizer = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t, kind in zip(tokens, types) if kind == CONTROL])
    return tokenizer


def main():
    data = pathlib.Path(sys.argv[1]).read_bytes()[: 8 << 20]
    lines = [json.loads(line) for line in GOLDEN.read_text().splitlines()]
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    if "--special" in sys.argv:
        tokenizer = reference(data, byte_level)
        texts = WORDS + [mark + word for mark in MARKS for word in WORDS] + [word + MARKS[0] + word for word in WORDS] + [a + b for a in MARKS for b in MARKS]
        texts += [MARKS[0] + "user\n Hello " + MARKS[1] + "\n" + MARKS[0] + "assistant\n", "<|im_start", "|im_end|>", "<|im_start|><|im_start"]
        for text in texts:
            print(json.dumps({"text": text, "ids": tokenizer.encode(text, add_special_tokens=False).ids}))
        return
    digits_first = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level])
    for name, rule in (("byte level", byte_level), ("digits, byte level", digits_first)):
        tokenizer = reference(data, rule)
        wrong = sum(tokenizer.encode(line["text"], add_special_tokens=False).ids != line["ids"] for line in lines)
        print(f"{name}: {wrong} of {len(lines)} lines differ")


if __name__ == "__main__":
    main()
