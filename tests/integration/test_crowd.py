"""urr-crowd against two real urr-queues: a fair room is called fair, an unfair one is not."""
import json
import os
import subprocess
import threading
import time

import pytest
import redis
from room_kit import RULES, Instance, key

from harness.process import free_port
from harness.stack import program

OK, FAILED, USAGE, UNFAIR, TROUBLE = range(5)
E = "crowd-1"
SECRET = "a secret of the crowd's tests: 32 bytes or more"


class RealClock:
    def offset(self):
        return 0


@pytest.fixture
def rooms(daemon, redis_url):
    """Two daemons on one Redis."""
    settings = {"REDIS_URL": redis_url, "JWT_SECRET": SECRET, "WORKERS": 1, "QUEUE_CLAIM_TTL_SECONDS": 4,
                "QUEUE_ENTRY_TOKEN_SECRET": "the entry tokens' secret in these tests, long",
                "VWR_TOKEN_SECRET": "the first room's secret in these tests, long"}
    return [daemon("urr-queue", settings, port_setting="QUEUE_PORT") for _ in range(2)]


@pytest.fixture
def ctl(redis_url):
    def run(*arguments):
        done = subprocess.run([program("urrctl"), "queue", *arguments, "--json"], capture_output=True, text=True,
                              timeout=60, env={"PATH": os.environ["PATH"], "REDIS_URL": redis_url})
        return done.returncode, json.loads(done.stdout)
    return run


def crowd(rooms, *arguments, secret=SECRET):
    urls = [word for room in rooms for word in ("--url", room.url)]
    done = subprocess.run([program("urr-crowd"), "--event", E, *urls, "--json", "--poll-scale", "0.2", *arguments],
                          capture_output=True, text=True, timeout=120,
                          env={"PATH": os.environ["PATH"], "JWT_SECRET": secret})
    return done.returncode, json.loads(done.stdout) if done.stdout else None, done.stderr


def event(ctl, threshold, **settings):
    assert ctl("register", E, "--threshold", str(threshold), "--yes")[0] == OK
    pairs = {"interval": 200, "batch": 20, **settings}
    assert ctl("set", E, *(f"{name}={value}" for name, value in pairs.items()), "--yes")[0] == OK


def test_three_hundred_users_of_every_kind_are_treated_fairly(rooms, ctl):
    event(ctl, 40)
    code, report, err = crowd(rooms, "--users", "300", "--curve", "wave", "--over", "2", "--shop", "0.1-0.3",
                              "--sleepers", "5", "--sleep", "5", "--no-shows", "4", "--bots", "3", "--present", "3",
                              "--seed", "7", "--time", "60")
    assert code == OK, (report, err)
    assert report["fair"] and report["errors"] == 0 and report["unfinished"] == 0
    assert [report[name] for name in ("inversions", "overshoot", "lost", "doubles")] == [0, 0, 0, 0]
    assert report["served"] + report["noShows"] == report["arrived"] == 300
    assert report["noShows"] > 0 and report["slept"] > 0 and report["streamEvents"] > 0
    assert 0 < report["peakInside"] <= report["threshold"] == 40
    assert report["waitMs"]["count"] >= report["served"] and report["waitMs"]["p99"] >= report["waitMs"]["p50"]
    assert "arrived 300" in err
    code, audit = ctl("audit", E)
    assert code == OK and audit["fair"] and audit["complete"], audit["findings"]
    assert audit["joined"] == 300 and audit["peakInside"] <= 40


def test_the_crowd_goes_through_both_tiers_and_a_shared_token_helps_one(rooms, ctl):
    event(ctl, 40, vwrBatch=500, vwrInterval=1000)
    assert ctl("room", E, "on", "--yes")[1]["roomActive"]
    code, report, _ = crowd(rooms, "--users", "120", "--over", "1", "--shop", "0.1-0.2", "--bots", "20", "--seed", "3",
                            "--time", "60")
    assert code == OK and report["fair"], report
    assert report["tier1"] >= 120 - report["bots"] and report["bots"] > 5
    assert 0 < report["botsRefused"] < report["bots"]
    assert report["served"] == 120 - report["botsRefused"]
    assert ctl("audit", E)[1]["fair"]


