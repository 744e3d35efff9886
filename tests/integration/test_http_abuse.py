"""What strangers send: 10,000 malformed requests beside 5,000 idle and 50 slow clients. The example daemon
neither crashes nor leaks nor grows, and answers good requests all the while.

Under ASan: URR_BUILD=build/asan, or URR_ASAN_BIN=<folder of the programs>."""
import os
import pathlib
import random
import select
import socket
import threading
import time

import pytest

CORPUS = pathlib.Path(__file__).parents[1] / "fuzz" / "corpus" / "http"
IDLE = 5_000
SLOW = 50
MALFORMED = 10_000
ROUNDS = 2
GROWTH_KB = 3_000  # the allocator's own slack; a leak of one request's buffers each would be 20,000
GOOD_WITHIN = 2.0  # seconds, on two cores shared with this test

SHAPES = [
    b"GET /healthz HTTP/1.1\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\nHost : a\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n",
    b"POST /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx",
    b"POST /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"GET /%2e%2e/healthz HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET //healthz HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /healthz%00 HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\nHost: a\r\n" + b"X: y\r\n" * 200 + b"\r\n",
    b"POST /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999\r\n\r\n" + b"x" * 5_000,
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
]


@pytest.fixture
def hello(daemon, monkeypatch):
    folder = os.environ.get("URR_ASAN_BIN")
    if folder:
        monkeypatch.setattr("harness.daemon.program", lambda name: os.path.join(folder, name))
    return daemon("urr-hello")


def mutate(rng, seed):
    """A few bytes changed, taken out, doubled, or cut off."""
    data = bytearray(seed)
    for _ in range(rng.randrange(1, 6)):
        at = rng.randrange(len(data)) if data else 0
        kind = rng.randrange(4)
        if kind == 0:
            data[at:at + 1] = bytes([rng.randrange(256)])
        elif kind == 1:
            del data[at:at + rng.randrange(1, 8)]
        elif kind == 2:
            data[at:at] = data[at:at + rng.randrange(1, 64)]
        elif at > 0:
            del data[at:]
    return bytes(data) or b"\r"


def connect(port):
    s = socket.create_connection(("127.0.0.1", port), timeout=10)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return s


def throw(port, data):
    """Sends and takes whatever comes until the daemon closes. A reset is an answer too."""
    with connect(port) as s:
        try:
            s.sendall(data)
            s.shutdown(socket.SHUT_WR)
            while s.recv(65536):
                pass
        except (ConnectionResetError, BrokenPipeError):
            pass


def good_request(port):
    start = time.monotonic()
    with connect(port) as s:
        s.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        answer = b""
        while chunk := s.recv(65536):
            answer += chunk
    assert answer.startswith(b"HTTP/1.1 200 "), answer[:200]
    assert time.monotonic() - start < GOOD_WITHIN


def drip(port, stop, verdicts):
    """SLOW clients, each a byte every 0.2 s; what each is told in the end."""
    clients = {connect(port): b"" for _ in range(SLOW)}
    request = b"GET /healthz HTTP/1.1\r\nHost: a\r\nX-Slow: " + b"x" * 1_000
    sent = 0
    while clients and not stop.is_set():
        for s in list(clients):
            try:
                s.send(request[sent:sent + 1])
            except OSError:
                pass
        sent += 1
        for s in select.select(list(clients), [], [], 0.2)[0]:
            try:
                chunk = s.recv(4096)
            except OSError:
                chunk = b""
            if chunk:
                clients[s] += chunk
            else:
                verdicts.append(clients.pop(s)[:12])
                s.close()
        time.sleep(0.05)
    for s in clients:
        s.close()


def open_fds(daemon):
    return len(os.listdir(f"/proc/{daemon.pid}/fd"))


def abuse(daemon, rng, count):
    seeds = SHAPES + [file.read_bytes()[1:] for file in sorted(CORPUS.iterdir())]
    for i in range(count):
        seed = seeds[i % len(seeds)]
        throw(daemon.port, seed if i < len(seeds) else mutate(rng, seed))
        if i % 250 == 0:
            good_request(daemon.port)


def test_strangers_cannot_hurt_the_daemon(hello, eventually):
    rng = random.Random(20261118)  # the same ten thousand each time
    sanitized = "asan" in os.environ.get("URR_BUILD", "") or "URR_ASAN_BIN" in os.environ
    good_request(hello.port)
    fds = open_fds(hello)
    stop, verdicts = threading.Event(), []
    slow = threading.Thread(target=drip, args=(hello.port, stop, verdicts), daemon=True)
    slow.start()
    idle = []
    try:
        for _ in range(IDLE):
            idle.append(connect(hello.port))
        sizes = []
        for _ in range(ROUNDS):
            abuse(hello, rng, MALFORMED // ROUNDS)
            sizes.append(hello.rss_kb())
        assert hello.running
        slow.join(20)
        assert verdicts == [b"HTTP/1.1 408"] * SLOW
        good_request(hello.port)
    finally:
        stop.set()
        for s in idle:
            s.close()
    if not sanitized:  # ASan keeps freed memory on purpose
        assert sizes[-1] - sizes[0] < GROWTH_KB, sizes
    eventually(lambda: open_fds(hello) <= fds, timeout=10, what="every connection is closed")
    good_request(hello.port)
    assert hello.stop() == 0  # under ASan this is also the leak check
