"""What every daemon does the same way, seen from outside; urr-hello has nothing else in it."""
import glob
import json
import os
import re
import signal
import socket
import subprocess

import pytest

from harness.stack import program

SECRET = "never-to-be-seen-0123456789abcdefghijklmnop"


def run(name, *arguments, **settings):
    """The finished process, both outputs in .stdout."""
    env = {"PATH": os.environ["PATH"], **settings}
    return subprocess.run([program(name), *arguments], env=env, text=True, timeout=20,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def daemons():
    """Every built program that describes its settings: the daemons."""
    folder = os.path.dirname(program("urr-hello"))
    found = []
    for path in sorted(glob.glob(f"{folder}/urr-*")):
        name = os.path.basename(path)
        told = run(name, "--describe", "config")
        if told.returncode == 0 and told.stdout.startswith("## "):
            found.append(name)
    return found


def rows(name):
    """(setting, value, default) of each row of --describe config."""
    told = run(name, "--describe", "config").stdout
    return re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) ?\| ", told, re.M)


def good_settings(name):
    """A value for each setting that has no default, as its bounds want it; secrets all differ."""
    settings = {}
    for number, (setting, value, default) in enumerate(rows(name)):
        if "secret" in value:
            settings[setting] = SECRET + str(number)
        elif default == "required":
            scheme = re.search(r"URL \((\w+)", value)
            settings[setting] = f"{scheme[1]}://me:{SECRET}@127.0.0.1:1/x" if scheme else "127.0.0.1:1"
    return settings


def test_help_names_every_setting_and_the_exit_codes():
    told = run("urr-hello", "--help")
    assert told.returncode == 0
    for word in ("GREETING", "HTTP_PORT", "WORKERS", "DRAIN_SECONDS", "--check-config", "Exit codes"):
        assert word in told.stdout
    assert re.fullmatch(r"urr-hello \d+\.\d+\.\d+\n", run("urr-hello", "--version").stdout)


@pytest.mark.parametrize("setting, value, right", [
    ("HTTP_PORT", "99999", "0..65535"),
    ("HTTP_PORT", "80x", "0..65535"),
    ("LOG_LEVEL", "loud", "debug|info|warn|error"),
    ("ACCESS_LOG", "perhaps", "true"),
    ("WORKERS", "0", "1..64"),
    ("GREETING", "x" * 101, "100"),
])
def test_a_bad_setting_is_refused_with_its_name_and_what_would_be_right(setting, value, right):
    for arguments in (("--check-config",), ()):
        told = run("urr-hello", *arguments, **{setting: value})
        assert told.returncode == 2
        assert setting in told.stdout and right in told.stdout


def test_a_file_gives_settings_and_the_environment_wins(tmp_path):
    file = tmp_path / "hello.env"
    file.write_text("# both\nGREETING='From the file'\nHTTP_PORT=1234\nSTATS_DATABASE_URL=of-another-daemon\n")
    told = run("urr-hello", "--check-config", "--config", str(file), HTTP_PORT="4321")
    assert told.returncode == 0, told.stdout
    assert "now: From the file" in told.stdout and "now: 4321" in told.stdout
    file.write_text("GREETNG=oops\n")
    told = run("urr-hello", "--check-config", "--config", str(file))
    assert told.returncode == 2
    assert "GREETNG" in told.stdout and "did you mean GREETING?" in told.stdout


def test_no_daemon_prints_a_secret_or_a_password():
    seen = 0
    for name in daemons():
        settings = good_settings(name)
        told = run(name, "--check-config", **settings)
        assert told.returncode == 0, f"{name}: {told.stdout}"
        assert SECRET not in told.stdout, name
        for setting, value, _ in rows(name):
            if "secret" not in value:
                continue
            told = run(name, "--check-config", **{**settings, setting: "too-short-a-secret"})
            assert told.returncode == 2 and setting in told.stdout, f"{name}: {told.stdout}"
            assert "too-short-a-secret" not in told.stdout
        seen += SECRET in "".join(settings.values())
    assert seen, "no daemon with a secret was found"


