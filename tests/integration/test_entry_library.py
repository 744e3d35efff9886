"""liburr-entry and the example of docs/entry-tokens.md, used as a ticket service uses them."""
import os
import re
import subprocess
import time

import jwt
import pytest

from harness.stack import ROOT, build_dir
from queue_kit import ENTRY_SECRET, Room, settings

SECRET = "the entry secret, at least 32 bytes"
OTHER = "another secret, also with 32 bytes.."


def page():
    return open(os.path.join(ROOT, "docs/entry-tokens.md"), encoding="utf-8").read()


def python_example():
    scope = {}
    exec(re.search(r"```python\n(.*?)```", page(), re.S).group(1), scope)
    return lambda token, event, user, *secrets: scope["may_buy"](token, event, user, secrets)


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    prefix = tmp_path_factory.mktemp("entry")
    subprocess.run(["cmake", "--install", build_dir(), "--component", "entry", "--prefix", str(prefix)],
                   check=True, capture_output=True)
    return prefix


def c_example(installed, kind):
    binary = installed / f"entry_check_{kind}"
    libdir = next(installed.rglob("liburr-entry.a")).parent
    flags = ["-lurr-entry", f"-Wl,-rpath,{libdir}"] if kind == "shared" else \
        ["-l:liburr-entry.a", "-ljwt", "-lcjson", "-lcrypto"]
    if "asan" in build_dir():
        flags.append("-fsanitize=address,undefined")
    subprocess.run(["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{installed}/include", "-o", str(binary),
                    os.path.join(ROOT, "examples/entry_check.c"), f"-L{libdir}", *flags], check=True)

    def may_buy(token, event, user, secret, previous=""):
        env = {**os.environ, "QUEUE_ENTRY_TOKEN_SECRET": secret, "QUEUE_ENTRY_TOKEN_SECRET_PREVIOUS": previous}
        done = subprocess.run([str(binary), event, user, token], env=env, capture_output=True, text=True, timeout=20)
        assert done.returncode in (0, 1) and not done.stderr, done.stderr
        assert token not in done.stdout or not token
        return done.returncode == 0
    return may_buy


@pytest.fixture(scope="module", params=["python", "static", "shared"])
def may_buy(request, installed):
    return python_example() if request.param == "python" else c_example(installed, request.param)


def claims(**changes):
    now = int(time.time())
    all_of_them = {"sub": "ev-1", "uid": "anna@example.com", "iat": now, "exp": now + 600, **changes}
    return {name: value for name, value in all_of_them.items() if value is not None}


def sign(secret=SECRET, algorithm="HS256", headers=None, **changes):
    return jwt.encode(claims(**changes), secret, algorithm=algorithm, headers=headers)


def test_lets_the_owner_of_a_slot_in(may_buy):
    assert may_buy(sign(), "ev-1", "anna@example.com", SECRET)


def test_honours_two_secrets_while_one_is_changed(may_buy):
    for secrets in ((SECRET, OTHER), (OTHER, SECRET)):
        assert may_buy(sign(), "ev-1", "anna@example.com", *secrets)
    assert not may_buy(sign(), "ev-1", "anna@example.com", OTHER)


def test_refuses_what_is_no_entry(may_buy):
    bad = {"another user's": sign(uid="bert"), "another event's": sign(sub="ev-2"),
           "expired": sign(exp=int(time.time()) - 1), "Tier 1": sign(tier=1), "forged": sign(OTHER),
           "none": sign(None, "none"), "HS512": sign(algorithm="HS512"), "HS384": sign(algorithm="HS384"),
           "without exp": sign(exp=None), "without sub": sign(sub=None), "without uid": sign(uid=None),
           "nothing": "", "noise": "x.y.z"}
    assert [name for name, token in bad.items() if may_buy(token, "ev-1", "anna@example.com", SECRET)] == []


def test_accepts_what_urr_queue_gives_out(may_buy, daemon, redis_url):
    one = Room(daemon("urr-queue", settings(redis_url), port_setting="QUEUE_PORT"), "ev-1")
    one.admin("POST", "register")
    token = one.join("anna@example.com")["entryToken"]
    assert may_buy(token, "ev-1", "anna@example.com", ENTRY_SECRET)
    assert not may_buy(token, "ev-1", "bert@example.com", ENTRY_SECRET)
    assert not may_buy(token, "ev-2", "anna@example.com", ENTRY_SECRET)


def test_the_page_shows_the_example_word_for_word():
    example = open(os.path.join(ROOT, "examples/entry_check.c"), encoding="utf-8").read()
    assert "```c\n" + example + "```" in page()


def test_the_libraries_show_their_own_names_only(installed):
    for path in list(installed.rglob("liburr-entry.so")) + list(installed.rglob("liburr-entry.a")):
        dynamic = ["-D"] if path.suffix == ".so" else []
        names = subprocess.run(["nm", *dynamic, "-g", "--defined-only", str(path)], check=True, capture_output=True,
                               text=True).stdout
        exported = {line.split()[-1] for line in names.splitlines() if " T " in line}
        assert {name for name in exported if not name.startswith("urr_entry_")} <= {"_init", "_fini"}, path
        assert len(exported) >= 3


def test_the_library_needs_no_broker_database_or_redis(installed):
    library = next(installed.rglob("liburr-entry.so"))
    needed = subprocess.run(["readelf", "-d", str(library)], check=True, capture_output=True, text=True).stdout
    assert not re.search(r"NEEDED.*(rdkafka|libpq|hiredis|libevent)", needed)
