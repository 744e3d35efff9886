"""urrctl from end to end: what it prints, what it changes, and its exit codes (docs/urrctl.md)."""
import base64
import json
import os
import re
import subprocess
import time

import jwt
import psycopg2
import pytest
from confluent_kafka.admin import AdminClient

from harness.process import free_port
from harness.stack import program

OK, FAILED, USAGE, REFUSED, RETRY = range(5)
SECRET = "a test's secret: not in Base64, 32 bytes or more"
DATABASES = ("ticket", "payment", "stats")
TOPICS = ("payment-events", "reservation-events", "transfer-events", "membership-events", "payment-commands")
COMMANDS = ("consumer", "dlq", "doctor", "gaps", "lag", "migrate", "offsets", "outbox", "queue", "reconcile", "refunds",
            "replay", "saga", "stats", "token", "topics", "version")


def environment(settings):
    clean = {name: value for name, value in os.environ.items()
             if not name.endswith("_DATABASE_URL") and not name.startswith(("KAFKA_", "JWT_"))}
    return {**clean, **settings}


def urrctl(*arguments, **settings):
    """Runs it; the result has .code, .out, .err and, where the output is JSON, .json."""
    done = subprocess.run([program("urrctl"), *arguments], capture_output=True, text=True, timeout=90,
                          stdin=subprocess.DEVNULL, env=environment(settings))
    done.code, done.out, done.err = done.returncode, done.stdout, done.stderr
    if "--json" in arguments:
        assert done.err == ""
        done.json = json.loads(done.out)
    return done


def query(url, sql):
    connection = psycopg2.connect(url)
    connection.autocommit = True
    try:
        with connection.cursor() as cursor:
            cursor.execute(sql)
            return cursor.fetchall() if cursor.description else None
    finally:
        connection.close()


# --- the program itself


def test_help_names_every_command_and_exit_code():
    done = urrctl("--help")
    assert done.code == OK
    for command in COMMANDS:
        assert re.search(rf"^  {command}\b", done.out, re.M)
    assert "Exit codes: 0 " in done.out
    assert urrctl().code == USAGE


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(command):
    done = urrctl(command, "--help")
    assert done.code == OK and f"urrctl {command}" in done.out and "Example:" in done.out


@pytest.mark.parametrize("arguments", [("no-such-command",), ("version", "more"), ("migrate", "tickets"),
                                       ("topics",), ("topics", "delete"), ("token",), ("migrate", "--config"),
                                       ("token", "--user"), ("version", "--config")])
def test_wrong_use_exits_2_and_changes_nothing(arguments):
    done = urrctl(*arguments, JWT_SECRET=SECRET)
    assert done.code == USAGE and done.out == "" and done.err.startswith("urrctl: ")


def test_errors_are_json_too():
    assert urrctl("no-such-command", "--json").json["exit"] == USAGE
    done = urrctl("migrate", "ticket", "--json")
    assert done.code == USAGE and "TICKET_DATABASE_URL" in done.json["error"]


def test_version():
    number = urrctl("version", "--json").json["version"]
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", number)
    assert urrctl("version").out == f"urrctl {number}\n"


# --- migrate


@pytest.fixture
def databases(fresh_database):
    """Settings that name three empty databases."""
    return {f"{name.upper()}_DATABASE_URL": fresh_database() for name in DATABASES}


def test_migrate_brings_empty_databases_up_to_date_once(databases):
    pending = urrctl("migrate", "all", "--dry-run", "--json", **databases)
    assert pending.code == OK and pending.json
    assert {step["state"] for step in pending.json} == {"pending"}
    assert {step["database"] for step in pending.json} == set(DATABASES)

    first = urrctl("migrate", "all", "--json", **databases)
    assert first.code == OK
    assert [(s["database"], s["file"]) for s in first.json] == [(s["database"], s["file"]) for s in pending.json]
    assert {step["state"] for step in first.json} == {"applied"}
    for name in DATABASES:
        files = [s["file"] for s in first.json if s["database"] == name and "/functions/" not in s["file"]]
        recorded = query(databases[f"{name.upper()}_DATABASE_URL"],
                         "SELECT set_name || '/' || name FROM schema_migrations ORDER BY 1")
        assert sorted(files) == [row[0] for row in recorded] and files

    again = urrctl("migrate", "--json", **databases)
    assert again.code == OK and again.json == []
    assert re.fullmatch(r"0 applied, 0 pending, \d+ already there\n", urrctl("migrate", **databases).out)


