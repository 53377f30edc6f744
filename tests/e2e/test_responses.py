"""`/v1/responses` as the openai client uses it: create, stream, retrieve, resume, cancel, delete, input items, input tokens, WebSocket lanes;
and random prompts: the pieces of every stream, over both transports, are the whole object."""
import json
import random
import unittest

import openai

from troupe_server import LONG, ServerTest, is_idle, model_name

PROMPTS = 200 if LONG else 30
TERMINAL = {"response.completed", "response.incomplete", "response.failed"}
WORDS = ["sea", "Eiffel", "naïve", "Straße", "日本語", "漢字かな", "한국어", "中文字符", "😀", "👩‍👩‍👧‍👦", "🇫🇷", "e\u0301", "\u202eabc", "مرحبا", "ไทย",
         "\t", "  ", "\n\n", "<|im_end|>", "<b>&amp;</b>", "\"quoted\"", "back\\slash", "0x1F", "3.14159", "ﬁ"]
REQUESTS = ["Say it again: ", "Translate: ", "What is ", "Continue: ", "List three things about ", "Write only emoji for "]


def random_request(rng):
    text = rng.choice(REQUESTS) + " ".join(rng.choice(WORDS) for _ in range(rng.randint(1, 12)))
    fields = {"input": text, "max_output_tokens": rng.randint(1, 20)}
    if rng.random() < 0.3:
        fields["instructions"] = rng.choice(["Be brief.", "Answer in emoji 😀.", "日本語で答えて。"])
    if rng.random() < 0.5:
        fields.update(include=["message.output_text.logprobs"], top_logprobs=rng.randint(0, 3))
    extra = {"seed": rng.randint(0, 2**31)}
    fields["temperature"] = rng.choice([0, 0, 0.8, 1.5])
    if rng.random() < 0.4:
        extra["stop"] = rng.sample([" the", "e", ".", "\n", "。", "😀", "1"], rng.randint(1, 3))
    return fields, extra


def comparable(response):
    """What must be the same in two answers to one request."""
    usage = response.usage
    return (response.status, response.incomplete_details and response.incomplete_details.reason,
            [(part.text, [entry.model_dump() for entry in part.logprobs or []]) for item in response.output for part in item.content],
            usage.input_tokens, usage.output_tokens)


class Pieces:
    """Puts the events of a stream together."""

    def __init__(self, test):
        self.test, self.events = test, []

    def add(self, event):
        self.test.assertEqual(event.sequence_number, len(self.events))
        self.events.append(event)
        return event.type in TERMINAL

    def response(self):
        """The object of the terminal event, once it is what the pieces say."""
        text = "".join(e.delta for e in self.events if e.type == "response.output_text.delta")
        entries = [entry.model_dump() for e in self.events if e.type == "response.output_text.delta" for entry in e.logprobs]
        whole = self.events[-1].response
        self.test.assertEqual(sum(e.type in TERMINAL for e in self.events), 1)
        self.test.assertEqual(text, whole.output_text)
        done = [e for e in self.events if e.type == "response.output_text.done"]
        self.test.assertEqual([e.text for e in done], [whole.output_text])
        self.test.assertEqual(entries, [entry.model_dump() for entry in whole.output[0].content[0].logprobs or []])
        return whole


