"""The harness itself: what other tests lean on must hold."""
import os
import signal
import subprocess
import sys

import psycopg2
import pytest
import redis
import requests
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from harness import process
from harness.daemon import Daemon
from harness.stack import ROOT


def test_a_fresh_database_is_empty_and_owned_by_a_common_role(pg_url):
    with psycopg2.connect(pg_url) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace")
        assert cursor.fetchone() == (0,)
        cursor.execute("SELECT rolsuper FROM pg_roles WHERE rolname = current_user")
        assert cursor.fetchone() == (False,)
        cursor.execute("SHOW fsync")
        assert cursor.fetchone() == ("on",)


def test_committed_rows_survive_kill_9_of_postgresql(pg_url, servers):
    connection = psycopg2.connect(pg_url)
    with connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE kept (n int); INSERT INTO kept VALUES (7)")
    servers.act("restart", "pg")
    with psycopg2.connect(pg_url) as again, again.cursor() as cursor:
        cursor.execute("SELECT n FROM kept")
        assert cursor.fetchone() == (7,)


def test_a_frozen_redis_keeps_its_connections_and_answers_nothing(redis_url, servers):
    client = redis.Redis.from_url(redis_url, socket_timeout=0.3)
    client.set("a", "1")
    servers.act("freeze", "redis")
    with pytest.raises(redis.TimeoutError):
        client.get("a")
    servers.act("thaw", "redis")
    assert client.get("a") == b"1"


def test_a_server_that_is_down_is_up_again_for_the_next_user(servers):
    servers.act("kill", "redis")
    assert redis.Redis.from_url(servers.redis.url).ping()


def test_kafka_keeps_messages_through_kill_9(kafka, topic_prefix, servers):
    topic = topic_prefix + "kept"
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.create_topics([NewTopic(topic, 1)])[topic].result(20)
    producer = Producer({"bootstrap.servers": kafka, "acks": "all"})
    producer.produce(topic, b"hello")
    assert producer.flush(20) == 0
    servers.act("restart", "kafka")
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    try:
        message = consumer.poll(30)
        assert message is not None and message.value() == b"hello"
    finally:
        consumer.close()


def test_control_says_what_it_cannot_do(servers):
    env = {**os.environ, **servers.environment([])}
    done = subprocess.run([env["URR_TEST_CONTROL"], "melt", "redis"], env=env, capture_output=True, text=True)
    assert done.returncode == 1
    assert "melt" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_server_outlives_its_run(number):
    run = subprocess.Popen([os.path.join(ROOT, "tests/harness/with"), "redis", "pg", "--", "sleep", "60"],
                           start_new_session=True)
    process.eventually(lambda: "sleep" in map(command, process.descendants(run.pid)), 60)
    children = {pid: command(pid) for pid in process.descendants(run.pid)}
    assert {"redis-server", "postgres"} <= set(children.values())
    os.kill(run.pid, number)
    run.wait(30)
    servers = [pid for pid, name in children.items() if name != "sleep"]
    process.eventually(lambda: all(process.gone(pid) for pid in servers), 15)
    for pid in set(children) - set(servers):
        if not process.gone(pid):
            os.kill(pid, signal.SIGKILL)


def command(pid):
    try:
        with open(f"/proc/{pid}/comm") as comm:
            return comm.read().strip()
    except OSError:
        return ""


@pytest.mark.parametrize("output, ok, expected", [
    ("[==========] Running 2 test(s).\n[ RUN      ] a\n[       OK ] a\n[ RUN      ] b\n[       OK ] b\n"
     "[==========] 2 test(s) run.\n[  PASSED  ] 2 test(s).\n", True, (2, 0)),
    ("[==========] Running 2 test(s).\n[ RUN      ] a\n[       OK ] a\n[ RUN      ] b\n[  FAILED  ] b\n"
     "[==========] 2 test(s) run.\n[  PASSED  ] 1 test(s).\n[  FAILED  ] 1 test(s), listed below:\n", False,
     (1, 1)),
    ("[==========] Running 2 test(s).\n[ RUN      ] a\n", False, (0, 1)),
    ("", True, (0, 1)),
])
def test_cmocka_output_is_counted(output, ok, expected):
    sys.path.insert(0, os.path.join(ROOT, "tests"))
    from harness import counts
    assert counts.cmocka(output, ok) == expected


FAKE_DAEMON = """#!/usr/bin/python3
import http.server, os, signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
class Health(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/report":
            print("==1==ERROR: AddressSanitizer: planted", flush=True)
        self.send_response(200)
        self.end_headers()
    log_message = lambda *_: None
http.server.HTTPServer(("127.0.0.1", int(os.environ["FAKE_PORT"])), Health).serve_forever()
"""


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """A program that behaves like a daemon of ours, in a build of its own."""
    (tmp_path / "bin").mkdir()
    path = tmp_path / "bin" / "urr-fake"
    path.write_text(FAKE_DAEMON)
    path.chmod(0o755)
    monkeypatch.setenv("URR_BUILD", str(tmp_path))


def test_a_daemon_can_be_killed_frozen_and_restarted(fake, daemon):
    one = daemon("urr-fake", port_setting="FAKE_PORT")
    one.freeze()
    with pytest.raises(requests.RequestException):
        one.get("/healthz", timeout=0.3)
    one.thaw()
    one.wait("/healthz", 200)
    first = one.pid
    one.restart()
    assert one.pid != first and process.gone(first)
    assert one.stop() == 0


def test_a_sanitizer_report_in_a_log_is_found(fake, tmp_path):
    one = Daemon("urr-fake", {}, str(tmp_path / "log"), "FAKE_PORT").start()
    try:
        assert one.sanitizer_report() is None
        one.get("/report")
        assert "planted" in one.sanitizer_report()
    finally:
        one.kill()


def test_a_daemon_that_ends_at_its_start_is_told_at_once(fake, daemon):
    with pytest.raises(RuntimeError, match="ended with 1"):
        daemon("urr-fake", {}, port_setting="NOT_THE_SETTING_IT_READS")