def test_migrate_by_many_at_once_applies_each_file_once(databases):
    command = [program("urrctl"), "migrate", "ticket", "--json"]
    runs = [subprocess.Popen(command, env=environment(databases), stdout=subprocess.PIPE, text=True)
            for _ in range(3)]
    outputs = [json.loads(run.communicate(timeout=90)[0]) for run in runs]
    assert [run.returncode for run in runs] == [OK] * 3
    applied = [step["file"] for output in outputs for step in output]
    assert len(applied) == len(set(applied)) > 0


def test_migrate_needs_only_the_database_it_is_told(databases):
    url = databases["PAYMENT_DATABASE_URL"]
    done = urrctl("migrate", "payment", PAYMENT_DATABASE_URL=url)
    assert done.code == OK and re.search(r"^payment: applied payment/001_\w+\.sql$", done.out, re.M)
    assert "schema_migrations" not in str(query(databases["TICKET_DATABASE_URL"], "SELECT tablename FROM pg_tables"))
    ticket = databases["TICKET_DATABASE_URL"]
    missing = urrctl("migrate", "all", TICKET_DATABASE_URL=ticket, PAYMENT_DATABASE_URL=url)
    assert missing.code == USAGE and "STATS_DATABASE_URL" in missing.err and missing.out == ""
    assert "schema_migrations" not in str(query(ticket, "SELECT tablename FROM pg_tables"))


def test_migrate_refuses_rewritten_history(ticket_db):
    query(ticket_db, "UPDATE schema_migrations SET checksum = repeat('0', 64) WHERE name = '002_reservations.sql'")
    done = urrctl("migrate", "ticket", TICKET_DATABASE_URL=ticket_db)
    assert done.code == REFUSED and "ticket/002_reservations.sql" in done.err


def test_migrate_refuses_a_database_newer_than_itself(ticket_db):
    query(ticket_db, "INSERT INTO schema_migrations VALUES ('ticket', 999, '999_future.sql', 'x')")
    done = urrctl("migrate", "ticket", TICKET_DATABASE_URL=ticket_db)
    assert done.code == REFUSED and "999_future.sql" in done.err


def test_migrate_says_whether_trying_again_may_help(pg_url):
    away = f"postgresql://urr:hidden-word@127.0.0.1:{free_port()}/ticket"
    done = urrctl("migrate", "ticket", TICKET_DATABASE_URL=away)
    assert done.code == RETRY and "hidden-word" not in done.err
    done = urrctl("migrate", "ticket", TICKET_DATABASE_URL=pg_url + "_no_such")
    assert done.code == FAILED and "_no_such" in done.err
    done = urrctl("migrate", "ticket", TICKET_DATABASE_URL="mysql://127.0.0.1/x")
    assert done.code == USAGE and "TICKET_DATABASE_URL" in done.err


def test_one_file_may_hold_the_settings_of_everything(databases, tmp_path):
    file = tmp_path / "urr.env"
    file.write_text("".join(f"{name}={value}\n" for name, value in databases.items())
                    + f"JWT_SECRET=\"{SECRET}\"\n# comment\nKAFKA_BROKERS=127.0.0.1:1\nREDIS_URL=redis://127.0.0.1:1/0\n")
    assert urrctl("migrate", "payment", "--config", str(file)).code == OK
    assert urrctl("token", "--user", "u1", "--config", str(file)).code == OK
    file.write_text("JWT_SECRIT=x\n")
    done = urrctl("token", "--user", "u1", "--config", str(file))
    assert done.code == USAGE and "JWT_SECRIT" in done.err


# --- topics