def test_health_readiness_and_metrics_are_served(daemon):
    hello = daemon("urr-hello")
    assert hello.get("/health").json()["status"] == "ok"
    assert hello.get("/healthz").status_code == 200
    assert hello.get("/readyz").json() == {"status": "ready", "conditions": []}
    assert hello.get("/hello/you").json() == {"greeting": "Hello", "name": "you"}
    answer = hello.get("/metrics")
    assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert 'urr_build_info{daemon="urr-hello",version="' in answer.text
    named = set(re.findall(r"^# TYPE (\S+)", answer.text, re.M))
    assert named == set(re.findall(r"^# HELP (\S+) \S", answer.text, re.M))
    described = run("urr-hello", "--describe", "metrics").stdout
    assert not [each for each in named if f"`{each}`" not in described]


def half_a_request(hello):
    client = socket.create_connection(("127.0.0.1", hello.port), timeout=10)
    client.sendall(b"GET /hello/late HTTP/1.1\r\nHost: a\r\n")
    return client


def refuses_connections(hello):
    try:
        socket.create_connection(("127.0.0.1", hello.port), timeout=1).close()
        return False
    except ConnectionError:
        return True


def under_way(hello):
    """The server has read something: a connection more than the one that asks."""
    return hello.metric("urr_http_connections") >= 2


def test_sigterm_finishes_the_request_under_way_and_exits_0(daemon, eventually):
    hello = daemon("urr-hello", {"WORKERS": 2})
    client = half_a_request(hello)
    eventually(lambda: under_way(hello))
    hello.child.send_signal(signal.SIGTERM)
    eventually(lambda: refuses_connections(hello))
    client.sendall(b"\r\n")
    answer = b""
    while chunk := client.recv(4096):
        answer += chunk
    assert answer.startswith(b"HTTP/1.1 200 ") and b'"late"' in answer
    assert b"connection: close" in answer.lower()
    assert hello.child.wait(10) == 0


def test_a_client_that_never_finishes_does_not_stop_the_stop(daemon, eventually):
    hello = daemon("urr-hello", {"DRAIN_SECONDS": 1})
    client = half_a_request(hello)
    eventually(lambda: under_way(hello))
    assert hello.stop(timeout=5) == 0
    client.close()


def test_a_second_signal_ends_it_at_once(daemon, eventually):
    hello = daemon("urr-hello", {"DRAIN_SECONDS": 600})
    client = half_a_request(hello)
    eventually(lambda: under_way(hello))
    hello.child.send_signal(signal.SIGTERM)
    eventually(lambda: refuses_connections(hello))
    hello.child.send_signal(signal.SIGINT)
    assert hello.child.wait(5) == 1
    client.close()


def test_a_second_instance_on_the_port_is_refused_and_the_first_goes_on(daemon):
    hello = daemon("urr-hello")
    told = run("urr-hello", HTTP_PORT=str(hello.port))
    assert told.returncode == 1
    assert f"port {hello.port} of 127.0.0.1 is in use" in told.stdout
    assert hello.get("/healthz").status_code == 200


def test_an_idle_daemon_stays_below_32_mb(daemon):
    hello = daemon("urr-hello", {"WORKERS": 8})
    for _ in range(50):
        assert hello.get("/hello/you").status_code == 200
    instrumented = re.search("asan|tsan", os.environ.get("URR_BUILD", ""))  # shadow memory counts too
    assert hello.rss_kb() < (256 if instrumented else 32) * 1024


def test_json_log_lines_parse_and_carry_the_request_id(daemon, eventually):
    hello = daemon("urr-hello", {"LOG_FORMAT": "json", "ACCESS_LOG": "true"})
    hello.get('/hello/"quoted"%0a', headers={"X-Request-Id": "request-of-the-test"})
    assert hello.stop() == 0
    lines = [json.loads(line) for line in hello.log().splitlines()]
    assert {"started", "stopping", "stopped"} <= {line["msg"] for line in lines}
    assert all(line["daemon"] == "urr-hello" and line["ts"] and line["level"] for line in lines)
    assert any("request-of-the-test" in line.values() for line in lines)


def test_a_bad_setting_is_a_json_line_too_where_json_is_asked_for():
    told = run("urr-hello", LOG_FORMAT="json", HTTP_PORT="none")
    assert told.returncode == 2
    assert "HTTP_PORT" in json.loads(told.stdout)["reason"]
