"""HTTP and WebSocket torture set: what a hostile or unlucky client may send, against the bare network core (torture_server).

usage: torture.py TORTURE_SERVER [tls]. It starts the server itself, with short limits, on a free port; loopback only; standard library
only. With "tls" all of it is said through TLS, and what is no TLS comes on top.
Every request that must be refused is followed by a good one in the same segment, which must not be answered."""
import concurrent.futures
import json
import os
import re
import signal
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import time

from checks import check, exit_code

BINARY = sys.argv[1]
TLS = sys.argv[2:] == ["tls"]
LIMITS = {"HEAD_MS": "900", "BODY_MS": "900", "IDLE_MS": "1500", "STALL_MS": "1500", "LINGER_MS": "500", "DRAIN_MS": "1500",
          "WS_PING_MS": "400", "WS_MESSAGE": "65536"}
SLACK = 4.0  # how much later than its limit a deadline may act on a loaded machine, in seconds

HOST = b"Host: a\r\n"
GET = b"GET /hello HTTP/1.1\r\n" + HOST + b"\r\n"
HEAD_OF_GET = b"GET /hello HTTP/1.1\r\n" + HOST
HEAD_OF_POST = b"POST /echo HTTP/1.1\r\n" + HOST
CHUNKED = b"Transfer-Encoding: chunked\r\n"
HEAD_OF_CHUNKED = HEAD_OF_POST + CHUNKED + b"\r\n"
HELLO = b"hello world\n"
KEY = b"dGhlIHNhbXBsZSBub25jZQ=="

# Of a socket that does not wait, and of one whose peer is gone.
WOULD_BLOCK = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
GONE = (ConnectionError, ssl.SSLError)
CONTEXT = ssl._create_unverified_context()  # the server makes its certificate itself


class Server:
    """The program under torture."""

    def __init__(self, host="127.0.0.1", **limits):
        self.host = host
        self.log = tempfile.TemporaryFile("w+")
        quarantine = os.environ.get("ASAN_OPTIONS", "") + ":quarantine_size_mb=16"  # what a sanitizer keeps is no memory of ours
        environment = {**os.environ, "ASAN_OPTIONS": quarantine, **LIMITS, **limits, **({"TLS": "1"} if TLS else {})}
        self.process = subprocess.Popen([BINARY, "0", host], env=environment, stdout=subprocess.PIPE, stderr=self.log, text=True)
        self.port = int(self.process.stdout.readline())

    def connect_plain(self):
        sock = socket.create_connection((self.host, self.port))
        sock.settimeout(10)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock

    def connect(self):
        return CONTEXT.wrap_socket(self.connect_plain()) if TLS else self.connect_plain()

    def stat(self):
        return json.loads(ask(GET.replace(b"/hello", b"/stat"))[0][2])

    def until_stat(self, condition, seconds=8):
        """The first stat() that satisfies `condition`, or the last one seen."""
        end = time.monotonic() + seconds
        while not condition(stat := self.stat()) and time.monotonic() < end:
            time.sleep(0.05)
        return stat

    def end(self, seconds):
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return None

    def stderr(self):
        self.log.seek(0)
        return self.log.read()


class Reader:
    """Reads answers from a socket, one at a time; keeps what follows in `rest`."""

    def __init__(self, sock):
        self.sock, self.rest, self.eof = sock, b"", False

    def more(self):
        try:
            data = self.sock.recv(65536)
        except GONE:
            data = b""
        self.eof = self.eof or not data
        self.rest += data
        return bool(data)

    def need(self, count):
        while len(self.rest) < count:
            if not self.more():
                return False
        return True

    def take(self, count):
        data, self.rest = self.rest[:count], self.rest[count:]
        return data

    def line(self):
        while b"\r\n" not in self.rest:
            if not self.more():
                return None
        line, self.rest = self.rest.split(b"\r\n", 1)
        return line

    def chunks(self):
        body = b""
        while True:
            line = self.line()
            if line is None or not self.need(int(line, 16) + 2):
                return None
            body += self.take(int(line, 16))
            if self.take(2) != b"\r\n":
                raise ValueError("a chunk must end with CRLF")
            if int(line, 16) == 0:
                return body

    def response(self, head_only=False):
        """(status, headers, body), or None if the peer closed before its end."""
        while b"\r\n\r\n" not in self.rest:
            if not self.more():
                return None
        head, self.rest = self.rest.split(b"\r\n\r\n", 1)
        status = int(head.split()[1])
        headers = {name.lower(): value.strip() for name, value in (line.split(b":", 1) for line in head.split(b"\r\n")[1:])}
        if status in (100, 101) or head_only:
            return status, headers, b""
        if b"content-length" in headers:
            count = int(headers[b"content-length"])
            return (status, headers, self.take(count)) if self.need(count) else None
        if headers.get(b"transfer-encoding") == b"chunked":
            body = self.chunks()
            return None if body is None else (status, headers, body)
        while self.more():
            pass
        return status, headers, self.take(len(self.rest))

    def closed(self, seconds=5.0):
        self.sock.settimeout(seconds)
        try:
            while self.more():
                pass
            return True
        except TimeoutError:
            return False


