"""urrctl queue: what it shows and changes in a real Redis, and an audit that finds what was planted."""
import json
import os
import pty
import subprocess

import pytest
import redis
from room_kit import Clock, Instance, Shown, key

from harness.process import free_port
from harness.stack import program

OK, FAILED, USAGE, REFUSED, RETRY = range(5)
E = "ev-1"
RULES = {"threshold": 3, "activeTtl": 600_000, "idle": 9_500, "claimTtl": 6_500, "seenTtl": 600_000,
         "batch": 2, "interval": 500, "restore": 30_000, "maxLength": 1_000_000, "maxWait": 0,
         "clean": 30_000, "vwrBatch": 500, "vwrInterval": 10_000, "logEvery": 10_000}


@pytest.fixture
def queue(redis_url):
    """queue("show", E): runs urrctl queue; the result has .code, .out, .err and .json."""
    def run(*arguments, url=redis_url):
        done = subprocess.run([program("urrctl"), "queue", *arguments], capture_output=True, text=True,
                              timeout=60, stdin=subprocess.DEVNULL,
                              env={"PATH": os.environ["PATH"], "REDIS_URL": url, "QUEUE_THRESHOLD": "3"})
        done.code, done.out, done.err = done.returncode, done.stdout, done.stderr
        if "--json" in arguments:
            assert done.err == ""
            done.json = json.loads(done.out)
        return done
    return run


@pytest.fixture
def client(redis_url):
    return redis.Redis.from_url(redis_url, decode_responses=True)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def one(redis_url, clock):
    return Instance(redis_url, clock, dict(RULES))


def busy(one, clock, users=40, log_every=None):
    """A day's work in short: joins, admissions, leaves, a parked user who comes back."""
    if log_every:
        one.rules["logEvery"] = log_every
    for i in range(users):
        one.join(E, f"u{i}")
    for step in range(12):
        clock.move(1)
        one.admit(E)
        one.leave(E, f"u{2 * step}")
        one.leave(E, f"u{2 * step + 1}")
    for _ in range(12):  # the others have been silent: parked at their turn
        clock.move(1)
        for i in range(users - 4, users):
            one.poll(E, f"u{i}")
        one.admit(E)
    one.poll(E, "u30")


def plant(client, kind, user, score, reason="", active=0, threshold=3, at=1_800_000_000_000):
    client.xadd(key(E, "log"), {"k": kind, "u": user, "s": score, "r": reason, "a": active, "th": threshold,
                                "at": at})


# --- looking and changing


def test_an_event_is_registered_shown_and_listed(queue, client):
    done = queue("register", E, "--title", "One Night", "--artist", "IU", "--threshold", "50", "--yes")
    assert done.code == OK and "threshold: 0 -> 50" in done.out and "inside      0 of 50" in done.out
    shown = queue("show", E, "--json").json
    assert (shown["title"], shown["artist"], shown["threshold"], shown["registered"], shown["state"]) == (
        "One Night", "IU", 50, True, "open")
    listed = queue("events", "--json").json
    assert [each["eventId"] for each in listed] == [E]
    assert E in queue("events").out
    assert client.hget(key(E, "settings"), "registered") == "1"


def test_each_change_takes_effect_and_is_in_the_log(queue, client):
    queue("register", E, "--yes")
    assert queue("threshold", E, "7", "--yes", "--json").json["threshold"] == 7
    assert queue("threshold", E, "default", "--yes", "--json").json["threshold"] == 3
    assert queue("pause", E, "--yes", "--json").json["state"] == "paused"
    assert queue("resume", E, "--yes", "--json").json["state"] == "open"
    closed = queue("close", E, "--reason", "Sold out, sorry", "--yes", "--json").json
    assert (closed["state"], closed["closedReason"]) == ("closed", "Sold out, sorry")
    assert queue("open", E, "--yes", "--json").json["state"] == "open"
    assert queue("set", E, "batch=5", "idle=1000", "--yes").code == OK
    assert client.hmget(key(E, "settings"), "batch", "idle") == ["5", "1000"]
    assert queue("room", E, "on", "--yes", "--json").json["roomActive"] is True
    assert queue("room", E, "advance", "10", "--yes").code == OK
    assert queue("room", E, "off", "--yes", "--json").json["roomActive"] is False
    assert queue("register", E, "--opens-at", "2030-01-01T00:00:00Z", "--yes",
                 "--json").json["opensAtMs"] == 1893456000000
    entries = [entry for _, entry in client.xrange(key(E, "log")) if entry["k"] in ("set", "room")]
    assert all(entry["u"].startswith("urrctl:") for entry in entries)
    assert {"threshold=7", "paused=1", "closed=1", "batch=5"} <= {entry["r"] for entry in entries}


