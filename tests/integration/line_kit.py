"""Users, crowds and streams against running urr-queue processes."""
import asyncio
import base64
import json
import secrets
import socket
import time

import jwt
import redis
import room_kit

JWT_SECRET = base64.b64encode(secrets.token_bytes(48)).decode()
ENTRY_SECRET = secrets.token_hex(32)
VWR_SECRET = secrets.token_hex(32)


def settings(redis_url, **more):
    """Quick timers: what takes a minute in production takes a second here."""
    return {"REDIS_URL": redis_url, "JWT_SECRET": JWT_SECRET, "QUEUE_ENTRY_TOKEN_SECRET": ENTRY_SECRET,
            "VWR_TOKEN_SECRET": VWR_SECRET, "QUEUE_ADMISSION_INTERVAL_MS": 100,
            "QUEUE_RESTORE_SECONDS": 1, **more}


def token(user, role="user", seconds=600, key=None, algorithm="HS256", **claims):
    return jwt.encode({"userId": user, "role": role, "exp": int(time.time()) + seconds, **claims},
                      base64.b64decode(JWT_SECRET) if key is None else key, algorithm=algorithm)


class RealTime:
    """The clock of room_kit.Instance for events that a daemon serves too."""
    def offset(self):
        return 0


class Operator:
    """Sets events up as an operator's instance would."""

    def __init__(self, url):
        self.redis = redis.Redis.from_url(url, decode_responses=True)
        self.room = room_kit.Instance(url, RealTime())

    def register(self, event, **settings_of_it):
        self.configure(event, registered=1, **settings_of_it)

    def configure(self, event, **values):
        pairs = [text for pair in values.items() for text in map(str, pair)]
        self.room.run("configure", event, "op", *pairs)
        self.redis.publish("queue:changed", event)

    def reconnect(self):
        self.room.connect(self.room.url)

    def active(self, event):
        return self.redis.zrange("{%s}:active" % event, 0, -1)

    def waiting(self, event):
        return self.redis.zrange("{%s}:queue" % event, 0, -1)

    def numbers(self, event):
        scores = self.redis.zrange("{%s}:queue" % event, 0, -1, withscores=True)
        return [int(score) for _, score in scores]


class User:
    def __init__(self, name, *daemons):
        self.name = name
        self.daemons = daemons
        self.headers = {"Authorization": "Bearer " + token(name)}
        self.place = None

    def call(self, method, path, daemon=None, headers=None, **options):
        more = {"x-queue-place": self.place} if self.place else {}
        response = (daemon or self.daemons[0]).request(
            method, path, headers={**self.headers, **more, **(headers or {})}, **options)
        if response.status_code == 200 and response.text.startswith("{"):
            self.place = response.json().get("place", self.place)
        return response

    def check(self, event, **options):
        return self.call("POST", f"/api/queue/check/{event}", **options)

    def status(self, event, **options):
        return self.call("GET", f"/api/queue/status/{event}", **options)

    def heartbeat(self, event, **options):
        return self.call("POST", f"/api/queue/heartbeat/{event}", **options)

    def leave(self, event, **options):
        return self.call("POST", f"/api/queue/leave/{event}", **options)


def crowd(requests, connections=100):
    """requests: (daemon, method, path, headers). All connections are open before the first request goes
    out. Returns (status, body) in the order given; (0, None) where the connection broke."""
    return asyncio.run(_crowd(list(requests), connections))


async def _crowd(requests, connections):
    answers = [(0, None)] * len(requests)
    start = asyncio.Event()

    async def one(mine):
        streams = {}
        for _, (daemon, _, _, _) in mine:
            if daemon.port not in streams:
                streams[daemon.port] = await asyncio.open_connection("127.0.0.1", daemon.port)
        await start.wait()
        for index, (daemon, method, path, headers) in mine:
            try:
                answers[index] = await _ask(*streams[daemon.port], method, path, headers)
            except (OSError, asyncio.IncompleteReadError):
                pass
        for _, writer in streams.values():
            writer.close()

    work = [list(enumerate(requests))[i::connections] for i in range(min(connections, len(requests)))]
    tasks = [asyncio.create_task(one(mine)) for mine in work]
    await asyncio.sleep(0.1)
    start.set()
    await asyncio.gather(*tasks)
    return answers


async def _ask(reader, writer, method, path, headers):
    lines = [f"{method} {path} HTTP/1.1", "Host: x", "Content-Length: 0"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    length = next(int(line.split(":")[1]) for line in head.split("\r\n")
                  if line.lower().startswith("content-length:"))
    body = await reader.readexactly(length)
    return int(head.split()[1]), json.loads(body) if body else None


def join_all(daemons, event, users):
    """Everybody checks at the same moment; returns the answers."""
    return crowd((daemons[i % len(daemons)], "POST", f"/api/queue/check/{event}", user.headers)
                 for i, user in enumerate(users))


class Stream:
    """An EventSource: events as (name, data, when)."""

    def __init__(self, daemon, user, event, path="/api/queue/stream/{}", query=""):
        self.connection = socket.create_connection(("127.0.0.1", daemon.port), 10)
        self.buffer = b""
        self.connection.sendall((f"GET {path.format(event)}{query} HTTP/1.1\r\nHost: x\r\n"
                                 f"Authorization: {user.headers['Authorization']}\r\n\r\n").encode())
        self.head = self._until(b"\r\n\r\n", 10).decode("latin-1")
        self.status = int(self.head.split()[1])

    def _until(self, mark, timeout):
        deadline = time.monotonic() + timeout
        while mark not in self.buffer:
            self.connection.settimeout(max(0.001, deadline - time.monotonic()))
            data = self.connection.recv(65536)
            if not data:
                raise EOFError(self.buffer)
            self.buffer += data
        part, self.buffer = self.buffer.split(mark, 1)
        return part

    def next(self, timeout=10):
        lines = self._until(b"\n\n", timeout).decode().split("\n")
        fields = dict(line.split(": ", 1) for line in lines if ": " in line)
        return fields["event"], json.loads(fields["data"]), time.time()

    def until(self, name, timeout=10):
        """The first event of that name; what came before is thrown away."""
        deadline = time.monotonic() + timeout
        while True:
            event = self.next(max(0.001, deadline - time.monotonic()))
            if event[0] == name:
                return event

    def ended(self, timeout=10):
        try:
            self.connection.settimeout(timeout)
            while self.connection.recv(65536):
                pass
        except ConnectionResetError:
            pass
        return True

    def close(self):
        self.connection.close()
