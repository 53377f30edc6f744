"""The `openai` client on random prompts: the pieces of a stream join to the very object that comes unstreamed, and usage agrees. Emoji,
CJK, stops, log-probabilities, several choices, greedy and seeded. 40 requests; 400 in the long test."""
import os
import random
import unittest

import openai

from troupe_server import LONG, ServerTest, model_name

WORDS = ["The", "river", "你好", "世界", "😀", "👩‍👩‍👧", "naïve", "Привет", "こんにちは", "한국어", "fox", "1234", "\n", "\t", "...", "if (x) {", "}", "ß", "ﷺ", "e\u0301",
         "list:", "-", "once", "upon", "<|im_end|>", "\u00a0", "🇩🇪", "answer", "is", "ﬁ"]
STOPS = ["\n", ".", " the", "。", "is", "a", "😀", "\n\n", ", "]


class RandomPrompts(ServerTest):
    def setUp(self):
        self.client = openai.OpenAI(base_url=self.server.url + "/v1", api_key="none", max_retries=0, timeout=300)

    def draw_fields(self, rng):
        fields = {"max_tokens": rng.randint(1, 24), "temperature": 0.0}
        if rng.random() < 0.5:
            fields |= {"temperature": rng.choice([0.3, 1.0, 1.7]), "seed": rng.randrange(2**62), "top_p": rng.choice([0.5, 0.95, 1.0])}
        if rng.random() < 0.4:
            fields["n"] = rng.randint(2, 4)
        if rng.random() < 0.4:
            fields["stop"] = rng.sample(STOPS, rng.randint(1, 4))
        if rng.random() < 0.2:
            fields |= {"presence_penalty": rng.uniform(-2, 2), "frequency_penalty": rng.uniform(-2, 2)}
        if rng.random() < 0.2:
            fields["extra_body"] = {"ignore_eos": True, "min_p": rng.choice([0.0, 0.1])}
        return fields

    def join(self, events, text_of, logprobs_of):
        """{index: (text, log-probabilities, finish reason)} and the usage."""
        choices, usage = {}, None
        for event in events:
            if not event.choices:
                usage = event.usage
            for choice in event.choices:
                entry = choices.setdefault(choice.index, ["", [], None])
                self.assertIsNone(entry[2], "text behind the finish reason")
                entry[0] += text_of(choice) or ""
                entry[1] += logprobs_of(choice)
                entry[2] = choice.finish_reason
        return choices, usage

    def compare(self, whole, streamed, text_of, logprobs_of):
        choices, usage = streamed
        self.assertEqual(sorted(choices), list(range(len(whole.choices))))
        for choice in whole.choices:
            self.assertEqual(tuple(choices[choice.index]), (text_of(choice) or "", logprobs_of(choice), choice.finish_reason))
        for name in ("prompt_tokens", "completion_tokens", "total_tokens"):
            self.assertEqual(getattr(usage, name), getattr(whole.usage, name))

    def test_chat_and_completions(self):
        seed = int(os.environ.get("TROUPE_TEST_SEED", "1"))
        for i in range(200 if LONG else 20):
            rng = random.Random(seed * 1000 + i)
            prompt = " ".join(rng.choices(WORDS, k=rng.randint(1, 30)))
            fields = self.draw_fields(rng)
            with self.subTest(seed=seed, i=i, prompt=prompt, fields=fields):
                self.check_chat(rng, prompt, fields)
                self.check_completion(rng, prompt, fields)

    def check_chat(self, rng, prompt, fields):
        if rng.random() < 0.4:
            fields = fields | {"logprobs": True, "top_logprobs": rng.randint(0, 5)}
        ask = lambda **more: self.client.chat.completions.create(model=model_name(), messages=[{"role": "user", "content": prompt}],
                                                                  **fields, **more)
        logprobs = lambda choice: [e.model_dump() for e in choice.logprobs.content] if choice.logprobs else []
        whole = ask()
        streamed = self.join(ask(stream=True, stream_options={"include_usage": True}), lambda c: c.delta.content, logprobs)
        self.compare(whole, streamed, lambda c: c.message.content, logprobs)

    def check_completion(self, rng, prompt, fields):
        if rng.random() < 0.5:
            fields = fields | {"logprobs": rng.randint(0, 5)}
        if rng.random() < 0.3:
            fields = fields | {"echo": True}
        prompts = [prompt, prompt[::-1]] if rng.random() < 0.3 else prompt
        ask = lambda **more: self.client.completions.create(model=model_name(), prompt=prompts, **fields, **more)

        def logprobs(choice):
            if not choice.logprobs:
                return []
            values = choice.logprobs
            return list(zip(values.tokens, values.token_logprobs, values.top_logprobs, values.text_offset))
        whole = ask()
        streamed = self.join(ask(stream=True, stream_options={"include_usage": True}), lambda c: c.text, logprobs)
        self.compare(whole, streamed, lambda c: c.text, logprobs)
        if fields.get("echo"):
            self.assertTrue(whole.choices[0].text.startswith(prompt))
        if fields.get("logprobs") is not None:
            for choice in whole.choices:
                for token, _, _, offset in logprobs(choice):
                    if not token.startswith("bytes:") and token not in ("<|im_end|>", "<|endoftext|>"):
                        self.assertTrue(choice.text[offset:].startswith(token), (token, offset, choice.text))


if __name__ == "__main__":
    unittest.main()
