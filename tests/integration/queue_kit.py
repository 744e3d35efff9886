"""urr-queue under test: its settings, tokens of users and operators, and calls in their names."""
import base64
import time

import jwt
import redis
import requests

from harness.daemon import Daemon
from harness.stack import Stack

USER_SECRET = base64.b64encode(b"the users' secret, at least 32 bytes").decode()
ENTRY_SECRET = "the entry tokens' secret, 32 bytes or more"
VWR_SECRET = "the first room's secret, 32 bytes or more"
INTERNAL = "the services' own token, 32 bytes or more"


def settings(url, **more):
    return {"REDIS_URL": url, "JWT_SECRET": USER_SECRET, "QUEUE_ENTRY_TOKEN_SECRET": ENTRY_SECRET,
            "VWR_TOKEN_SECRET": VWR_SECRET, "INTERNAL_API_TOKEN": INTERNAL, "WORKERS": "1", **more}


def user_token(user, role="user", secret=USER_SECRET, seconds=600, algorithm="HS256"):
    key = base64.b64decode(secret) if algorithm != "none" else None
    return jwt.encode({"userId": user, "role": role, "exp": int(time.time()) + seconds}, key, algorithm=algorithm)


def bearer(user, role="user"):
    return {"Authorization": "Bearer " + user_token(user, role)}


class Room:
    """One event on one daemon; every call says who makes it."""

    def __init__(self, daemon, event):
        self.daemon, self.event = daemon, event

    def call(self, method, path, headers=None, **options):
        return self.daemon.request(method, path.replace("{E}", self.event), headers=headers or {}, **options)

    def good(self, method, path, headers=None, **options):
        answer = self.call(method, path, headers, **options)
        assert answer.status_code == 200, (path, answer.status_code, answer.text)
        return answer.json()

    def admin(self, method, what, json=None, **options):
        return self.good(method, f"/api/queue/admin/{what}/{{E}}", bearer("op", "admin"), json=json, **options)

    def view(self):
        return self.good("GET", "/api/queue/admin/{E}", bearer("op", "admin"))

    def vwr_admin(self, action, json=None):
        return self.good("POST", f"/api/admin/vwr/{action}/{{E}}", bearer("op", "admin"), json=json)

    def assign(self, visitor):
        return self.good("POST", "/vwr/assign/{E}", json={"userId": visitor})

    def check_number(self, request_id, visitor):
        return self.good("GET", f"/vwr/check/{{E}}/{request_id}?userId={visitor}")

    def first_room(self):
        return self.good("GET", "/vwr/status/{E}")

    def join(self, user, headers=None):
        return self.good("POST", "/api/queue/check/{E}", {**bearer(user), **(headers or {})})

    def status(self, user, headers=None):
        return self.good("GET", "/api/queue/status/{E}", {**bearer(user), **(headers or {})})


def open_redis(url):
    return redis.Redis.from_url(url, decode_responses=True)


def raw(daemon, text):
    """Bytes as they are on a connection of their own; returns the status line's code."""
    import socket
    with socket.create_connection(("127.0.0.1", daemon.port), 10) as connection:
        connection.sendall(text if isinstance(text, bytes) else text.encode())
        connection.settimeout(10)
        answer = connection.recv(65536).decode("latin-1")
    return int(answer.split(" ")[1]), answer


__all__ = ["ENTRY_SECRET", "INTERNAL", "USER_SECRET", "VWR_SECRET", "Room", "bearer", "open_redis", "raw", "requests",
           "settings", "user_token"]


def two_daemons(folder):
    """A fixture's body: (stack, [urr-queue, urr-queue]) on one Redis; the log files go to folder."""
    stack = Stack()
    both = [Daemon("urr-queue", settings(stack.redis.url), str(folder / f"{n}.log"), "QUEUE_PORT").start()
            for n in range(2)]
    yield stack, both
    for each in both:
        each.kill()
        assert not each.sanitizer_report()
    stack.close()
