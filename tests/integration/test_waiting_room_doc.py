"""The calls in docs/waiting-room.md, run as they stand there."""
import json
import os
import re
import subprocess

import line_kit as kit
from harness.stack import ROOT
from line_kit import Operator, User


def test_the_examples_run_as_they_stand(daemon, redis_url):
    queue = daemon("urr-queue", kit.settings(redis_url), port_setting="QUEUE_PORT")
    Operator(redis_url).register("ev1", threshold=1, title="Show", artist="IU")
    User("first", queue).check("ev1")
    with open(os.path.join(ROOT, "docs/waiting-room.md"), encoding="utf-8") as page:
        blocks = re.findall(r"```sh\n(.*?)```", page.read(), re.S)
    env = {"PATH": os.environ["PATH"], "QUEUE": queue.url, "EVENT": "ev1", "USER_TOKEN": kit.token("ann"), "PLACE": ""}
    told = []
    for block in blocks:
        ran = subprocess.run(["bash", "-ec", block], env=env, stdin=subprocess.DEVNULL, capture_output=True,
                             text=True, timeout=30, check=False)
        assert ran.returncode == 0, (block, ran.stdout, ran.stderr)
        told.append(ran.stdout)
        place = re.search(r'"place":"([^"]+)"', ran.stdout)
        if place:
            env["PLACE"] = place[1]
    join, status, stream, last = told
    promised = blocks[0].split("\n", 1)[1]
    assert set(re.findall(r'"(\w+)":', promised)) == set(re.findall(r'"(\w+)":', join))
    assert json.loads(join)["position"] == json.loads(status)["position"] == 1
    assert stream.startswith("event: position\ndata: {")
    assert last == '{"status":"queued","queued":true}{"message":"You have left the queue."}'
