"""Chat templates end to end: roles and tools that clients send, refusals of a template, templates that are broken."""
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