def test_clear_sends_everybody_away(queue, one):
    for i in range(1200):
        one.join(E, f"u{i}")
    done = queue("clear", E, "--yes")
    assert done.code == OK and "1200 sent away" in done.out
    shown = queue("show", E, "--json").json
    assert (shown["queueSize"], shown["currentUsers"], shown["parked"]) == (0, 0, 0)


def test_a_dry_run_and_an_unanswered_question_change_nothing(queue, client):
    queue("register", E, "--yes")
    before = client.xlen(key(E, "log"))
    done = queue("threshold", E, "9", "--dry-run")
    assert done.code == OK and "threshold: 3 -> 9" in done.out and "nothing was changed" in done.out
    assert queue("threshold", E, "9", "--dry-run", "--json").json == {"eventId": E, "dryRun": True}
    done = queue("threshold", E, "9")
    assert done.code == USAGE and "nobody to ask" in done.err
    assert queue("register", "ev-2", "--dry-run").code == OK
    assert client.get(key(E, "threshold")) is None and client.xlen(key(E, "log")) == before
    assert not client.exists(key("ev-2", "state"))


@pytest.mark.parametrize("answer,code,threshold", [(b"y\n", OK, "9"), (b"n\n", REFUSED, None)])
def test_a_terminal_is_asked(queue, client, redis_url, answer, code, threshold):
    queue("register", E, "--yes")
    master, slave = pty.openpty()
    child = subprocess.Popen([program("urrctl"), "queue", "threshold", E, "9"], stdin=slave, stderr=slave,
                             stdout=subprocess.PIPE, env={"PATH": os.environ["PATH"], "REDIS_URL": redis_url})
    os.close(slave)
    os.write(master, answer)
    child.communicate(timeout=30)
    os.close(master)
    assert child.returncode == code
    assert client.get(key(E, "threshold")) == threshold


@pytest.mark.parametrize("arguments", [
    (), ("nonsense",), ("show",), ("show", "a{b"), ("threshold", E), ("threshold", E, "-1", "--yes"),
    ("threshold", E, "1", "2", "--yes"), ("set", E, "nonsense=1", "--yes"), ("set", E, "batch", "--yes"),
    ("room", E, "sideways", "--yes"), ("pause",), ("close", E, "--reason"), ("register", E, "--colour", "red"),
    ("register", E, "--opens-at", "tomorrow", "--yes"), ("audit",), ("audit", E, "--file"),
    ("audit", E, "--file", "/no/such/file"), ("events", "more")])
def test_wrong_use_exits_2(queue, one, arguments):
    one.join(E, "u1")
    done = queue(*arguments)
    assert done.code == USAGE and done.out == "" and done.err.startswith("urrctl: ")


def test_an_unknown_event_is_refused_and_not_made(queue, client):
    for arguments in (("show", "ev-9"), ("pause", "ev-9", "--yes"), ("audit", "ev-9")):
        done = queue(*arguments)
        assert done.code == REFUSED and "knows no event" in done.err
    assert client.dbsize() == 0


def test_redis_away_exits_4(queue):
    done = queue("show", E, url=f"redis://127.0.0.1:{free_port()}/0")
    assert done.code == RETRY and "Redis" in done.err


# --- the audit


@pytest.mark.parametrize("log_every", [None, 30])
def test_a_fair_day_is_fair(queue, one, clock, log_every):
    busy(one, clock, log_every=log_every)
    done = queue("audit", E, "--json")
    report = done.json
    assert done.code == OK and report["fair"] and report["complete"], report["findings"]
    assert [report[name] for name in ("inversions", "overshoots", "lost", "doubles", "mismatches")] == [0] * 5
    assert report["parked"] > 0 and report["returned"] > 0 and report["left"] > 0
    assert report["peakInside"] == 3 and report["waitMs"]["p99"] >= report["waitMs"]["p50"] > 0
    assert (report["waiting"], report["inside"]) == (one.redis.zcard(key(E, "queue")),
                                                     one.redis.zcard(key(E, "active")))
    assert "fair" in queue("audit", E).out


