"""One URR daemon under test: started with its settings and a free port, steered, and looked into."""
import os
import signal
import subprocess

import requests

from . import process
from .stack import program

# A report of these in a daemon's log fails the test, whatever else it proved.
SANITIZER_MARKS = ("ERROR: AddressSanitizer", "ERROR: LeakSanitizer", "WARNING: ThreadSanitizer",
                   "runtime error:")


class Daemon:
    """`settings` are environment variables; nothing of the caller's environment but PATH, HOME and the
    sanitizers' options gets through, so that a developer's shell cannot change a test."""

    def __init__(self, name, settings, log, port_setting="HTTP_PORT", arguments=()):
        self.name = name
        self.log_path = log
        self.port = process.free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.settings = {**settings, port_setting: str(self.port)}
        self.child = None
        self._path = program(name)
        self._arguments = list(arguments)
        if not self._path:
            raise RuntimeError(f"{name} is not built")

    def start(self, ready="/readyz", timeout=30):
        """Waits until `ready` answers 200; None: until the process runs. A daemon that ends meanwhile
        is a failure at once."""
        kept = ("PATH", "HOME", "LANG", "ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS", "LSAN_OPTIONS")
        env = {name: os.environ[name] for name in kept if name in os.environ}
        env.update({name: str(value) for name, value in self.settings.items()})
        command = process.privileges(None) + [self._path] + self._arguments
        self.child = process.spawn(command, self.log_path, env=env)
        if ready:
            self.wait(ready, 200, timeout)
        return self

    def wait(self, path, status, timeout=30):
        """Until GET path answers that status; returns the response."""
        def answered():
            if self.child.poll() is not None:
                raise RuntimeError(f"{self.name} ended with {self.child.returncode}:\n{self.tail()}")
            try:
                response = self.get(path, timeout=2)
            except requests.RequestException:
                return None
            # In a tuple: a response of 400 and above is false by itself.
            return (response,) if response.status_code == status else None
        return process.eventually(answered, timeout, what=f"{self.name} {path} → {status}")[0]

    def get(self, path, **options):
        return self.request("GET", path, **options)

    def request(self, method, path, timeout=10, **options):
        return requests.request(method, self.url + path, timeout=timeout, **options)

    @property
    def running(self):
        return self.child is not None and self.child.poll() is None

    @property
    def pid(self):
        return self.child.pid

    def kill(self):
        """kill -9."""
        if self.running:
            process.kill_tree(self.pid)
            self.child.wait()

    def freeze(self):
        self.child.send_signal(signal.SIGSTOP)

    def thaw(self):
        self.child.send_signal(signal.SIGCONT)

    def stop(self, timeout=30):
        """SIGTERM, then the exit code."""
        self.child.send_signal(signal.SIGTERM)
        try:
            return self.child.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} does not stop within {timeout} s") from None

    def restart(self, ready="/readyz"):
        self.kill()
        return self.start(ready)

    def rss_kb(self):
        with open(f"/proc/{self.pid}/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmRSS:"))

    def log(self):
        return process.tail(self.log_path, 1_000_000)

    def tail(self):
        return process.tail(self.log_path, 60)

    def metric(self, line_start):
        """The value of the first sample of /metrics that starts so; None when there is none."""
        for line in self.get("/metrics").text.splitlines():
            if line.startswith(line_start):
                return float(line.rsplit(" ", 1)[1])
        return None

    def sanitizer_report(self):
        text = self.log()
        at = min((text.find(mark) for mark in SANITIZER_MARKS if mark in text), default=-1)
        return text[at:] if at >= 0 else None
