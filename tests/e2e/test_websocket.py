"""`responses.connect()` of the openai client: events in order, continuation, branches, cancel, errors that keep the socket."""
import unittest

import openai

from troupe_server import ServerTest, is_idle, model_name

TERMINAL = {"response.completed", "response.incomplete", "response.failed", "response.cancelled"}


def question(text, **fields):
    return {"type": "response.create", "model": model_name(), "input": text, "temperature": 0, "max_output_tokens": 24, **fields}


class ResponsesSocket(ServerTest):
    def setUp(self):
        self.client = openai.OpenAI(base_url=self.server.url + "/v1", api_key="none")
        self.connection = self.client.responses.connect().enter()
        self.addCleanup(self.connection.close)

    def create(self, text, **fields):
        """Sends a question; returns (events up to the terminal one, joined text)."""
        self.connection.send(question(text, **fields))
        return self.collect()

    def collect(self):
        events = []
        while not events or events[-1].type not in TERMINAL | {"error"}:
            events.append(self.connection.recv())
        return events, "".join(e.delta for e in events if e.type == "response.output_text.delta")

    def test_events_in_order(self):
        events, text = self.create("Where is the Eiffel Tower?")
        kinds = [e.type for e in events]
        self.assertEqual(kinds[0], "response.created")
        self.assertEqual([e.sequence_number for e in events], list(range(len(events))))
        self.assertEqual(sum(k in TERMINAL for k in kinds), 1)
        self.assertIn("Paris", text)
        order = ["response.created", "response.in_progress", "response.output_item.added", "response.content_part.added",
                 "response.output_text.delta", "response.output_text.done", "response.content_part.done", "response.output_item.done"]
        places = [kinds.index(k) for k in order]
        self.assertEqual(places, sorted(places))
        last = events[-1].response
        self.assertEqual(last.output[0].content[0].text, text)
        self.assertEqual(last.usage.total_tokens, last.usage.input_tokens + last.usage.output_tokens)

    def test_equals_the_chat_endpoint(self):
        _, text = self.create("Name three colours.")
        self.assertEqual(text, self.server.chat("Name three colours."))

    def test_incomplete_at_the_limit(self):
        events, _ = self.create("Tell me a long story.", max_output_tokens=5)
        self.assertEqual(events[-1].type, "response.incomplete")
        self.assertEqual(events[-1].response.incomplete_details.reason, "max_output_tokens")
        self.assertEqual(events[-1].response.usage.output_tokens, 5)

    def test_continue_and_branch(self):
        events, answer = self.create("Name three colors.")
        parent = events[-1].response.id
        events, first = self.create("Name three animals.", previous_response_id=parent)
        self.assertGreater(events[-1].response.usage.input_tokens_details.cached_tokens, 0)
        # The same as the whole conversation sent anew.
        _, body, _ = self.server.post("/v1/chat/completions", {
            "model": model_name(), "temperature": 0, "max_tokens": 24, "messages": [
                {"role": "user", "content": "Name three colors."}, {"role": "assistant", "content": answer},
                {"role": "user", "content": "Name three animals."}]})
        self.assertEqual(first, body["choices"][0]["message"]["content"])
        # Going on from the same answer a second time is a branch: same question, same tokens; another question, another answer.
        _, again = self.create("Name three animals.", previous_response_id=parent)
        self.assertEqual(first, again)
        events, other = self.create("Count to five.", previous_response_id=parent)
        self.assertNotEqual(other, first)

    def test_cancel_frees_the_sequence_and_keeps_what_was_said(self):
        self.connection.send(question("Tell me a very long story about a ship.", max_output_tokens=2000))
        while self.connection.recv().type != "response.output_text.delta":
            pass
        self.connection.send({"type": "response.cancel"})
        events, _ = self.collect()
        self.assertIn(events[-1].type, TERMINAL)
        self.assertNotEqual(events[-1].type, "response.completed")
        self.server.wait_for_metrics(is_idle)
        going_on, _ = self.create("Where is the Eiffel Tower?", previous_response_id=events[-1].response.id)
        self.assertIn(going_on[-1].response.status, ("completed", "incomplete"))  # how much was said before differs from run to run
        self.assertGreater(going_on[-1].response.usage.input_tokens_details.cached_tokens, 0)

    def test_errors_keep_the_socket(self):
        for fields, code in (({"previous_response_id": "resp_unknown"}, "previous_response_not_found"), ({"model": "another"}, "model_not_found"),
                             ({"temperature": 9}, None), ({"type": "response.unknown"}, None)):
            self.connection.send_raw(__import__("json").dumps(question("x", **fields)))
            event = self.connection.recv()
            while event.type not in ("error", "response.failed"):
                event = self.connection.recv()
            if code is not None:
                self.assertIn(code, event.to_json())
        self.connection.send_raw("{not json")
        self.assertEqual(self.connection.recv().type, "error")
        _, text = self.create("Where is the Eiffel Tower?")
        self.assertIn("Paris", text)

    def test_responses_belong_to_the_asking_connection_or_key(self):
        events, _ = self.create("Hello.", store=False)
        self.connection.close()
        self.connection = self.client.responses.connect().enter()
        events, _ = self.create("And?", previous_response_id=events[-1].response.id)
        self.assertEqual(events[-1].type, "error")


if __name__ == "__main__":
    unittest.main()
