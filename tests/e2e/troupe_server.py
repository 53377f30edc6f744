"""The program under test: started on a free port, watched, stopped. What all end-to-end tests share."""
import json
import os
import pathlib
import re
import select
import signal
import socket
import ssl
import subprocess
import threading
import time
import unittest
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("TROUPE_PROGRAM", str(ROOT / "build/release/troupe"))
MODEL = os.environ.get("TROUPE_TEST_MODEL", str(ROOT / ".cache/models/SmolLM2-135M-Instruct.Q4_1.gguf"))
START_SECONDS = 120
UNVERIFIED = ssl._create_unverified_context()  # certificates of tests are self-signed
LONG = os.environ.get("TROUPE_LONG_TESTS") == "1"

for needed, remedy in ((PROGRAM, "./dev build"), (MODEL, "./dev setup, which fetches the model,")):
    if not os.path.exists(needed):
        raise SystemExit(f"{needed} is missing: run {remedy} first")


class Server:
    """`troupe serve MODEL --port 0 ARGUMENTS`, ready when constructed; `command` stands for `serve MODEL`."""

    def __init__(self, *arguments, wait=True, environment=None, model=MODEL, command=None, program=(PROGRAM,)):
        self.process = subprocess.Popen([*program, *(command or ("serve", model)), "--port", "0", *arguments], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, env={**os.environ, **(environment or {})})
        self.stderr = ""
        self._reader = threading.Thread(target=self._read_stderr, daemon=True)
        self._reader.start()
        self.url = None
        if wait:
            self.url = self._wait_for_url()

    def _read_stderr(self):
        for line in self.process.stderr:
            self.stderr += line

    def _wait_for_url(self):
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            ready, _, _ = select.select([self.process.stdout], [], [], 0.2)
            if ready:
                line = self.process.stdout.readline()
                found = re.search(r"Chat page: (https?://\S+?)/?$", line.strip())
                if found:
                    return found.group(1)
                if not line:
                    break
            if self.process.poll() is not None:
                break
        self.process.kill()
        self._reader.join(5)
        raise AssertionError("the server did not start:\n" + self.stderr)

    @property
    def address(self):
        host, port = self.url.split("//")[1].rsplit(":", 1)
        return host, int(port)

    def get(self, path, headers=None):
        """(status, text) of a GET."""
        request = urllib.request.Request(self.url + path, headers=headers or {})
        try:
            with urllib.request.urlopen(request, timeout=30, context=UNVERIFIED) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as fault:
            return fault.code, fault.read().decode()

    def post(self, path, body, headers=None, timeout=120):
        """(status, parsed JSON or text, headers) of a POST; `body` an object or bytes."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, headers={"Content-Type": "application/json", **(headers or {})})
        try:
            with urllib.request.urlopen(request, timeout=timeout, context=UNVERIFIED) as answer:
                status, text, got = answer.status, answer.read().decode(), answer.headers
        except urllib.error.HTTPError as fault:
            status, text, got = fault.code, fault.read().decode(), fault.headers
        try:
            return status, json.loads(text), got
        except json.JSONDecodeError:
            return status, text, got

    def chat(self, text, max_tokens=24, **fields):
        """Greedy answer to one question, not streamed."""
        status, body, _ = self.post("/v1/chat/completions", chat_body(text, max_tokens=max_tokens, **fields))
        assert status == 200, body
        return body["choices"][0]["message"]["content"]

    def metrics(self):
        """{name or name{labels}: value} of /metrics."""
        status, text = self.get("/metrics")
        assert status == 200, text
        values = {}
        for line in text.splitlines():
            if line and not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                values[name] = float(value)
        return values

    def wait_for_metrics(self, condition, seconds=20):
        """Metrics once `condition(metrics)` holds; fails after `seconds`."""
        deadline = time.monotonic() + seconds
        while True:
            metrics = self.metrics()
            if condition(metrics):
                return metrics
            if time.monotonic() > deadline:
                shown = {k: v for k, v in metrics.items() if "bucket" not in k}
                raise AssertionError(f"not reached within {seconds} s: {json.dumps(shown, indent=1)}\n{self.stderr}")
            time.sleep(0.1)

    def wait_idle(self, seconds=20):
        """No request left in queue or batch and only the scheduler's standing lease taken."""
        return self.wait_for_metrics(is_idle, seconds)

    def memory_mib(self):
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
        raise AssertionError("no VmRSS")

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self, seconds=60):
        code = self.process.wait(seconds)
        self._reader.join(5)
        self.process.stdout.close()
        self.process.stderr.close()
        return code

    def stop(self):
        """Drains and expects a clean end."""
        if self.process.poll() is None:
            self.signal(signal.SIGTERM)
        try:
            code = self.wait()
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.wait()
            raise AssertionError("the server did not end after SIGTERM:\n" + self.stderr) from None
        assert code == 0, f"exit code {code}:\n{self.stderr}"

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.wait()


