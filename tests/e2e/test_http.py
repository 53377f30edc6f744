"""TLS, keys and logs of a running server: renewed on SIGHUP without losing anybody, and nothing in the logs that a client wrote."""
import http.client
import json
import pathlib
import signal
import ssl
import subprocess
import tempfile
import time
import unittest

from troupe_server import UNVERIFIED, Server, ServerTest, chat_body

SECRET = "xyzzy-plover"  # in prompts, queries and headers; must never be logged


def make_certificate(folder, name):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", f"/CN={name}",
                    "-keyout", folder / "key.pem", "-out", folder / "cert.pem"], check=True, capture_output=True)


class Http(ServerTest):
    @classmethod
    def start_server(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = pathlib.Path(scratch.name)
        (cls.folder / "keys").write_text("# people\nfirst-sesame\n")
        (cls.folder / "admins").write_text("root-sesame\n")
        make_certificate(cls.folder, "first.example")
        return Server("--api-key-file", str(cls.folder / "keys"), "--admin-key-file", str(cls.folder / "admins"),
                      "--tls-cert", str(cls.folder / "cert.pem"), "--tls-key", str(cls.folder / "key.pem"), "--access-log",
                      "--log-format", "json", "--log-level", "debug", "--max-body", "100KiB", "--max-json-depth", "8", "--host",
                      "127.0.0.1", "--host", "::1")

    def key(self, key):
        return {"Authorization": f"Bearer {key}"}

    def status(self, key):
        return self.server.get("/v1/models", self.key(key))[0]

    def until(self, condition, seconds=20):
        end = time.monotonic() + seconds
        while not condition():
            self.assertLess(time.monotonic(), end, self.server.stderr[-2000:])
            time.sleep(0.05)

    def subject(self):
        pem = ssl.get_server_certificate(self.server.address)
        return subprocess.run(["openssl", "x509", "-noout", "-subject"], input=pem, text=True, capture_output=True, check=True).stdout

    def lines(self):
        """Log lines so far; each must be JSON."""
        return [json.loads(line) for line in self.server.stderr.split("\n")[:-1] if line.startswith("{")]

    def test_1_keys_and_certificate_are_renewed(self):
        self.assertTrue(self.server.url.startswith("https://127.0.0.1:"))
        self.assertEqual(self.server.get("/health")[0], 200)
        self.assertEqual([self.status("first-sesame"), self.status("root-sesame"), self.status("second-sesame"), self.server.get("/metrics")[0]],
                         [200, 200, 401, 401])
        self.assertIn("first.example", self.subject())
        six = http.client.HTTPSConnection("::1", self.server.address[1], timeout=30, context=UNVERIFIED)
        self.addCleanup(six.close)
        six.request("GET", "/v1/models", headers=self.key("first-sesame"))
        self.assertEqual(six.getresponse().read().decode(), self.server.get("/v1/models", self.key("first-sesame"))[1])

        # A stream under way and an open connection outlive the renewal.
        streaming = http.client.HTTPSConnection(*self.server.address, timeout=120, context=UNVERIFIED)
        self.addCleanup(streaming.close)
        body = json.dumps(chat_body("Tell me about rivers.", max_tokens=200, stream=True))
        streaming.request("POST", "/v1/chat/completions", body, self.key("first-sesame"))
        answer = streaming.getresponse()
        self.assertEqual(answer.status, 200)
        answer.readline()
        (self.folder / "keys").write_text("second-sesame\n")
        make_certificate(self.folder, "second.example")
        self.server.signal(signal.SIGHUP)
        self.until(lambda: self.status("second-sesame") == 200)
        self.assertEqual(self.status("first-sesame"), 401)
        self.assertEqual(self.status("root-sesame"), 200)
        self.assertIn("second.example", self.subject())
        self.assertIn(b"data: [DONE]", answer.read())
        six.request("GET", "/v1/models", headers=self.key("second-sesame"))
        self.assertEqual(six.getresponse().status, 200)

    def test_2_a_bad_file_changes_nothing(self):
        (self.folder / "keys").write_text("second-sesame\n")
        for name, bad in (("keys", "third-sesame\nfourth sesame\n"), ("keys", ""), ("admins", "\x01\n"), ("cert.pem", "no certificate\n")):
            good = (self.folder / name).read_text()
            before = self.server.stderr.count("reload_failed")
            (self.folder / name).write_text(bad)
            self.server.signal(signal.SIGHUP)
            self.until(lambda: self.server.stderr.count("reload_failed") > before)
            self.assertEqual(self.server.get("/v1/models", self.key("third-sesame"))[0], 401)
            (self.folder / name).write_text(good)
        self.server.signal(signal.SIGHUP)
        self.until(lambda: self.status("second-sesame") == 200)
        self.assertNotIn("fourth", self.server.stderr)

    def test_3_limits_that_were_set(self):
        headers = self.key("root-sesame")
        status, body, _ = self.server.post("/v1/chat/completions", b'{"x":"' + b"y" * 110_000 + b'"}', headers)
        self.assertEqual((status, body["error"]["code"]), (413, "request_too_large"))
        status, body, _ = self.server.post("/v1/chat/completions", b'{"x":' + b"[" * 9 + b"]" * 9 + b"}", headers)
        self.assertEqual((status, body["error"]["code"]), (400, "invalid_json"), body)

    def test_4_the_access_log_tells_who_did_what_but_no_text(self):
        headers = {**self.key("root-sesame"), "User-Agent": SECRET, "X-Other": SECRET}
        answer = self.server.post("/v1/chat/completions?q=" + SECRET, chat_body(f"Repeat this word: {SECRET}.", max_tokens=12),
                                  {**headers, "X-Request-Id": "my-request.1"})
        self.assertEqual(answer[0], 200)
        self.assertEqual(answer[2]["x-request-id"], "my-request.1")
        words = answer[1]["choices"][0]["message"]["content"]
        for body in (b'{"messages":"' + SECRET.encode() + b'"}', b"{" + SECRET.encode(), {"model": SECRET, "messages": [], "temperature": SECRET}):
            status, error, got = self.server.post("/v1/chat/completions", body, headers)
            self.assertIn(status, (400, 404))
            self.assertRegex(got["x-request-id"], "^req_[0-9a-f]{24,}$")
        self.server.get("/v1/models/" + SECRET, headers)
        self.server.get("/" + SECRET, headers)
        self.server.get("/v1/models", self.key(SECRET))
        self.until(lambda: '"status":401' in self.server.stderr)
        self.until(lambda: any(line.get("id") == "my-request.1" for line in self.lines()))
        line = next(line for line in self.lines() if line.get("id") == "my-request.1")
        self.assertEqual({name: line[name] for name in ("event", "level", "method", "route", "status", "end", "peer")},
                         {"event": "request", "level": "info", "method": "POST", "route": "/v1/chat/completions", "status": 200,
                          "end": "whole", "peer": "127.0.0.1"})
        self.assertGreater(line["bytes"], 200)
        self.assertGreater(line["ms"], 0)
        self.assertRegex(line["key"], "^[0-9a-f]{8}$")
        for secret in (SECRET, "first-sesame", "second-sesame", "root-sesame", words):
            self.assertNotIn(secret, self.server.stderr)
        self.assertEqual([line for line in self.lines() if "event" not in line or "time" not in line], [])


class Refusals(unittest.TestCase):
    def test_half_a_tls_configuration_ends_the_start(self):
        for arguments in (("--tls-cert", "/x.pem"), ("--tls-key", "/x.pem"), ("--tls-cert", "/x.pem", "--tls-key", "/x.pem")):
            server = Server(*arguments, wait=False)
            self.assertEqual(server.wait(), 1)
            self.assertRegex(server.stderr, "^troupe: --tls-[^\n]*\n$")