class ResponsesClient(ServerTest):
    def setUp(self):
        self.client = openai.OpenAI(base_url=self.server.url + "/v1", api_key="none", max_retries=0)

    def create(self, text="Where is the Eiffel Tower?", **fields):
        return self.client.responses.create(model=model_name(), input=text, **{"temperature": 0, "max_output_tokens": 24, **fields})

    def test_create_retrieve_and_delete(self):
        made = self.create(instructions="Be brief.", max_output_tokens=64, metadata={"purpose": "test"})
        self.assertIn("Paris", made.output_text)
        self.assertEqual((made.status, made.object, made.store), ("completed", "response", True))
        self.assertEqual(made.usage.total_tokens, made.usage.input_tokens + made.usage.output_tokens)
        again = self.client.responses.retrieve(made.id)
        self.assertEqual(again.to_dict(), made.to_dict())
        self.client.responses.delete(made.id)
        for call in (self.client.responses.retrieve, self.client.responses.delete, self.client.responses.cancel):
            with self.assertRaises(openai.NotFoundError) as caught:
                call(made.id)
            self.assertEqual(caught.exception.code, "response_not_found")
        with self.assertRaises(openai.NotFoundError) as caught:
            self.create("And?", previous_response_id=made.id)
        self.assertEqual(caught.exception.code, "previous_response_not_found")

    def test_equals_the_chat_endpoint(self):
        self.assertEqual(self.create("Name three colours.").output_text, self.server.chat("Name three colours."))

    def test_continue_over_both_transports(self):
        parent = self.create("Name three colors.")
        first = self.create("Name three animals.", previous_response_id=parent.id)
        self.assertGreater(first.usage.input_tokens_details.cached_tokens, 0)
        with self.client.responses.connect() as connection:
            connection.send({"type": "response.create", "model": model_name(), "input": "Name three animals.", "temperature": 0,
                             "max_output_tokens": 24, "previous_response_id": parent.id})
            pieces = Pieces(self)
            while not pieces.add(connection.recv()):
                pass
        self.assertEqual(pieces.response().output_text, first.output_text)

    def test_stream_helper(self):
        with self.client.responses.stream(model=model_name(), input="Where is the Eiffel Tower?", temperature=0, max_output_tokens=64) as stream:
            events = list(stream)
            final = stream.get_final_response()
        self.assertIn("Paris", final.output_text)
        self.assertEqual(events[-1].type, "response.completed")

    def test_resume_a_dropped_stream(self):
        stream = self.create("Tell me a long story about a ship.", max_output_tokens=60, stream=True)
        seen = []
        for event in stream:
            seen.append(event)
            if len(seen) == 8:
                break
        stream.close()
        response_id = seen[0].response.id
        pieces = Pieces(self)
        for event in [*seen, *self.client.responses.retrieve(response_id, stream=True, starting_after=seen[-1].sequence_number)]:
            pieces.add(event)
        whole = pieces.response()
        self.assertEqual(comparable(whole), comparable(self.create("Tell me a long story about a ship.", max_output_tokens=60)))
        self.assertEqual(self.client.responses.retrieve(response_id).to_dict(), whole.to_dict())
        replayed = list(self.client.responses.retrieve(response_id, stream=True))
        self.assertEqual([e.to_dict() for e in replayed], [e.to_dict() for e in pieces.events])
        with self.client.responses.stream(response_id=response_id, starting_after=3) as helper:
            self.assertEqual([e.sequence_number for e in helper], list(range(4, len(replayed))))

    def test_cancel(self):
        stream = self.create("Tell me a very long story.", max_output_tokens=2000, stream=True, extra_body={"ignore_eos": True})
        events = iter(stream)
        response_id = next(events).response.id
        while next(events).type != "response.output_text.delta":
            pass
        cancelled = self.client.responses.cancel(response_id)
        self.assertEqual(cancelled.status, "cancelled")
        last = list(events)[-1]
        self.assertEqual(last.response.to_dict(), cancelled.to_dict())
        self.server.wait_for_metrics(is_idle)
        self.assertEqual(self.create("And then?", previous_response_id=response_id).object, "response")

    def test_an_unstored_stream_goes_with_its_reader_and_a_stored_one_does_not(self):
        dropped = self.create("Tell me a very long story.", max_output_tokens=4000, stream=True, store=False, extra_body={"ignore_eos": True})
        next(iter(dropped))
        dropped.close()
        self.server.wait_for_metrics(is_idle)
        kept = self.create("Count to fifty.", max_output_tokens=60, stream=True, extra_body={"ignore_eos": True})
        response_id = next(iter(kept)).response.id
        kept.close()
        self.server.wait_for_metrics(is_idle, 60)
        self.assertEqual(self.client.responses.retrieve(response_id).usage.output_tokens, 60)

    def test_input_items_and_tokens(self):
        turns = [{"role": "user", "content": "Name a colour."}, {"role": "assistant", "content": "Blue."},
                 {"role": "user", "content": [{"type": "input_text", "text": "Another."}]}]
        made = self.client.responses.create(model=model_name(), input=turns, max_output_tokens=4)
        items = list(self.client.responses.input_items.list(made.id, limit=2, order="asc"))
        self.assertEqual([item.role for item in items], ["user", "assistant", "user"])
        self.assertEqual(items[2].content[0].text, "Another.")
        self.assertEqual(self.client.responses.input_tokens.count(model=model_name(), input=turns).input_tokens, made.usage.input_tokens)

    def test_warm_up(self):
        text = "Tell me about the sea. " * 20
        warm = self.create(text, extra_body={"generate": False})
        self.assertEqual((warm.status, warm.output, warm.usage.output_tokens), ("completed", [], 0))
        self.assertGreaterEqual(self.create(text).usage.input_tokens_details.cached_tokens, 32)

    def test_refusals_name_the_field(self):
        for fields, param in (({"background": True}, "background"), ({"truncation": "auto"}, "truncation"),
                              ({"text": {"format": {"type": "json_object"}}}, "text.format.type"), ({"temperature": 9}, "temperature"),
                              ({"conversation": "c"}, "conversation"), ({"input": []}, "input")):
            with self.assertRaises(openai.BadRequestError) as caught:
                self.client.responses.create(**{"model": model_name(), "input": "x", **fields})
            self.assertEqual(caught.exception.param, param)

    def test_lanes_of_a_socket(self):
        questions = {f"lane{i}": text for i, text in enumerate(["Name three colours.", "Where is the Eiffel Tower?", "Count to five."])}
        with self.client.responses.connect() as connection:
            for lane, text in questions.items():
                connection.send_raw(json.dumps({"type": "response.create", "model": model_name(), "input": text, "temperature": 0,
                                                "max_output_tokens": 24, "stream_id": lane}))
            lanes = {lane: Pieces(self) for lane in questions}
            open_lanes = set(questions)
            while open_lanes:
                event = connection.recv()
                if lanes[event.stream_id].add(event):
                    open_lanes.remove(event.stream_id)
        for lane, text in questions.items():
            self.assertEqual(lanes[lane].response().output_text, self.create(text).output_text)

    def test_random_prompts_are_the_same_whole_streamed_and_over_a_socket(self):
        rng = random.Random(20261130)
        with self.client.responses.connect() as connection:
            for number in range(PROMPTS):
                fields, extra = random_request(rng)
                with self.subTest(number=number, fields=fields, extra=extra):
                    whole = self.client.responses.create(model=model_name(), extra_body=extra, **fields)
                    streamed, socket = Pieces(self), Pieces(self)
                    for event in self.client.responses.create(model=model_name(), stream=True, extra_body=extra, **fields):
                        streamed.add(event)
                    connection.send_raw(json.dumps({"type": "response.create", "model": model_name(), **fields, **extra}))
                    while not socket.add(connection.recv()):
                        pass
                    self.assertEqual(comparable(streamed.response()), comparable(whole))
                    self.assertEqual(comparable(socket.response()), comparable(whole))
                    for stop in extra.get("stop", []):
                        self.assertNotIn(stop, whole.output_text)