def is_idle(metrics):
    return metrics["vllm:num_requests_running"] == 0 and metrics["vllm:num_requests_waiting"] == 0


def chat_body(text, max_tokens=24, **fields):
    return {"model": model_name(), "messages": [{"role": "user", "content": text}], "temperature": 0, "max_tokens": max_tokens, **fields}


def model_name():
    return pathlib.Path(MODEL).stem


class ServerTest(unittest.TestCase):
    """A test class with one server for all its tests."""
    arguments = ()

    @classmethod
    def start_server(cls):
        return Server(*cls.arguments)

    @classmethod
    def setUpClass(cls):
        cls.server = cls.start_server()

    @classmethod
    def tearDownClass(cls):
        try:
            cls.server.stop()
        finally:
            cls.server.kill()


class EventStream:
    """A streamed answer over a raw socket, read event by event; close() is a client that leaves."""

    def __init__(self, server, body, headers="", path="/v1/chat/completions", stream=True, timeout=120):
        data = json.dumps({**body, "stream": stream}).encode()
        self.socket = socket.create_connection(server.address, timeout=timeout)
        self.socket.sendall(f"POST {path} HTTP/1.1\r\nHost: {server.address[0]}:{server.address[1]}\r\n{headers}"
                            f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data)
        self.file = self.socket.makefile("rb")
        line = self.file.readline()
        if not line:
            raise ConnectionError("no answer: the connection was closed")
        self.status = int(line.split()[1])
        self.headers = {}
        while (line := self.file.readline().strip()):
            name, _, value = line.decode().partition(":")
            self.headers[name.lower()] = value.strip()

    def object(self):
        """The parsed body of an answer that is not a stream."""
        return json.loads(b"".join(self._body()))

    def _body(self):
        if self.headers.get("transfer-encoding", "").lower() != "chunked":
            yield self.file.read(int(self.headers.get("content-length", "0")))
            return
        while True:
            line = self.file.readline()
            if not line:
                raise ConnectionError("the stream ended without its last chunk")
            size = int(line.split(b";")[0], 16)
            chunk = self.file.read(size)
            self.file.readline()
            if size == 0:
                return
            yield chunk

    def events(self):
        """Parsed `data:` events; the last is "[DONE]"."""
        buffer = b""
        for chunk in self._body():
            buffer += chunk
            while b"\n\n" in buffer:
                block, buffer = buffer.split(b"\n\n", 1)
                for line in block.split(b"\n"):
                    if line.startswith(b"data:"):
                        text = line[5:].strip().decode()
                        yield text if text == "[DONE]" else json.loads(text)

    def text(self):
        """(text, finish reason) of the whole stream; an error event raises."""
        parts, reason, done = [], None, False
        for event in self.events():
            if event == "[DONE]":
                done = True
                continue
            if "error" in event:
                raise AssertionError(f"error event: {event}")
            for choice in event["choices"]:
                parts.append(choice["delta"].get("content") or "")
                reason = choice["finish_reason"] or reason
        if not done or reason is None:
            raise AssertionError(f"stream ended without a finish: done={done} reason={reason}")
        return "".join(parts), reason

    def close(self):
        self.file.close()
        self.socket.close()