def test_a_planted_inversion_is_found(queue, one):
    for i in range(6):
        one.join(E, f"u{i}")
    place = int(one.redis.zscore(key(E, "queue"), "u5"))
    one.leave(E, "u0")
    plant(one.redis, "admit", "u5", place, "turn", 3)
    report = queue("audit", E, "--no-compare", "--json")
    assert report.code == REFUSED and report.json["inversions"] == 1 and not report.json["fair"]
    assert "u5" in report.json["findings"][0] and "u3" in report.json["findings"][0]


def test_an_unfair_script_is_found(queue, one):
    """The whole chain: a server that lets the last one in first."""
    for i in range(6):
        one.join(E, f"u{i}")
    one.leave(E, "u0")
    with open(os.path.join(os.path.dirname(__file__), "../../queue-core/scripts/admit.lua")) as file:
        assert "'ZRANGE', QUEUE, 0, 0" in file.read()
    unfair = one.sources["admit"].replace("'ZRANGE', QUEUE, 0, 0", "'ZREVRANGE', QUEUE, 0, 0")
    one.scripts["admit"] = one.redis.register_script(unfair)
    assert one.admit(E)[4].keys() == {"u5"}
    done = queue("audit", E)
    assert done.code == REFUSED and "NOT FAIR" in done.out and "u5" in done.out


def test_a_planted_overshoot_is_found(queue, one):
    for i in range(6):
        one.join(E, f"u{i}")
    place = int(one.redis.zscore(key(E, "queue"), "u3"))
    plant(one.redis, "admit", "u3", place, "turn", 4)
    report = queue("audit", E, "--no-compare", "--json")
    assert report.code == REFUSED and report.json["overshoots"] == 1 and report.json["inversions"] == 0


def test_somebody_lost_is_found(queue, one):
    for i in range(6):
        one.join(E, f"u{i}")
    for name in ("queue", "seen"):
        one.redis.zrem(key(E, name), "u4")
    report = queue("audit", E, "--json")
    assert report.code == REFUSED and report.json["lost"] == 1 and "u4" in report.json["findings"][0]


def test_a_stranger_and_a_missing_entry_are_found(queue, one):
    for i in range(6):
        one.join(E, f"u{i}")
    one.redis.zadd(key(E, "active"), {"ghost": 2_000_000_000_000})
    report = queue("audit", E, "--json")
    assert report.code == REFUSED and report.json["mismatches"] == 1 and "ghost" in report.json["findings"][0]


def test_a_place_given_twice_is_found(queue, one):
    for i in range(6):
        one.join(E, f"u{i}")
    place = int(one.redis.zscore(key(E, "queue"), "u3"))
    plant(one.redis, "join", "twin", place, "tier1", 3)
    one.leave(E, "u0")
    plant(one.redis, "admit", "u3", place, "turn", 3)
    report = queue("audit", E, "--no-compare", "--json")
    assert report.code == REFUSED and report.json["doubles"] == 1


def test_a_loss_of_redis_is_no_fault(queue, one, clock):
    for i in range(8):
        one.join(E, f"u{i}")
    places = {f"u{i}": int(one.redis.zscore(key(E, "queue"), f"u{i}")) for i in range(3, 8)}
    one.redis.flushall()
    for user in ("u6", "u3", "u5"):
        one.join(E, user, Shown(place=places[user]))
    clock.move(31)
    for user in ("u6", "u3", "u5"):
        one.poll(E, user)
    one.admit(E)
    report = queue("audit", E, "--json").json
    assert report["fair"] and report["losses"] == 1, report["findings"]


def test_the_file_of_the_log_is_audited_alike(queue, one, clock, tmp_path):
    busy(one, clock, log_every=30)
    entries = one.redis.xrange(key(E, "log"))
    lines = [json.dumps({"event": E, "id": number, **entry}) + "\n" for number, entry in entries]
    lines.insert(7, json.dumps({"event": "other", "id": "9-9", "k": "admit", "u": "x", "s": "1"}) + "\n")
    lines.insert(9, '{"positions":{"ev-1":"1-1"}}\n')
    whole = tmp_path / "log.jsonl"
    whole.write_text("".join(lines) + '{"id": "half a li')
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "admission-000001.jsonl").write_text("".join(lines[:20]))
    (folder / "admission-000002.jsonl").write_text("".join(lines[20:]))
    from_redis = queue("audit", E, "--json").json
    assert queue("audit", E, "--file", str(whole), "--json").json == from_redis
    assert queue("audit", E, "--file", str(folder), "--json").json == from_redis
    (folder / "admission-000003.jsonl").write_text("not JSON\n")
    assert queue("audit", E, "--file", str(folder)).code == FAILED