class Owners(ServerTest):
    """R76: over both transports a response of another key is not found, in the very words for one that never was."""

    @classmethod
    def setUpClass(cls):
        import tempfile
        cls.keys = tempfile.NamedTemporaryFile("w", suffix=".keys")
        cls.keys.write("alpha-key-0123456789\nbeta-key-0123456789\n")
        cls.keys.flush()
        cls.arguments = ("--api-key-file", cls.keys.name)
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.keys.close()

    def test_foreign_is_as_made_up(self):
        alpha, beta = (openai.OpenAI(base_url=self.server.url + "/v1", api_key=key, max_retries=0)
                       for key in ("alpha-key-0123456789", "beta-key-0123456789"))
        mine = alpha.responses.create(model=model_name(), input="Hello.", max_output_tokens=4).id
        made_up = "resp_" + "0123456789abcdef" * 2

        def continued(client, response_id):
            try:
                client.responses.create(model=model_name(), input="And?", previous_response_id=response_id, max_output_tokens=4)
            except openai.NotFoundError as error:
                return str(error).replace(response_id, "ID")
            return "answered"

        def continued_on_a_socket(client, response_id):
            with client.responses.connect() as connection:
                connection.send({"type": "response.create", "model": model_name(), "input": "And?", "previous_response_id": response_id,
                                 "max_output_tokens": 4})
                event = connection.recv()
                return event.to_json().replace(response_id, "ID") if event.type == "error" else "answered"

        for ask in (continued, continued_on_a_socket):
            self.assertNotEqual(ask(beta, mine), "answered")
            self.assertEqual(ask(beta, mine), ask(beta, made_up))
            self.assertEqual(ask(alpha, mine), "answered")
        for call in ("retrieve", "delete", "cancel"):
            words = []
            for response_id in (mine, made_up):
                with self.assertRaises(openai.NotFoundError) as caught:
                    getattr(beta.responses, call)(response_id)
                words.append(str(caught.exception).replace(response_id, "ID"))
            self.assertEqual(words[0], words[1])
        self.assertEqual(alpha.responses.retrieve(mine).id, mine)


if __name__ == "__main__":
    unittest.main()
