"""urrctl as an operator runs it, in front of a running stack."""
import json
import os
import subprocess

from harness.stack import program

OK, FAILED, USAGE, REFUSED, RETRY, FOUND = range(6)


class Urrctl:
    """`settings` name the servers; nothing of the caller's own settings gets through."""

    def __init__(self, settings):
        kept = ("PATH", "HOME", "LANG", "ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS")
        self.env = {name: os.environ[name] for name in kept if name in os.environ}
        self.env.update(settings)

    def start(self, *words):
        return subprocess.Popen([program("urrctl"), *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, env=self.env)

    def __call__(self, *words, code=OK):
        """Runs it, checks the exit code, returns what it printed: with --json the document."""
        run = self.start(*words)
        out, err = run.communicate(timeout=90)
        assert run.returncode == code, f"urrctl {' '.join(words)}: {run.returncode}\n{out}{err}"
        if "--json" not in words:
            return out + err
        assert err == ""
        return json.loads(out)