def test_topics_create_makes_what_is_missing_and_leaves_the_rest(kafka):
    first = urrctl("topics", "create", "--json", KAFKA_BROKERS=kafka)
    assert first.code == OK
    names = {entry["topic"] for entry in first.json}
    assert set(TOPICS) <= names and len(names) == 2 * len(TOPICS)
    assert {entry["state"] for entry in first.json} <= {"created", "exists"}

    admin = AdminClient({"bootstrap.servers": kafka})
    there = admin.list_topics(timeout=10).topics
    for entry in first.json:
        assert len(there[entry["topic"]].partitions) == entry["partitions"]

    again = urrctl("topics", "create", "--json", KAFKA_BROKERS=kafka)
    assert again.code == OK and {entry["state"] for entry in again.json} == {"exists"}
    assert urrctl("topics", "create", KAFKA_BROKERS=kafka).out.count("exists") == len(names)


def test_topics_create_names_topics_that_differ(kafka):
    assert urrctl("topics", "create", KAFKA_BROKERS=kafka).code == OK
    done = urrctl("topics", "create", "--json", KAFKA_BROKERS=kafka, KAFKA_TOPIC_PARTITIONS="7")
    assert done.code == OK
    differing = {entry["topic"] for entry in done.json if entry["state"] == "differs"}
    assert set(TOPICS) == differing


def test_topics_create_without_a_broker_may_be_tried_again():
    broker = f"127.0.0.1:{free_port()}"
    done = urrctl("topics", "create", KAFKA_BROKERS=broker)
    assert done.code == RETRY and done.err.startswith(f"urrctl: {broker}: ") and done.err.count("\n") == 1


# --- token


def claims(token, secret=SECRET.encode()):
    return jwt.decode(token, secret, algorithms=["HS256"])


def test_token_is_what_the_daemons_accept():
    before = int(time.time())
    done = urrctl("token", "--user", "ann", "--email", "ann@example.org", "--role", "admin", "--ttl", "15m",
                  JWT_SECRET=SECRET)
    assert done.code == OK and done.out.count("\n") == 1
    token = done.out.strip()
    assert jwt.get_unverified_header(token)["alg"] == "HS256"
    body = claims(token)
    assert body["exp"] - body["iat"] == 900 and before <= body["iat"] <= before + 5
    assert (body["userId"], body["email"], body["role"]) == ("ann", "ann@example.org", "admin")


def test_token_defaults_to_a_plain_user_for_an_hour():
    done = urrctl("token", "--user", "u-1", "--json", JWT_SECRET=SECRET)
    body = claims(done.json["token"])
    assert body["role"] == done.json["role"] == "user" and done.json["userId"] == "u-1"
    assert body["exp"] - body["iat"] == 3600 and "email" not in body
    ends = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(body["exp"]))
    assert done.json["expiresAt"] == ends


def test_token_decodes_a_secret_in_base64():
    secret = bytes(range(7, 47))
    done = urrctl("token", "--user", "u1", JWT_SECRET=base64.b64encode(secret).decode())
    assert claims(done.out.strip(), secret)["userId"] == "u1"
    with pytest.raises(jwt.InvalidSignatureError):
        claims(done.out.strip())


@pytest.mark.parametrize("arguments", [
    ("--user", "two words"), ("--user", ""), ("--user", "u" * 129), ("--role", "root"), ("--ttl", "0"),
    ("--ttl", "31d"), ("--ttl", "1x"), ("--ttl", "-5"), ("--ttl", "99999999999999999999"), ("--ttl", "1hm"),
    ("--email", "e" * 300)])
def test_token_refuses_what_a_daemon_would_not_accept(arguments):
    done = urrctl("token", "--user", "u1", *arguments, JWT_SECRET=SECRET)
    assert done.code == USAGE and done.out == ""


def test_token_refuses_a_weak_secret_and_never_prints_it():
    done = urrctl("token", "--user", "u1", JWT_SECRET="short-secret!")
    assert done.code == USAGE and "JWT_SECRET" in done.err and "short-secret" not in done.out + done.err
    done = urrctl("token", "--user", "u1")
    assert done.code == USAGE and "JWT_SECRET" in done.err