def opened():
    sock = server.connect()
    return sock, Reader(sock)


def ask(data, count=1, pieces=None, delay=0):
    """Sends `data` (or its pieces); the next `count` responses."""
    sock, reader = opened()
    try:
        for piece in pieces or [data]:
            sock.sendall(piece)
            if delay:
                time.sleep(delay)
    except GONE:
        pass
    answers = [reader.response() for _ in range(count)]
    sock.close()
    return answers


def bodies(answers):
    return [answer[2] if answer else None for answer in answers]


def post(body):
    return HEAD_OF_POST + b"Content-Length: %d\r\n\r\n" % len(body) + body


def chunked(*parts):
    return HEAD_OF_CHUNKED + b"".join(b"%x\r\n" % len(part) + part + b"\r\n" for part in parts) + b"0\r\n\r\n"


def get(path):
    return b"GET " + path + b" HTTP/1.1\r\n" + HOST + b"\r\n"


# ---- Cuts and pipelines

def cuts():
    mix = GET + post(b"one two") + chunked(b"abc", b"defg") + get(b"/slow?ms=1") + get(b"/sse?n=3") + GET
    want = bodies(ask(mix, 6))
    check("mixed pipeline", want[:4] == [HELLO, b"one two", b"abcdefg", b'{"slow":1}'] and want[4].count(b"\n\n") == 4 and want[5] == HELLO, want)

    def cut(at):
        return at, bodies(ask(mix, 6, pieces=[mix[:at], mix[at:]], delay=0.0005))
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for at, got in pool.map(cut, range(1, len(mix))):
            check(f"cut at {at}", got == want, got)
    check("byte by byte", bodies(ask(mix, 6, pieces=[mix[i:i + 1] for i in range(len(mix))])) == want)


def pipelines():
    check("two POSTs in one segment", bodies(ask(post(b"a") + post(b"bb"), 2)) == [b"a", b"bb"])
    check("100 pipelined GETs", all(answer and answer[0] == 200 for answer in ask(GET * 100, 100)))
    delays = (30, 20, 10, 5, 1)
    slow = b"".join(get(b"/slow?ms=%d" % ms) for ms in delays)
    check("answers in order", bodies(ask(slow + GET, 6)) == [b'{"slow":%d}' % ms for ms in delays] + [HELLO])
    check("POST GET POST", bodies(ask(post(b"x" * 70000) + GET + post(b"y"), 3)) == [b"x" * 70000, HELLO, b"y"])
    sock, reader = opened()
    sock.setblocking(False)
    stream, sent, end = GET * 20000, 0, time.monotonic() + 30
    while reader.rest.count(HELLO) < 20000 and time.monotonic() < end:
        try:
            sent += sock.send(stream[sent:sent + 65536]) if sent < len(stream) else 0
        except WOULD_BLOCK:
            pass
        try:
            reader.rest += sock.recv(1 << 20)
        except WOULD_BLOCK:
            time.sleep(0.001)
    check("20000 pipelined GETs", reader.rest.count(HELLO) == 20000, reader.rest.count(HELLO))
    sock.close()


# ---- What must be refused

def refused(name, data, *statuses):
    sock, reader = opened()
    try:
        sock.sendall(data + GET)
    except GONE:
        pass
    answer, closed = reader.response(), reader.closed()
    sock.close()
    check(name, answer and answer[0] in (statuses or (400,)) and closed and b"HTTP/1.1" not in reader.rest, (answer, closed, reader.rest[:80]))


