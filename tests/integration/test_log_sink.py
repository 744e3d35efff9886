"""The admission log as files: whoever reads them knows who waits, in which order, and who is inside."""
import glob
import json
import os
import random

import pytest

from harness.process import eventually
from queue_kit import Room, bearer, open_redis, settings
from room_kit import Sets, key


class Reader:
    """Knows an event from the files alone."""

    def __init__(self, folder, event):
        self.folder, self.event = folder, event

    def lines(self):
        for path in sorted(glob.glob(f"{self.folder}/admission-*.jsonl")):
            with open(path, encoding="utf-8") as file:
                for line in file:
                    if line.endswith("\n"):
                        yield json.loads(line)

    def entries(self):
        return [line for line in self.lines() if line.get("event") == self.event]

    def state(self):
        groups = {"queue": {}, "parked": {}, "active": {}}
        into = {"join": "queue", "return": "queue", "admit": "active", "park": "parked"}
        for entry in self.entries():
            if entry["k"] in ("gap", "snapshot") or (entry["k"] == "epoch" and entry["r"] == "lost"):
                if entry["k"] != "snapshot":
                    groups = {name: {} for name in groups}
            elif entry["k"] == "part":
                words = entry["members"].split(" ")
                groups[entry["of"]].update({u: int(s) for u, s in zip(words[::2], words[1::2])})
            elif entry["k"] in ("join", "return", "admit", "park", "expire", "leave", "clear"):
                for group in groups.values():
                    group.pop(entry["u"], None)
                if entry["k"] in into:
                    groups[into[entry["k"]]][entry["u"]] = entry["s"]
        return groups


def truth(client, event):
    now = Sets.read(client, event)
    return {"queue": now.queue, "parked": now.parked, "active": now.active}


def caught_up(client, reader):
    """The last entry of the stream is in the files."""
    last = client.xrevrange(key(reader.event, "log"), count=1)[0][0]
    return lambda: any(entry["id"] == last for entry in reversed(reader.entries()))


@pytest.fixture
def folder(tmp_path):
    return str(tmp_path / "admission")


def start(daemon, url, folder, **more):
    return daemon("urr-queue", settings(url, QUEUE_LOG_DIR=folder, QUEUE_LOG_SNAPSHOT_EVERY="100",
                                        QUEUE_ADMISSION_INTERVAL_MS="100", **more), port_setting="QUEUE_PORT")


def play(room, dice, steps):
    for _ in range(steps):
        user = f"u{dice.randrange(60)}"
        dice.choice([lambda: room.join(user), lambda: room.join(user), lambda: room.join(user),
                     lambda: room.call("POST", "/api/queue/leave/{E}", bearer(user)),
                     lambda: room.admin("POST", "threshold", {"threshold": dice.randrange(1, 12)})])()


def test_the_files_say_what_redis_says_also_after_kill_9(daemon, redis_url, folder):
    client, dice = open_redis(redis_url), random.Random(7)
    both = [start(daemon, redis_url, folder) for _ in range(2)]
    room = Room(both[1], "ev-log")
    room.admin("POST", "register", {"threshold": 3})
    reader = Reader(folder, "ev-log")
    for _ in range(4):
        play(room, dice, 120)
        writer = eventually(lambda: next((d for d in both if d.metric("urr_queue_log_writer") == 1), None), 10,
                            what="one of them writes")
        writer.kill()  # in the middle of its work: the other one takes over
        room.daemon = next(each for each in both if each is not writer)
        play(room, dice, 60)
        writer.start()
        eventually(caught_up(client, reader), 15, what="the files have it all")
    room.admin("POST", "pause")  # nothing moves any more
    eventually(caught_up(client, reader), 15, what="the files have it all")
    assert reader.state() == truth(client, "ev-log")
    ids = [entry["id"] for entry in reader.entries()]
    assert len(ids) == len(set(ids)), "nothing twice"
    assert [tuple(map(int, each.split("-"))) for each in ids] == sorted(tuple(map(int, each.split("-"))) for each in ids)
    in_stream = [number for number, _ in client.xrange(key("ev-log", "log"))]
    assert set(in_stream) <= set(ids), "nothing missing"
    assert not [entry for entry in reader.entries() if entry["k"] == "gap"]
    assert {"join", "admit", "leave", "set", "snapshot", "snapshot-end"} <= {entry["k"] for entry in reader.entries()}


def test_one_process_writes_and_the_files_are_bounded(daemon, redis_url, folder):
    client = open_redis(redis_url)
    both = [start(daemon, redis_url, folder, QUEUE_LOG_FILE_MB="1", QUEUE_LOG_FILES="2") for _ in range(2)]
    eventually(lambda: sum(each.metric("urr_queue_log_writer") or 0 for each in both) == 1, 10, what="one writer")
    room = Room(both[0], "ev-big")
    room.admin("POST", "register", {"threshold": 0})
    filler = "x" * 4000
    for _ in range(3):  # entries of another writer of the stream: only their size matters here
        pipe = client.pipeline()
        for n in range(400):
            pipe.xadd(key("ev-big", "log"), {"k": "set", "u": "op", "r": filler, "at": n})
        pipe.execute()
    reader = Reader(folder, "ev-big")
    eventually(caught_up(client, reader), 20, what="the files have it all")
    names = sorted(os.listdir(folder))
    assert len(names) == 3 and names[-1] == "lock"
    assert max(os.path.getsize(os.path.join(folder, name)) for name in names) < 3 << 20


def test_entries_that_were_gone_before_they_could_be_written_are_told(daemon, redis_url, folder):
    client = open_redis(redis_url)
    one = start(daemon, redis_url, folder)
    room = Room(one, "ev-gap")
    room.admin("POST", "register", {"threshold": 1})
    room.join("a")
    reader = Reader(folder, "ev-gap")
    eventually(caught_up(client, reader), 15, what="written")
    one.kill()
    client.delete(key("ev-gap", "log"))
    client.xadd(key("ev-gap", "log"), {"k": "set", "u": "op", "r": "later"})
    one.start()
    eventually(caught_up(client, reader), 15, what="written again")
    kinds = [entry["k"] for entry in reader.entries()]
    assert kinds.count("gap") == 1 and kinds.index("gap") > kinds.index("join")
    assert one.metric("urr_queue_log_gaps_total") == 1
