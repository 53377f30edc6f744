"""WebSocket framing by the letter of RFC 6455, in the order of the Autobahn fuzzing client's chapters (its cases 1-7, 9 and 10): sizes, pings,
reserved bits, opcodes, fragments, UTF-8, closing, big messages. Against the echo of torture_server.

usage: websocket_cases.py TORTURE_SERVER. Starts the server itself on a free port; loopback only; standard library only."""
import os
import socket
import struct
import subprocess
import sys

from checks import check, exit_code

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
MASK = b"\x5a\x11\xc3\x7e"


def frame(opcode, data=b"", fin=True, reserved=0, masked=True, length_bytes=None):
    size = len(data)
    if length_bytes is None:
        length_bytes = 0 if size < 126 else 2 if size < 65536 else 8
    length = {0: bytes([size & 127]), 2: b"\x7e" + struct.pack(">H", size & 0xffff), 8: b"\x7f" + struct.pack(">Q", size)}[length_bytes]
    head = bytes([fin << 7 | reserved << 4 | opcode]) + bytes([length[0] | masked << 7]) + length[1:]
    if not masked:
        return head + data
    pad = MASK * (size // 4 + 1)
    return head + MASK + (int.from_bytes(data, "big") ^ int.from_bytes(pad[:size], "big")).to_bytes(size, "big")


class Session:
    def __init__(self):
        self.sock = socket.create_connection(("127.0.0.1", port))
        self.sock.settimeout(20)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock.sendall(b"GET /ws HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                          b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
        self.rest = b""
        while b"\r\n\r\n" not in self.rest:
            self.rest += self.sock.recv(4096)
        head, self.rest = self.rest.split(b"\r\n\r\n", 1)
        assert head.startswith(b"HTTP/1.1 101"), head

    def send(self, data, piece=0):
        try:
            for at in range(0, len(data), piece or max(1, len(data))):
                self.sock.sendall(data[at:at + (piece or len(data))])
        except ConnectionError:
            pass  # refused already: the answer says why

    def take(self, count):
        parts, have = [self.rest], len(self.rest)
        while have < count:
            try:
                data = self.sock.recv(1 << 20)
            except ConnectionError:
                data = b""
            if not data:
                return None
            parts.append(data)
            have += len(data)
        joined = b"".join(parts)
        self.rest = joined[count:]
        return joined[:count]

    def frame(self):
        """(first byte, payload), or None where the peer closed."""
        head = self.take(2)
        if head is None:
            return None
        size = head[1]
        if size == 126:
            size = struct.unpack(">H", self.take(2))[0]
        elif size == 127:
            size = struct.unpack(">Q", self.take(8))[0]
        return head[0], self.take(size)

    def all(self):
        """All frames until the peer closes the socket."""
        frames = []
        while (got := self.frame()) is not None:
            frames.append(got)
        self.sock.close()
        return frames


def close_of(frames):
    """The code of the one close frame at the end; 0: it has none; None: there is no close, or something follows it."""
    closes = [data for first, data in frames if first == 0x80 | CLOSE]
    if len(closes) != 1 or frames[-1][0] != 0x80 | CLOSE:
        return None
    return struct.unpack(">H", closes[0][:2])[0] if closes[0] else 0


def talk(data, piece=0):
    """Everything that is said after `data` and a close of ours."""
    session = Session()
    session.send(data + frame(CLOSE, struct.pack(">H", 1000)), piece)
    return session.all()


def echoed(name, data, opcode, payload, piece=0, before=()):
    got = talk(data, piece)
    check(name, got == [*before, (0x80 | opcode, payload), (0x80 | CLOSE, struct.pack(">H", 1000))], [(hex(f), d[:20]) for f, d in got])


def broken(name, data, code=1002, before=(), piece=0):
    """The peer must close with `code`, without our close, and answer nothing behind the fault."""
    session = Session()
    session.send(data, piece)
    got = session.all()
    check(name, got[:-1] == list(before) and close_of(got) == code, [(hex(f), d[:20]) for f, d in got])


def sizes():
    for opcode in (TEXT, BINARY):
        for size in (0, 1, 124, 125, 126, 127, 128, 65535, 65536, 65537):
            payload = b"*" * size if opcode == TEXT else bytes(i * 7 % 256 for i in range(size))
            for piece in (0, 997) if size > 1000 else (0, 1):
                echoed(f"size {size} of {opcode} in pieces of {piece}", frame(opcode, payload), opcode, payload, piece)
    for size, length_bytes in ((5, 2), (125, 2), (5, 8), (126, 8), (65535, 8)):
        broken(f"length {size} in {length_bytes} bytes", frame(TEXT, b"x" * size, length_bytes=length_bytes))
    broken("length beyond 2^63", b"\x81\xff" + struct.pack(">Q", 1 << 63) + MASK + b"x" * 100)
    broken("no mask", frame(TEXT, b"hello", masked=False))


def pings():
    pong = lambda data: (0x80 | PONG, data)
    for data in (b"", b"hello", bytes(range(125))):
        for piece in (0, 1):
            got = talk(frame(PING, data), piece)
            check(f"ping of {len(data)}", got[:-1] == [pong(data)] and close_of(got) == 1000, got)
    broken("ping of 126", frame(PING, b"x" * 126))
    got = talk(frame(PONG, b"unasked") + frame(PONG) + frame(PING, b"x"))
    check("pongs that nobody asked for", got[:-1] == [pong(b"x")], got)
    many = [b"%d" % i for i in range(10)]
    for piece in (0, 1):
        got = talk(b"".join(frame(PING, data) for data in many), piece)
        check("ten pings in a row", got[:-1] == [pong(data) for data in many], got)


def reserved():
    for bits in range(1, 8):
        for opcode in (TEXT, BINARY, PING, PONG, CLOSE):
            broken(f"reserved bits {bits} on {opcode}", frame(opcode, b"", reserved=bits))
            broken(f"reserved bits {bits} on {opcode} behind a message", frame(TEXT, b"a") + frame(opcode, b"b", reserved=bits), before=[(0x81, b"a")])
            broken(f"reserved bits {bits} on {opcode}, byte by byte", frame(opcode, b"b", reserved=bits), piece=1)


def opcodes():
    for opcode in (3, 4, 5, 6, 7, 11, 12, 13, 14, 15):
        for payload in (b"", b"payload"):
            broken(f"opcode {opcode}", frame(opcode, payload))
            broken(f"opcode {opcode} behind a message", frame(TEXT, b"a") + frame(opcode, payload) + frame(PING), before=[(0x81, b"a")])


def fragments():
    for opcode in (PING, PONG, CLOSE):
        broken(f"fragment of {opcode}", frame(opcode, b"a", fin=False) + frame(CONTINUATION, b"b"))
    for piece in (0, 1):
        echoed("two fragments", frame(TEXT, b"frag", fin=False) + frame(CONTINUATION, b"ment"), TEXT, b"fragment", piece)
        echoed("empty fragments", frame(TEXT, b"", fin=False) + frame(CONTINUATION, b"", fin=False) + frame(CONTINUATION), TEXT, b"", piece)
        echoed("empty in the middle", frame(TEXT, b"a", fin=False) + frame(CONTINUATION, b"", fin=False) + frame(CONTINUATION, b"b"), TEXT, b"ab", piece)
        echoed("a ping between fragments", frame(BINARY, b"a", fin=False) + frame(PING, b"p") + frame(CONTINUATION, b"b"), BINARY, b"ab", piece,
               before=[(0x80 | PONG, b"p")])
        parts = [b"%d," % i for i in range(20)]
        data = frame(TEXT, parts[0], fin=False) + b"".join(frame(PING, part) + frame(CONTINUATION, part, fin=part == parts[-1]) for part in parts[1:])
        echoed("twenty fragments with pings", data, TEXT, b"".join(parts), piece, before=[(0x80 | PONG, part) for part in parts[1:]])
        for fin in (True, False):
            broken("a continuation of nothing", frame(CONTINUATION, b"x", fin=fin) + frame(TEXT, b"y"), piece=piece)
            broken("a continuation behind a whole message", frame(TEXT, b"a") + frame(CONTINUATION, b"x", fin=fin), before=[(0x81, b"a")], piece=piece)
            for opcode in (TEXT, BINARY):
                broken("a message within a message", frame(TEXT, b"a", fin=False) + frame(opcode, b"b", fin=fin), piece=piece)


VALID = ("", "hello", "\0", "\x7f", "κόσμε", "\u0080", "\u07ff", "\u0800", "\uffff", "\ufffd", "\ufffe", "\ud7ff", "\ue000", "\U00010000", "\U0010ffff",
         "\U0001fffe", "\u0000\u0080\u0800\U00010000", "日本語", "😀👩‍👩‍👧‍👦", "\ufeff", "Z͑ͫ̓ͪ̂ͫ̽͏̴̙̤")
INVALID = (b"\x80", b"\xbf", b"\x80\xbf", b"\x80\xbf\x80\xbf\x80", bytes(range(0x80, 0xc0)), b"\xc0 \xc1 ", b"\xc2 ", b"\xdf ", b"\xe0 ", b"\xef ",
           b"\xf0 ", b"\xf4 ", b"\xf5 ", b"\xf8 ", b"\xfc ", b"\xfe", b"\xff", b"\xfe\xfe\xff\xff", b"\xc0\xaf", b"\xe0\x80\xaf", b"\xf0\x80\x80\xaf",
           b"\xf8\x80\x80\x80\xaf", b"\xfc\x80\x80\x80\x80\xaf", b"\xc1\xbf", b"\xe0\x9f\xbf", b"\xf0\x8f\xbf\xbf", b"\xf8\x87\xbf\xbf\xbf", b"\xc0\x80",
           b"\xe0\x80\x80", b"\xf0\x80\x80\x80", b"\xed\xa0\x80", b"\xed\xad\xbf", b"\xed\xae\x80", b"\xed\xaf\xbf", b"\xed\xb0\x80", b"\xed\xbf\xbf",
           b"\xed\xa0\x80\xed\xb0\x80", b"\xed\xaf\xbf\xed\xbf\xbf", b"\xf4\x90\x80\x80", b"\xf7\xbf\xbf\xbf", b"\xf8\x88\x80\x80\x80",
           b"\xfd\xbf\xbf\xbf\xbf\xbf", "κόσμε".encode() + b"\xf4\x90\x80\x80" + b"edited", "κόσμε".encode() + b"\xed\xa0\x80" + b"edited")
CUT = (b"\xc2", b"\xdf", b"\xe0\xa0", b"\xef\xbf", b"\xf0\x90\x80", b"\xf4\x8f\xbf", b"\xe2", b"\xf0\x9f\x98", "κόσμε".encode()[:-1])


def utf8():
    def in_frames(data):
        parts = [data[i:i + 1] for i in range(len(data))] or [b""]
        return b"".join(frame(TEXT if i == 0 else CONTINUATION, part, fin=i == len(parts) - 1) for i, part in enumerate(parts))
    for text in VALID:
        data = text.encode()
        echoed(f"text {data[:12]}", frame(TEXT, data), TEXT, data)
        echoed(f"text {data[:12]} byte by byte", frame(TEXT, data), TEXT, data, piece=1)
        echoed(f"text {data[:12]} in frames", in_frames(data), TEXT, data)
    for data in INVALID:
        echoed(f"binary {data[:12]}", frame(BINARY, data), BINARY, data)
        broken(f"text {data[:12]}", frame(TEXT, data), 1007)
        broken(f"text {data[:12]} byte by byte", frame(TEXT, data), 1007, piece=1)
        broken(f"text {data[:12]} in frames", in_frames(data), 1007)
        broken(f"text {data[:12]} in a message that has not ended", frame(TEXT, data, fin=False), 1007)  # refused at once
    for data in CUT:
        broken(f"text that ends within a character: {data[:12]}", frame(TEXT, data), 1007)
        broken(f"the same in frames: {data[:12]}", in_frames(data), 1007)


def closing():
    def close(data):
        return frame(CLOSE, data)
    for data in (b"", struct.pack(">H", 1000), struct.pack(">H", 1000) + b"reason", struct.pack(">H", 1000) + "κόσμε".encode(),
                 struct.pack(">H", 1000) + b"x" * 123):
        session = Session()
        session.send(frame(TEXT, b"a") + close(data) + frame(TEXT, b"b") + frame(PING, b"c") + close(b""))
        got = session.all()
        check(f"close of {len(data)} bytes", got[0] == (0x81, b"a") and len(got) == 2 and got[1][0] == 0x88 and got[1][1][:2] == data[:2], got)
    for code in (1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 3999, 4000, 4999):
        session = Session()
        session.send(close(struct.pack(">H", code)))
        got = session.all()
        check(f"close {code}", len(got) == 1 and close_of(got) == code, got)
    for code in (0, 1, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65535):
        broken(f"close {code}", close(struct.pack(">H", code)))
        broken(f"close {code} with a reason", close(struct.pack(">H", code) + b"why"))
    broken("close of one byte", close(b"\x03"))
    broken("close of 126 bytes", close(struct.pack(">H", 1000) + b"x" * 124))
    broken("a reason that is no UTF-8", close(struct.pack(">H", 1000) + b"\xed\xa0\x80"), 1007)
    got = talk(frame(TEXT, b"a", fin=False))
    check("close within a message", got == [(0x88, struct.pack(">H", 1000))], got)


def big():
    for opcode in (TEXT, BINARY):
        for size in (1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24):
            payload = (b"0123456789abcdef" * (size // 16))
            echoed(f"{size} bytes of {opcode}", frame(opcode, payload), opcode, payload)
        payload = b"x" * (1 << 22)
        for part in (256, 1024, 1 << 14, 1 << 18):
            pieces = [payload[i:i + part] for i in range(0, len(payload), part)]
            data = b"".join(frame(opcode if i == 0 else CONTINUATION, piece, fin=i == len(pieces) - 1) for i, piece in enumerate(pieces))
            echoed(f"4 MiB of {opcode} in fragments of {part}", data, opcode, payload)
        for piece in (64, 1024, 1 << 16):
            echoed(f"1 MiB of {opcode} in pieces of {piece}", frame(opcode, payload[:1 << 20]), opcode, payload[:1 << 20], piece)
    echoed("64 KiB in fragments of 1300", b"".join(frame(TEXT if i == 0 else CONTINUATION, b"*" * min(1300, 65536 - i), fin=i + 1300 >= 65536)
                                                   for i in range(0, 65536, 1300)), TEXT, b"*" * 65536)
    broken("over the limit, in one frame", frame(BINARY, b"x" * (LIMIT + 1)), 1009)
    broken("over the limit, in fragments", frame(BINARY, b"x" * LIMIT, fin=False) + frame(CONTINUATION, b"x"), 1009)
    session = Session()  # a length that is announced costs nothing
    session.send(b"\x82\xff" + struct.pack(">Q", 1 << 40) + MASK + b"x")
    check("a terabyte announced", close_of(session.all()) == 1009)


LIMIT = 1 << 25
server = subprocess.Popen([sys.argv[1], "0"], env={**os.environ, "WS_MESSAGE": str(LIMIT), "LINGER_MS": "200"}, stdout=subprocess.PIPE, text=True)
port = int(server.stdout.readline())
try:
    for part in (sizes, pings, reserved, opcodes, fragments, utf8, closing, big):
        part()
finally:
    server.terminate()
    code = server.wait(20)
check("the server ends well", code == 0, code)
sys.exit(exit_code())
