"""Chat templates end to end: roles and tools that clients send, refusals of a template, templates that are broken."""
import json
import os
import subprocess
import tempfile
import unittest

from troupe_server import MODEL, PROGRAM, Server, ServerTest

CALL = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{\"city\": \"Ulm\"}"}}
TOOL_TALK = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Weather in Ulm?"},
             {"role": "assistant", "content": None, "tool_calls": [CALL]}, {"role": "tool", "tool_call_id": "c1", "content": "21 degrees"}]
NO_SYSTEM = ("{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
             "{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endfor %}{{ '<|im_start|>assistant\\n' }}")

SHOWS_TOOLS = ("{% for t in tools or [] %}tool {{ t | tojson }}\n{% endfor %}{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content }}"
               "{% for c in m.tool_calls or [] %}call {{ c.function.arguments | tojson }}\n{% endfor %}{{ '<|im_end|>\n' }}{% endfor %}"
               "{{ '<|im_start|>assistant\n' }}")


def with_template(folder, template):
    """A copy of the model whose template is this one; blanks fill it up to the length of the old."""
    with open(MODEL, "rb") as file:
        data = bytearray(file.read())
    key = b"tokenizer.chat_template"
    at = data.index(key) + len(key) + 4  # behind the kind of the value
    length = int.from_bytes(data[at:at + 8], "little")
    text = template.encode()
    assert len(text) <= length
    data[at + 8:at + 8 + length] = text + b" " * (length - len(text))
    path = os.path.join(folder, "model.gguf")
    with open(path, "wb") as file:
        file.write(data)
    return path


class Roles(ServerTest):
    def test_r16_content_null_is_taken_with_tool_calls(self):
        status, answer, _ = self.server.post("/v1/chat/completions", {"messages": TOOL_TALK, "max_tokens": 4, "temperature": 0})
        self.assertEqual(status, 200, answer)
        for message in ({"role": "user", "content": None}, {"role": "assistant"}, {"role": "tool", "content": "x"}, {"role": "wizard", "content": "x"}):
            status, answer, _ = self.server.post("/v1/chat/completions", {"messages": [message]})
            self.assertEqual(status, 400, answer)
            self.assertIn("messages[0].", answer["error"]["message"])


class Tools(ServerTest):
    """What a client says of its tools reaches the template in the client's order, by every endpoint."""
    FUNCTION = {"name": "weather", "description": "Weather of a town.",
                "parameters": {"type": "object", "required": ["town"], "properties": {"town": {"type": "string"}, "day": {"type": "string"}}}}

    @classmethod
    def start_server(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        return Server(model=with_template(folder.name, SHOWS_TOOLS))

    def good(self, path, **body):
        status, answer, _ = self.server.post(path, body, timeout=30)
        self.assertEqual(status, 200, answer)
        return answer

    def test_keys_in_an_odd_order(self):
        tool = {"function": {"parameters": {"zeta": 1, "alpha": {"b": 2.0, "a": "\u00e9"}}, "name": "f"}, "type": "function"}
        call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"zeta": 1, "alpha": [{"b": 1, "a": 2}]}'}}
        prompt = self.good("/apply-template", messages=[{"role": "user", "content": "Hi"}, {"role": "assistant", "tool_calls": [call]}], tools=[tool])
        self.assertIn("tool " + json.dumps(tool, ensure_ascii=False) + "\n", prompt["prompt"])
        self.assertIn("call " + call["function"]["arguments"] + "\n", prompt["prompt"])

    def test_the_same_tool_by_chat_and_by_responses(self):
        asked, greedy = [{"role": "user", "content": "Weather in Ulm?"}], {"temperature": 0}
        chat = self.good("/v1/chat/completions", messages=asked, tools=[{"type": "function", "function": self.FUNCTION}], max_tokens=24, **greedy)
        for flat in ({"type": "function", **self.FUNCTION}, {**dict(reversed(self.FUNCTION.items())), "type": "function"}):
            answer = self.good("/v1/responses", input=asked, tools=[flat], max_output_tokens=24, **greedy)
            self.assertEqual(answer["usage"]["input_tokens"], chat["usage"]["prompt_tokens"])
            self.assertEqual(answer["output"][0]["content"][0]["text"], chat["choices"][0]["message"]["content"])
            self.assertEqual(self.good("/v1/responses/input_tokens", input=asked, tools=[flat])["input_tokens"], chat["usage"]["prompt_tokens"])
        bare = self.good("/v1/chat/completions", messages=asked, max_tokens=1)
        self.assertGreater(chat["usage"]["prompt_tokens"], bare["usage"]["prompt_tokens"] + 20)

    def test_a_tool_with_a_hundred_thousand_keys(self):
        asked, many = [{"role": "user", "content": "Hi"}], {f"k{i}": 1 for i in range(100000, 0, -1)}
        tool = {"type": "function", "function": {"name": "f", "parameters": many}}
        self.assertIn('"k100000": 1, "k99999": 1, ', self.good("/apply-template", messages=asked, tools=[tool])["prompt"])
        call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": json.dumps(many)}}
        self.assertIn('"k2": 1, "k1": 1}', self.good("/apply-template", messages=asked + [{"role": "assistant", "tool_calls": [call]}])["prompt"])
        status, answer, _ = self.server.post("/v1/responses", {"input": "Hi", "tools": [{"type": "function", "name": "f", **many}]}, timeout=30)
        self.assertEqual(status, 400, answer)  # too long for the context


class OtherTemplates(unittest.TestCase):
    def test_r16_a_role_that_the_template_refuses(self):
        with tempfile.TemporaryDirectory() as folder:
            server = Server(model=with_template(folder, NO_SYSTEM))
            try:
                status, answer, _ = server.post("/v1/chat/completions", {"messages": TOOL_TALK[:2]})
                self.assertEqual(status, 400, answer)
                self.assertIn("System role not supported", answer["error"]["message"])
                self.assertIn("system, user", answer["error"]["message"])
                self.assertEqual(answer["error"]["param"], "messages")
                status, answer, _ = server.post("/v1/chat/completions", {"messages": TOOL_TALK[1:2], "max_tokens": 4})
                self.assertEqual(status, 200, answer)
            finally:
                server.stop()

    def test_a_template_that_cannot_be_used_is_an_error_at_the_start(self):
        with tempfile.TemporaryDirectory() as folder:
            for template, words in (("one\ntwo {% for m in messages %}", ("line 2", "endfor")), ("{{ x | nonsense }}", ("line 1", "no filter 'nonsense'")),
                                    ("\n\n{% include 'x' %}", ("line 3", "include"))):
                path = with_template(folder, template)
                end = subprocess.run([PROGRAM, "serve", path, "--port", "0"], capture_output=True, text=True, timeout=60)
                self.assertEqual(end.returncode, 1)
                self.assertEqual(len(end.stderr.splitlines()), 1, end.stderr)
                for word in ("model.gguf", "chat_template", *words):
                    self.assertIn(word, end.stderr)


if __name__ == "__main__":
    unittest.main()
