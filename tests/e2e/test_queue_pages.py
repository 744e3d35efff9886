"""The waiting room's pages in Chromium, with a real urr-queue and Redis: one browser for all cases."""
import json
import os
import re
import subprocess
import sys

import pytest

from harness.daemon import Daemon
from harness.stack import ROOT, program

sys.path.insert(0, os.path.join(ROOT, "tests/integration"))
import queue_kit  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPT = os.path.join(HERE, "queue_pages.mjs")
CASES = [*re.findall(r"^  async (\w+)\(event\)", open(SCRIPT).read(), re.M), "calm_while_redis_is_away",
         "no_page_breaks_its_policy"]


@pytest.fixture(scope="module")
def results(stack_of_the_run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    shots = os.path.join(ROOT, "build/log/pages")
    os.makedirs(shots, exist_ok=True)
    daemon = Daemon("urr-queue", queue_kit.settings(stack_of_the_run.redis.url, QUEUE_ADMISSION_INTERVAL_MS="200"),
                    str(folder / "urr-queue.log"), "QUEUE_PORT").start()
    try:
        done = subprocess.run(["node", SCRIPT], capture_output=True, text=True, timeout=150, stdin=subprocess.DEVNULL,
                              env={**os.environ, **stack_of_the_run.environment(["redis"]), "URR_URL": daemon.url,
                                   "URR_URRCTL": program("urrctl"), "JWT_SECRET": queue_kit.USER_SECRET,
                                   "URR_SHOTS": shots})
        assert done.returncode == 0, done.stdout + done.stderr + daemon.tail()
        assert not daemon.sanitizer_report(), daemon.sanitizer_report()
    finally:
        daemon.kill()
    return {each["name"]: each for each in map(json.loads, done.stdout.splitlines())}


@pytest.mark.parametrize("name", CASES)
def test_pages(results, name):
    error = results[name]["error"]
    assert not error, error