def smuggling():
    for value in (b"3, 3", b"+3", b"-1", b"0x3", b"", b"3\0", b"\r\n 3", b"3\r\n 4"):
        refused(f"Content-Length {value}", HEAD_OF_POST + b"Content-Length: " + value + b"\r\n\r\nabc")
    refused("Content-Length huge", HEAD_OF_POST + b"Content-Length: 99999999999999999999999\r\n\r\n", 400, 413)
    refused("Content-Length twice", HEAD_OF_POST + b"Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc")
    refused("Content-Length differs", HEAD_OF_POST + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd")
    refused("blank before the colon", HEAD_OF_POST + b"Content-Length : 3\r\n\r\nabc")
    refused("TAB before the colon", HEAD_OF_POST + b"Content-Length\t: 3\r\n\r\nabc")
    refused("length and chunked", HEAD_OF_POST + b"Content-Length: 3\r\n" + CHUNKED + b"\r\n0\r\n\r\n")
    refused("chunked and length", HEAD_OF_POST + CHUNKED + b"Content-Length: 3\r\n\r\n0\r\n\r\n")
    refused("chunked twice", HEAD_OF_POST + CHUNKED + CHUNKED + b"\r\n0\r\n\r\n", 400, 501)
    for value in (b"xchunked", b"gzip, chunked", b"chunked, identity", b"identity", b"chunked;q=1", b"\x0bchunked", b'"chunked"', b"", b"chunked\0"):
        refused(f"Transfer-Encoding {value}", HEAD_OF_POST + b"Transfer-Encoding: " + value + b"\r\n\r\n0\r\n\r\n", 400, 501)
    refused("Transfer-Encoding blank", HEAD_OF_POST + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n")
    refused("Transfer-Encoding folded", HEAD_OF_POST + b"Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n")
    refused("Transfer-Encoding in 1.0", b"POST /echo HTTP/1.0\r\n" + CHUNKED + b"\r\n0\r\n\r\n")
    refused("header behind a bare LF", HEAD_OF_POST + b"X: y\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")


def heads():
    for name, data in (("no Host", b"GET /hello HTTP/1.1\r\n\r\n"), ("two Hosts", HEAD_OF_GET + b"Host: b\r\n\r\n"),
                       ("Host with a path", b"GET /hello HTTP/1.1\r\nHost: a/b\r\n\r\n"), ("Host with a blank", b"GET /hello HTTP/1.1\r\nHost: a b\r\n\r\n"),
                       ("folding", HEAD_OF_GET + b"X: 1\r\n 2\r\n\r\n"), ("leading blank", b"GET /hello HTTP/1.1\r\n Host: a\r\n\r\n"),
                       ("NUL in a value", HEAD_OF_GET + b"X: a\0b\r\n\r\n"), ("NUL in a name", HEAD_OF_GET + b"X\0: a\r\n\r\n"),
                       ("CR in a value", HEAD_OF_GET + b"X: a\rb\r\n\r\n"), ("DEL in a value", HEAD_OF_GET + b"X: a\x7f\r\n\r\n"),
                       ("bare LFs", b"GET /hello HTTP/1.1\nHost: a\n\n"), ("one bare LF", HEAD_OF_GET + b"X: 1\nY: 2\r\n\r\n"),
                       ("CR and a letter", b"GET /hello HTTP/1.1\r\nHost: a\r\n\rX"), ("no colon", HEAD_OF_GET + b"foo\r\n\r\n"),
                       ("empty name", HEAD_OF_GET + b": b\r\n\r\n"), ("blank in a name", HEAD_OF_GET + b"Foo bar: 1\r\n\r\n")):
        refused(name, data)
    for line, status in ((b"GET  /hello HTTP/1.1", 400), (b"GET /hello  HTTP/1.1", 400), (b"GET /hello HTTP/1.1 ", 400), (b"GET\t/hello HTTP/1.1", 400),
                         (b"GET /hello", 400), (b"GET /hello HTTP/2.0", 505), (b"GET /hello HTTP/1.2", 505), (b"GET /hello HTTP/0.9", 505),
                         (b"GET /hello HxxP/1.1", 400), (b"GET /hello http/1.1", 400), (b"GET /hel\0lo HTTP/1.1", 400), (b"GET /\xff HTTP/1.1", 400),
                         (b"GET /a#b HTTP/1.1", 400), (b"GET hello HTTP/1.1", 400), (b"CONNECT a:1 HTTP/1.1", 501), (b"TRACE / HTTP/1.1", 501),
                         (b"SOURCE / ICE/1.1", 400), (b"G@T / HTTP/1.1", 400), (b" GET / HTTP/1.1", 400), (b"\x16\x03\x01\x02\x00\x01", 400),
                         (b"GET / HTTP/1.1\0", 400), (b"PRI * HTTP/2.0", 505), (b"FOO /hello HTTP/1.1", 501)):
        refused(f"line {line}", line + b"\r\n" + HOST + b"\r\n", status)


def chunk_faults():
    for body in (b"3\r\nabcXY0\r\n\r\n", b"3\rXabc\r\n0\r\n\r\n", b"3;a\nb\r\nabc\r\n0\r\n\r\n", b"0x3\r\nabc\r\n0\r\n\r\n", b"3 zz\r\nabc\r\n0\r\n\r\n", b"-1\r\n",
                 b"\r\nabc", b"g\r\n", b"fffffffffffffffff\r\n", b"3\nabc\r\n0\r\n\r\n", b"3\r\nabc\n0\r\n\r\n", b"3\r\nabc\r\n0\r\nX : 1\r\n\r\n",
                 b"3\r\nabc\r\n0\r\n a: b\r\n\r\n", b"3;" + b"x" * 300 + b"\r\nabc\r\n0\r\n\r\n", b"3;\0\r\nabc\r\n0\r\n\r\n"):
        refused(f"chunk {body[:20]}", HEAD_OF_CHUNKED + body)


def limits():
    refused("chunk of 2^60", HEAD_OF_CHUNKED + b"fffffffffffffff\r\n", 413)
    refused("body over the limit", HEAD_OF_POST + b"Content-Length: 1048577\r\n\r\n", 413)
    refused("chunks over the limit", HEAD_OF_CHUNKED + (b"8000\r\n" + b"z" * 0x8000 + b"\r\n") * 33, 413)
    refused("413 while sending", HEAD_OF_POST + b"Content-Length: 900000000\r\n\r\n" + b"z" * 600000, 413)
    refused("100-continue over the limit", HEAD_OF_POST + b"Expect: 100-continue\r\nContent-Length: 99999999\r\n\r\n", 413)
    refused("long target", b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\n" + HOST + b"\r\n", 414)
    refused("endless target", b"GET /" + b"a" * 20000, 414)
    refused("huge header", HEAD_OF_GET + b"X: " + b"a" * 20000 + b"\r\n\r\n", 431)
    refused("300 headers", HEAD_OF_GET + b"".join(b"X%d: 1\r\n" % i for i in range(300)) + b"\r\n", 431)
    refused("huge trailers", HEAD_OF_CHUNKED + b"0\r\nX: " + b"a" * 5000 + b"\r\n\r\n", 431)
    refused("other expectation", HEAD_OF_POST + b"Expect: x\r\nContent-Length: 1\r\n\r\nx", 417)


# ---- What must work

def works():
    for name, data, body, count in (
            ("absolute form", b"GET http://a/hello HTTP/1.1\r\n" + HOST + b"\r\n", HELLO, 1), ("CRLF before", b"\r\n" + GET, HELLO, 1),
            ("h2c is ignored", HEAD_OF_GET + b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\r\n" + GET, HELLO, 2),
            ("Upgrade with a body", HEAD_OF_POST + b"Connection: upgrade\r\nUpgrade: websocket\r\nContent-Length: 3\r\n\r\nabc" + GET, HELLO, 2),
            ("chunk extension", HEAD_OF_CHUNKED + b"3;a=b\r\nabc\r\n0\r\n\r\n", b"abc", 1), ("chunk size in capitals", HEAD_OF_CHUNKED + b"A\r\n0123456789\r\n0\r\n\r\n", b"0123456789", 1),
            ("trailers", HEAD_OF_CHUNKED + b"3\r\nabc\r\n0\r\nContent-Length: 9\r\nX: y\r\n\r\n" + GET, HELLO, 2),
            ("blanks around a value", b"GET /hello HTTP/1.1\r\nHost:\t a \t\r\n\r\n", HELLO, 1),
            ("case of chunked", HEAD_OF_POST + b"Transfer-Encoding: ChUnKeD\r\n\r\n1\r\nz\r\n0\r\n\r\n", b"z", 1),
            ("1 MiB", post(b"q" * (1 << 20)), b"q" * (1 << 20), 1), ("POST without a length", HEAD_OF_POST + b"\r\n", b"", 1),
            ("99 headers", HEAD_OF_GET + b"X: 1\r\n" * 98 + b"\r\n", HELLO, 1), ("query", get(b"/hello?a=/b"), HELLO, 1),
            ("absolute form with port and query", b"GET HTTP://a:1/hello?b HTTP/1.1\r\n" + HOST + b"\r\n", HELLO, 1),
            ("chunk size with zeros", HEAD_OF_CHUNKED + b"0003\r\nabc\r\n000\r\n\r\n", b"abc", 1), ("empty chunked body", HEAD_OF_CHUNKED + b"0\r\n\r\n", b"", 1),
            ("leading zeros", HEAD_OF_POST + b"Content-Length: 003\r\n\r\nabc", b"abc", 1)):
        answers = ask(data, count)
        check(name, answers[-1] and answers[-1][0] == 200 and answers[-1][2] == body, answers)


def keep_alive():
    sock, reader = opened()
    sock.sendall(b"GET /hello HTTP/1.0\r\n\r\n")
    answer = reader.response()
    check("1.0 closes", answer[2] == HELLO and reader.closed() and answer[1].get(b"connection") == b"close")
    sock, reader = opened()
    sock.sendall(b"GET /hello HTTP/1.0\r\nConnection: keep-alive\r\n\r\n" * 2)
    first, second = reader.response(), reader.response()
    check("1.0 keep-alive", first[1].get(b"connection") == b"keep-alive" and second[0] == 200)
    sock, reader = opened()
    sock.sendall(b"GET /sse?n=5 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
    answer = reader.response()
    check("1.0 stream", b"transfer-encoding" not in answer[1] and answer[2].count(b"\n\n") == 6 and reader.eof)
    sock, reader = opened()
    sock.sendall(HEAD_OF_GET + b"Connection: close\r\n\r\n" + GET)
    answer = reader.response()
    check("close ends a pipeline", answer[1][b"connection"] == b"close" and reader.closed() and reader.rest == b"")
    sock, reader = opened()
    sock.sendall(b"HEAD /hello HTTP/1.1\r\n" + HOST + b"\r\n" + GET)
    first, second = reader.response(head_only=True), reader.response()
    check("HEAD", first[1][b"content-length"] == b"12" and second[2] == HELLO, (first, second))
    sock, reader = opened()
    expects = HEAD_OF_POST + b"Expect: 100-continue\r\nContent-Length: 3\r\n\r\n"
    sock.sendall(expects)
    first = reader.response()
    sock.sendall(b"abc")
    check("100-continue", first[0] == 100 and reader.response()[2] == b"abc")
    sock.sendall(get(b"/slow?ms=50") + expects)
    first, second = reader.response(), reader.response()
    sock.sendall(b"abc")
    third = reader.response()
    check("100 in order", first[0] == 200 and second[0] == 100 and third[2] == b"abc", (first, second, third))


# ---- Time

def timed(name, first, drip, low, status):
    """The server must act not before `low` seconds, and then with `status` (None: a silent close)."""
    sock, reader = opened()
    begin = time.monotonic()
    sock.sendall(first)
    sock.settimeout(0.05)
    while time.monotonic() - begin < low + SLACK:
        try:
            if drip:
                sock.sendall(drip)
        except GONE:
            pass
        try:
            if not reader.more():
                break
        except TimeoutError:
            pass
    took = time.monotonic() - begin
    sock.settimeout(1)
    answer = reader.response() if reader.rest else None
    sock.close()
    check(name, took >= low and reader.eof and (answer[0] if answer else None) == status, (took, answer))


def idle_connection():
    sock, reader = opened()
    sock.sendall(GET)
    reader.response()
    begin = time.monotonic()
    check("idle keep-alive", reader.closed(1.5 + SLACK) and time.monotonic() - begin > 1.2 and reader.rest == b"")


def moving_body():
    sock, reader = opened()
    sock.sendall(HEAD_OF_POST + b"Content-Length: 400000\r\n\r\n")
    for _ in range(10):
        sock.sendall(b"x" * 40000)
        time.sleep(0.2)
    answer = reader.response()
    check("slow but moving body", answer and answer[0] == 200 and len(answer[2]) == 400000)


def deadlines():
    jobs = [lambda: timed("slow loris on the head", HEAD_OF_GET, b"X: y\r\n", 0.8, 408), lambda: timed("partial head", b"GET /he", b"", 0.8, 408),
            lambda: timed("slow loris on the body", HEAD_OF_POST + b"Content-Length: 100000\r\n\r\n", b"x", 0.8, 408),
            lambda: timed("partial chunk", HEAD_OF_CHUNKED + b"5\r\nab", b"", 0.8, 408), lambda: timed("silent connection", b"", b"", 0.8, None),
            idle_connection, moving_body, server_ping, pongs_keep_it]
    with concurrent.futures.ThreadPoolExecutor(len(jobs)) as pool:
        for job in [pool.submit(job) for job in jobs]:
            job.result()


# ---- Disconnects and slow readers

def disconnects():
    before = server.stat()["hangups"]
    sock, _ = opened()
    sock.sendall(get(b"/slow?ms=5000"))
    time.sleep(0.1)
    sock.close()
    stat = server.until_stat(lambda s: s["hangups"] == before + 1)
    check("hangup while waiting", stat == {"hangups": before + 1, "live": 0}, stat)
    sock, _ = opened()
    sock.sendall(get(b"/sse?n=100000000"))
    sock.recv(1000)
    sock.close()
    stat = server.until_stat(lambda s: s["hangups"] == before + 2 and s["live"] == 0)
    check("hangup while streaming", stat == {"hangups": before + 2, "live": 0}, stat)
    for part in (b"G", GET[:-1], HEAD_OF_POST + b"Content-Length: 10\r\n\r\nabc", HEAD_OF_CHUNKED + b"5\r\nab"):
        sock, _ = opened()
        sock.sendall(part)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # close sends RST
        sock.close()
    sock, reader = opened()
    sock.sendall(GET)
    if not TLS:  # half of TLS cannot be closed by this client
        sock.shutdown(socket.SHUT_WR)
    answer = reader.response()
    check("half-close after a request", answer and answer[2] == HELLO)
    check("alive after disconnects", ask(GET)[0][2] == HELLO)


def cpu_ticks():
    return sum(map(int, open(f"/proc/{server.process.pid}/stat").read().rsplit(")", 1)[1].split()[11:13]))


def stopped_reader():
    before = server.stat()["hangups"]
    sock, _ = opened()
    sock.sendall(get(b"/sse?n=100000000"))
    sock.recv(1000)
    time.sleep(0.6)
    ticks = cpu_ticks()
    time.sleep(0.5)
    check("a stopped reader does not spin", cpu_ticks() - ticks <= 30, cpu_ticks() - ticks)  # of 50; sanitizers cost some
    rss = int(re.search(r"VmRSS:\s+(\d+)", open(f"/proc/{server.process.pid}/status").read()).group(1))
    check("a stopped reader holds little memory", rss < 200_000, rss)
    socket_reader = WebSocket(b"/ws?n=100000000")
    stat = server.until_stat(lambda s: s["hangups"] == before + 2 and s["live"] == 0)
    check("stopped readers are cut", stat["hangups"] == before + 2 and stat["live"] == 0, stat)
    socket_reader.sock.close()


def crowd():
    sockets = [server.connect() for _ in range(800)]
    for sock in sockets:
        sock.sendall(get(b"/sse?n=100000"))
    time.sleep(0.3)
    for sock in sockets:
        sock.close()
    stat = server.until_stat(lambda s: s["live"] == 0, 20)
    check("800 streams dropped at once", stat["live"] == 0, stat)


# ---- WebSocket

def handshake(path=b"/ws", key=KEY, version=b"13", extra=b"", upgrade=b"websocket", connection=b"keep-alive, Upgrade", method=b"GET", http=b"1.1"):
    lines = [method + b" " + path + b" HTTP/" + http, b"Host: a", b"Upgrade: " + upgrade, b"Connection: " + connection]
    if key is not None:
        lines.append(b"Sec-WebSocket-Key: " + key)
    lines.append(b"Sec-WebSocket-Version: " + version)
    return b"\r\n".join(lines) + b"\r\n" + extra + b"\r\n"


def frame(opcode, payload=b"", fin=1, length=None, rsv=0, masked=True):
    count = len(payload) if length is None else length
    bit = 128 if masked else 0
    head = bytes([fin << 7 | rsv << 4 | opcode])
    if count < 126:
        head += bytes([bit | count])
    elif count < 65536:
        head += bytes([bit | 126]) + struct.pack(">H", count)
    else:
        head += bytes([bit | 127]) + struct.pack(">Q", count)
    return head + (b"abcd" + bytes(byte ^ b"abcd"[i % 4] for i, byte in enumerate(payload)) if masked else payload)


class WebSocket:
    def __init__(self, path=b"/ws", extra=b"", first=b"", cut=0):
        self.sock, self.reader = opened()
        data = handshake(path=path, extra=extra) + first
        if cut:
            self.sock.sendall(data[:cut])
            time.sleep(0.0003)
        self.sock.sendall(data[cut:])
        self.answer = self.reader.response()

    def frame(self):
        """(first byte, payload), or None after the end."""
        reader = self.reader
        if not reader.need(2):
            return None
        count, offset = reader.rest[1] & 127, 2
        if count == 126 and reader.need(4):
            count, offset = struct.unpack(">H", reader.rest[2:4])[0], 4
        elif count == 127 and reader.need(10):
            count, offset = struct.unpack(">Q", reader.rest[2:10])[0], 10
        if not reader.need(offset + count):
            return None
        data = reader.take(offset + count)
        return data[0], data[offset:]


def code(number):
    return struct.pack(">H", number)


def handshakes():
    socket_ = WebSocket(extra=b"Sec-WebSocket-Protocol: openai-insecure-api-key.k, troupe.v1\r\nSec-WebSocket-Extensions: permessage-deflate\r\n")
    status, headers, _ = socket_.answer
    check("upgrade", status == 101 and headers[b"sec-websocket-accept"] == b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" and
          headers.get(b"sec-websocket-protocol") == b"troupe.v1" and b"sec-websocket-extensions" not in headers, headers)
    socket_.sock.sendall(frame(1, b"hi"))
    check("echo", socket_.frame() == (0x81, b"hi"))
    early = WebSocket(first=frame(1, b"early"))
    check("a frame in the handshake's segment", early.frame() == (0x81, b"early"))
    for name, data, status in (("no key", handshake(key=None), 400), ("short key", handshake(key=b"abc"), 400), ("bad key", handshake(key=b"!" * 22 + b"=="), 400),
                               ("version 8", handshake(version=b"8"), 426), ("POST", handshake(method=b"POST"), 400), ("HTTP/1.0", handshake(http=b"1.0"), 400),
                               ("no upgrade", handshake(upgrade=b"h2c"), 400), ("no connection", handshake(connection=b"close"), 400),
                               ("two keys", handshake(extra=b"Sec-WebSocket-Key: " + KEY + b"\r\n"), 400)):
        answer = ask(data)[0]
        check("handshake: " + name, answer and answer[0] == status, answer)


def websocket_cuts():
    euro = "€".encode()
    frames = (frame(1, b"early") + frame(9, b"p") + frame(1, euro[:2], fin=0) + frame(0, euro[2:]) + frame(2, b"z" * 200) + frame(8, code(1000) + b"bye"))
    want = [(0x81, b"early"), (0x8a, b"p"), (0x81, euro), (0x82, b"z" * 200), (0x88, code(1000) + b"bye")]

    def cut(at):
        session = WebSocket(first=frames, cut=at)
        got = [session.frame() for _ in range(5)]
        closed = session.reader.closed()
        session.sock.close()
        return at, session.answer[0] == 101 and got == want and closed, got
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for at, ok, got in pool.map(cut, range(1, len(handshake()) + len(frames))):
            check(f"WebSocket cut at {at}", ok, got)


def websocket_faults():
    def closes(name, data, number):
        session = WebSocket()
        session.sock.sendall(data)
        got, closed = session.frame(), session.reader.closed()
        session.sock.close()
        check("WebSocket: " + name, got and got[0] == 0x88 and got[1][:2] == code(number) and closed, (got, closed))
    for name, data in (("unmasked", frame(1, b"x", masked=False)), ("reserved bit", frame(1, b"x", rsv=4)), ("opcode 3", frame(3, b"x")),
                       ("opcode 11", frame(11, b"x")), ("long ping", frame(9, b"x" * 126)), ("fragmented ping", frame(9, b"x", fin=0)),
                       ("bare continuation", frame(0, b"x")), ("text in text", frame(1, b"x", fin=0) + frame(1, b"y")),
                       ("close of one byte", frame(8, b"x")), ("close 1005", frame(8, code(1005))),
                       ("length not minimal", bytes([0x81, 0xfe, 0, 5]) + b"abcd12345")):
        closes(name, data, 1002)
    closes("bad UTF-8", frame(1, b"\xff"), 1007)
    closes("cut UTF-8", frame(1, "€".encode()[:2]), 1007)
    closes("too big", frame(2, b"x", length=65537), 1009)
    closes("announces 2^62", bytes([0x82, 0xff]) + struct.pack(">Q", 1 << 62) + b"abcdx", 1009)
    closes("fragments too big", frame(2, b"x" * 40000, fin=0) + frame(0, b"x" * 40000), 1009)


def server_ping():
    session = WebSocket()
    begin = time.monotonic()
    got = session.frame()
    check("server ping", got == (0x89, b"") and time.monotonic() - begin > 0.2, got)
    check("no pong: cut", session.reader.closed(1 + SLACK))


def pongs_keep_it():
    session, begin = WebSocket(), time.monotonic()
    while time.monotonic() - begin < 2:
        got = session.frame()
        if not got or got[0] != 0x89:
            break
        session.sock.sendall(frame(10, got[1]))
    check("pongs keep it", time.monotonic() - begin >= 2)
    session.sock.close()


def websocket_traffic():
    session = WebSocket()
    session.sock.sendall(b"".join(frame(9, b"%d" % i) for i in range(1000)))
    check("1000 pings", [session.frame()[1] for _ in range(1000)] == [b"%d" % i for i in range(1000)])
    session.sock.close()
    session, count = WebSocket(b"/ws?n=2000"), 0
    while (got := session.frame()) and got[1] != b"[DONE]":
        count += got[0] == 0x81
    check("2000 events", count == 2000, count)
    session.sock.close()
    session, sent, begin, data = WebSocket(), 0, time.monotonic(), frame(2, b"e" * 60000)
    session.sock.setblocking(False)
    try:
        while time.monotonic() - begin < 1:
            sent += session.sock.send(data[sent % len(data):])
    except (*WOULD_BLOCK, *GONE):
        pass
    check("an echo that is not read stops reading", sent < 12e6, sent)
    session.sock.close()


# ---- Limits by address, IPv6, and what is no TLS

def by_address():
    global server
    kept, server = server, Server(PER_IP="5")
    sockets = [opened() for _ in range(5)]
    for sock, _ in sockets:
        sock.sendall(GET)
    check("five of five connections", all(reader.response()[2] == HELLO for _, reader in sockets))

    def sixth():
        try:
            return ask(GET)[0]
        except (*GONE, OSError):
            return None
    check("the sixth is closed", [sixth() for _ in range(10)] == [None] * 10)
    sockets.pop()[0].close()
    end = time.monotonic() + 5
    while not (answer := sixth()) and time.monotonic() < end:
        time.sleep(0.05)
    check("a place that is free again", answer and answer[2] == HELLO)
    for sock, _ in sockets:
        sock.close()
    server.process.send_signal(signal.SIGTERM)
    check("drained, exit 0", server.end(10) == 0)
    server = kept


def over_ipv6():
    global server
    kept, server = server, Server("::1")
    check("Host of IPv6", ask(b"GET /hello HTTP/1.1\r\nHost: [::1]:80\r\n\r\n")[0][2] == HELLO)
    for part in (smuggling, heads, chunk_faults, works):
        part()
    server.process.send_signal(signal.SIGTERM)
    check("drained, exit 0", server.end(10) == 0)
    server = kept


def no_tls():
    if not TLS:
        return
    noise = (GET, b"\x16\x03\x01\xff\xff" + b"\0" * 500, bytes(5000), b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00", b"\x80\x2e\x01\x00\x02" + b"a" * 60, b"\x15\x03\x03\x00\x02\x02\x28")
    for data in noise:
        sock = server.connect_plain()
        sock.sendall(data)
        reader = Reader(sock)
        check(f"no TLS: {data[:12]}", reader.closed(1 + SLACK) and b"HTTP/1.1" not in reader.rest, reader.rest[:50])
    begin, sock = time.monotonic(), server.connect_plain()
    reader = Reader(sock)
    sock.sendall(b"\x16\x03\x01\x02\x00")  # a record that never comes whole
    check("stalled handshake", reader.closed(1 + SLACK) and reader.rest == b"" and time.monotonic() - begin > 0.7, time.monotonic() - begin)
    for cut in (1, 5, 50):  # a handshake that is left alone at the n-th byte, by RST
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = CONTEXT.wrap_bio(incoming, outgoing)
        try:
            client.do_handshake()
        except ssl.SSLWantReadError:
            pass
        sock = server.connect_plain()
        sock.sendall(outgoing.read()[:cut])
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.close()
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        context = ssl._create_unverified_context()
        context.minimum_version = context.maximum_version = version
        with context.wrap_socket(server.connect_plain()) as sock:
            sock.sendall(GET)
            check(f"speaks {version.name}", Reader(sock).response()[2] == HELLO)
    check("alive after what is no TLS", ask(GET)[0][2] == HELLO)


# ---- Drain

def drain():
    global server
    active, active_reader = opened()
    active.sendall(get(b"/slow?ms=700"))
    _, idle_reader = opened()
    late, late_reader = opened()
    session = WebSocket()
    time.sleep(0.1)
    server.process.send_signal(signal.SIGTERM)
    time.sleep(0.1)
    late.sendall(GET)  # on its way while the signal came
    answer = late_reader.response()
    check("drain answers on idle connections", answer and answer[0] == 503 and late_reader.closed(), answer)
    got = session.frame()
    while got and got[0] == 0x89:  # a ping
        got = session.frame()
    check("drain closes a WebSocket with 1001", got and got[1][:2] == code(1001), got)
    answer = ask(GET)[0]
    check("drain answers 503", answer and answer[0] == 503 and b"retry-after" in answer[1], answer)
    session.sock.sendall(frame(8, code(1001)))
    check("drain ends the WebSocket", session.reader.closed())
    check("drain closes idle connections", idle_reader.closed())
    answer = active_reader.response()
    check("drain lets an answer end", answer and answer[2] == b'{"slow":700}' and active_reader.closed(), answer)
    check("drained, exit 0", server.end(10) == 0)
    check("nothing on stderr", server.stderr() == "loop ended\n", server.stderr())
    server = Server("::1")
    check("IPv6", ask(GET)[0][2] == HELLO)
    sock, reader = opened()
    sock.sendall(get(b"/slow?ms=100000"))
    time.sleep(0.2)
    begin = time.monotonic()
    server.process.send_signal(signal.SIGTERM)
    answer = reader.response()
    check("drain deadline tells the client", answer and answer[0] == 503, answer)
    check("drain deadline, exit 0", server.end(10) == 0 and time.monotonic() - begin > 1.2, time.monotonic() - begin)
    check("nothing on stderr", server.stderr() == "loop ended\n", server.stderr())


server = Server()
try:
    for part in (cuts, pipelines, smuggling, heads, chunk_faults, limits, works, keep_alive, deadlines, disconnects, handshakes, websocket_cuts,
                 websocket_faults, websocket_traffic, stopped_reader, crowd, by_address, over_ipv6, no_tls, drain):
        part()
finally:
    if server.process.poll() is None:
        server.process.kill()
sys.exit(exit_code(960))