def unfair(redis_url, stop, change):
    """Admission as a cheat would do it, beside daemons that are kept from admitting by the pace."""
    one = Instance(redis_url, RealClock(), dict(RULES))
    one.scripts["admit"] = one.redis.register_script(
        change(one.sources["admit"]).replace("now - last < interval", "false"))
    while not stop.wait(0.1):
        one.admit(E)


@pytest.mark.parametrize("change,found,audited", [
    (lambda text: text.replace("'ZRANGE', QUEUE, 0, 0", "'ZREVRANGE', QUEUE, 0, 0"), "inversions", "inversions"),
    (lambda text: text.replace("limit - call('ZCARD', ACTIVE)", "3"), "overshoot", "overshoots")])
def test_a_cheat_is_found(rooms, ctl, redis_url, change, found, audited):
    event(ctl, 5, interval=3_600_000, batch=2)
    one = Instance(redis_url, RealClock(), dict(RULES))
    assert change(one.sources["admit"]) != one.sources["admit"]
    one.redis.hset(key(E, "state"), "lastAdmitMs", int(time.time() * 1000))  # the daemons' own pass waits an hour
    stop = threading.Event()
    cheat = threading.Thread(target=unfair, args=(redis_url, stop, change))
    cheat.start()
    try:
        code, report, _ = crowd(rooms, "--users", "40", "--curve", "ramp", "--over", "1", "--shop", "0.4-0.6",
                                "--no-tier1", "--time", "20", "--present", "3", "--seed", "5")
    finally:
        stop.set()
        cheat.join()
    assert code == UNFAIR and not report["fair"] and report[found] > 0, report
    code, audit = ctl("audit", E)
    assert code == 3 and audit[audited] > 0


def test_a_closed_sale_ends_the_run_for_everybody(rooms, ctl):
    event(ctl, 0)
    timer = threading.Timer(1.0, ctl, ("close", E, "--reason", "Sold out", "--yes"))
    timer.start()
    code, report, _ = crowd(rooms, "--users", "40", "--curve", "burst", "--no-tier1", "--time", "30")
    timer.join()
    assert code == OK and report["closed"] == 40, report


def test_the_time_is_a_bound(rooms, ctl):
    event(ctl, 0)
    code, report, _ = crowd(rooms, "--users", "20", "--curve", "burst", "--no-tier1", "--time", "1")
    assert code == TROUBLE and report["unfinished"] == 20 and report["fair"]


def test_nobody_there_and_wrong_use_are_told_apart():
    class Nobody:
        url = f"http://127.0.0.1:{free_port()}"
    code, report, _ = crowd([Nobody], "--users", "3", "--curve", "burst", "--time", "2")
    assert code == FAILED and report["networkErrors"] > 0
    for arguments in (("--users", "0"), ("--users", "x"), ("--curve", "square"), ("--shop", "3-1"), ("--nonsense", "1"),
                      ("--bots", "60", "--sleepers", "60"), ("--time",), ("--url", "ftp://127.0.0.1:1")):
        code, _, err = crowd([], *arguments)
        assert code == USAGE and err.startswith("urr-crowd: "), arguments
    code, _, err = crowd([], "--users", "3", secret="short")
    assert code == USAGE and "JWT_SECRET" in err


def test_other_peoples_machines_are_left_alone():
    code, _, err = crowd([], "--url", "http://192.0.2.1:3007")
    assert code == USAGE and "--i-own-this-host" in err


def test_help_has_examples():
    done = subprocess.run([program("urr-crowd"), "--help"], capture_output=True, text=True, timeout=10)
    assert done.returncode == OK and "Examples:" in done.stdout and "Exit codes:" in done.stdout


def test_the_redis_of_the_run_is_empty_afterwards_of_nothing_but_the_event(rooms, ctl, redis_url):
    """The crowd touches the event it was given, and only through the API."""
    event(ctl, 50)
    assert crowd(rooms, "--users", "10", "--curve", "burst", "--no-tier1", "--shop", "0-0")[0] == OK
    names = redis.Redis.from_url(redis_url, decode_responses=True).keys("*")
    assert all(name.startswith("{%s}:" % E) or name == "queue:active-events" for name in names)
