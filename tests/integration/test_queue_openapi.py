"""docs/openapi-queue.yaml and urr-queue say the same: every call is made, every described status comes, every answer has
the described shape and no field more, and each described field is seen at least once."""
import os
import re

import jsonschema
import pytest
import yaml

from harness.daemon import Daemon
from harness.process import eventually
from harness.stack import ROOT, Stack
from queue_kit import INTERNAL, Room, bearer, settings, user_token

with open(os.path.join(ROOT, "docs/openapi-queue.yaml"), encoding="utf-8") as file:
    OPENAPI = yaml.safe_load(file)
ADMIN, SERVICE = bearer("op", "admin"), {"Authorization": "Bearer " + INTERNAL}
FOREIGN = {"Cookie": "access_token=" + user_token("op", "admin")}  # a cookie without an Origin
BAD_BODY = {"json": {"threshold": "x", "batchSize": 0, "reason": 7, "userId": "{x}", "colour": 1}}
OPERATIONS = {each["operationId"]: (method.upper(), path, each)
              for path, methods in OPENAPI["paths"].items() for method, each in methods.items()}


def resolve(schema, strict):
    """References inlined, `nullable` as JSON Schema says it, and, for answers, no further fields."""
    if isinstance(schema, list):
        return [resolve(each, strict) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        target = OPENAPI
        for part in schema["$ref"][2:].split("/"):
            target = target[part]
        return resolve(target, strict)
    done = {name: resolve(value, strict) for name, value in schema.items() if name != "nullable"}
    if schema.get("nullable") and "type" in done:
        done["type"] = [done["type"], "null"]
    if strict and done.get("type") == "object" and "properties" in done:
        done["additionalProperties"] = False
    return done


def fields(schema, prefix=""):
    """Every field that a schema describes, as dotted names."""
    for part in schema.get("anyOf", []):
        yield from fields(part, prefix)
    if "items" in schema:
        yield from fields(schema["items"], prefix)
    for name, each in schema.get("properties", {}).items():
        yield prefix + name
        yield from fields(each, prefix + name + ".")


def present(value, prefix=""):
    if isinstance(value, list):
        for each in value:
            yield from present(each, prefix)
    if isinstance(value, dict):
        for name, each in value.items():
            yield prefix + name
            yield from present(each, prefix + name + ".")


class Book:
    """What has been asked and answered."""

    def __init__(self, daemon):
        self.daemon = daemon
        self.statuses, self.seen = set(), {}

    def ask(self, operation, status, event="ev-doc", headers=None, request_id="x", **options):
        method, path, described = OPERATIONS[operation]
        target = path.replace("{eventId}", event).replace("{requestId}", request_id)
        answer = self.daemon.request(method, target, headers=headers or {}, stream=True, **options)
        assert answer.status_code == status, (operation, answer.status_code, answer.text[:300])
        assert str(status) in described["responses"], (operation, status, "is not described")
        response = resolve(described["responses"][str(status)], strict=True)
        (kind, content), = response["content"].items()
        assert answer.headers["Content-Type"].split(";")[0] == kind, operation
        self.statuses.add((operation, str(status)))
        if status == 503 and operation != "ready":
            assert int(answer.headers["Retry-After"]) >= 1
        if kind != "application/json":
            answer.close()
            return None
        value = answer.json()
        jsonschema.validate(value, content["schema"])
        reference = described["responses"][str(status)]["$ref"]
        self.seen.setdefault(reference, set()).update(present(value))
        return value


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    stack = Stack()
    daemon = Daemon("urr-queue", settings(stack.redis.url), str(tmp_path_factory.mktemp("doc") / "log"), "QUEUE_PORT")
    daemon.start()
    yield stack, Book(daemon)
    daemon.kill()
    assert not daemon.sanitizer_report()
    stack.close()


def own(operation):
    """Whose call it is."""
    tag = OPERATIONS[operation][2]["tags"][0]
    return {"Tier 2": bearer("anna"), "Operator": ADMIN, "Services": SERVICE}.get(tag, {})


def body_of(operation):
    return {"assign": {"json": {"userId": "anon"}}, "sold": {"json": {"userId": "anna"}},
            "setThreshold": {"params": {"threshold": 2}}, "setThresholdByPost": {"json": {"threshold": 2}},
            "checkNumber": {"params": {"userId": "anon"}}}.get(operation, {})


def refusals(book, operation):
    """What every call of its kind answers to nobody, to the wrong one, and about no event."""
    _, path, described = OPERATIONS[operation]
    codes, body, mine = set(described["responses"]), body_of(operation), own(operation)
    if "401" in codes:
        book.ask(operation, 401, **body)
    if "403" in codes and described["tags"] != ["Tier 2"]:
        book.ask(operation, 403, headers=bearer("anna"), **body)
    elif "403" in codes:
        book.ask(operation, 403, headers=FOREIGN, **body)
    if "{eventId}" in path:
        book.ask(operation, 400, event="a.b", headers=mine, **body)
        if "404" in codes:
            book.ask(operation, 404, event="ghost", headers=mine, **body)
    if "415" in codes:
        book.ask(operation, 415, headers={**mine, "Content-Type": "text/plain"}, data="x")
        book.ask(operation, 400, headers=mine, **BAD_BODY)


def test_every_operation_answers_as_described(world):
    _, book = world
    room = Room(book.daemon, "ev-doc")
    book.ask("register", 200, headers=ADMIN, json={"title": "Love, Poem", "artist": "IU", "threshold": 1})
    for operation in OPERATIONS:
        refusals(book, operation)
    # Tier 2, from one who is inside to one who is told that it is over.
    book.ask("status", 200, headers=bearer("anna"))
    book.ask("stream", 409, headers=bearer("anna"))
    book.ask("streamAlias", 409, headers=bearer("anna"))
    book.ask("pause", 200, headers=ADMIN)
    eventually(lambda: room.join("bert").get("paused"), 5, what="the pause is told")
    book.ask("check", 200, headers=bearer("bert"))
    book.ask("resume", 200, headers=ADMIN)
    eventually(lambda: room.status("bert")["status"] == "active", 10, what="bert is in")
    book.ask("changeSettings", 200, headers=ADMIN, json={"opensAt": 4102444800000})
    eventually(lambda: room.join("carl").get("opensAt"), 5, what="the opening time is told")
    book.ask("check", 200, headers=bearer("carl"))
    book.ask("changeSettingsByPost", 200, headers=ADMIN, json={"opensAt": None})
    for user in ("bert", "carl"):
        book.ask("status", 200, headers=bearer(user))
        book.ask("heartbeat", 200, headers=bearer(user))
        for operation in ("stream", "streamAlias"):
            book.ask(operation, 200, headers=bearer(user))
    book.ask("changeSettings", 200, headers=ADMIN, json={"maxLength": 1})
    assert book.ask("check", 503, headers=bearer("dora"))["error"]["code"] == "QUEUE_FULL"
    book.ask("changeSettings", 200, headers=ADMIN, json={"maxLength": None, "maxWait": 1})
    assert book.ask("check", 429, headers=bearer("dora"))["error"]["code"] == "WAIT_TOO_LONG"
    book.ask("changeSettings", 200, headers=ADMIN, json={"maxWait": None, "vwrBatch": 0})
    # Tier 1 beside it.
    book.ask("activate", 200, headers=ADMIN)
    assert "redirectTo" in book.ask("check", 403, headers=bearer("dora"))
    first, second = (book.ask("assign", 200, json={"userId": "anon"})["requestId"] for _ in range(2))
    book.ask("advance", 200, headers=ADMIN, json={"batchSize": 1})
    for request_id in (first, second):
        book.ask("checkNumber", 200, request_id=request_id, params={"userId": "anon"})
    book.ask("viewFirstRoom", 200, headers=ADMIN)
    # The end.
    book.ask("sold", 200, headers=SERVICE, json={"userId": "bert"})
    book.ask("close", 200, headers=ADMIN, json={"reason": "sold out"})
    book.ask("closeByService", 200, headers=SERVICE, json={"reason": "sold out"})
    eventually(lambda: room.first_room().get("closed"), 5, what="closed is known")
    book.ask("checkNumber", 200, request_id=second, params={"userId": "anon"})
    book.ask("assign", 410, json={"userId": "anon"})
    book.ask("status", 200, headers=bearer("carl"))
    for operation in ("firstRoom", "viewEvent", "setThreshold", "setThresholdByPost", "reopen", "deactivate", "leave",
                      "listEvents", "clear", "health", "healthz", "ready", "metrics"):
        book.ask(operation, 200, headers=own(operation), **body_of(operation))
    assert book.ask("assign", 404, json={"userId": "anon"})["error"]["code"] == "ROOM_NOT_ACTIVE"


def test_without_redis_every_operation_says_so(world):
    stack, book = world
    book.ask("register", 200, headers=ADMIN)
    book.ask("activate", 200, headers=ADMIN)
    mine = book.ask("assign", 200, json={"userId": "anon"})["requestId"]
    book.ask("deactivate", 200, headers=ADMIN)
    stack.act("kill", "redis")
    try:
        book.daemon.wait("/readyz", 503)
        for operation, (_, _, described) in OPERATIONS.items():
            if "503" in described["responses"] and operation != "checkNumber":
                book.ask(operation, 503, headers=own(operation), **body_of(operation))
        eventually(lambda: book.daemon.get(f"/vwr/check/ev-doc/{mine}?userId=anon").status_code == 503, 10,
                   what="the counter is too old")
        book.ask("checkNumber", 503, request_id=mine, params={"userId": "anon"})
    finally:
        stack.act("start", "redis")
    book.daemon.wait("/readyz", 200)


def test_every_described_status_and_field_was_seen(world):
    _, book = world
    described = {(operation, status) for operation, (_, _, each) in OPERATIONS.items() for status in each["responses"]}
    assert described - book.statuses == set()
    for reference, seen in book.seen.items():
        content = resolve({"$ref": reference}, strict=False)["content"]["application/json"]["schema"]
        # retry_after belongs to two of the errors that share a shape.
        assert set(fields(content)) - seen <= {"error.retry_after", "conditions.reason"}, reference


def routes():
    """Every route of the daemon's sources, without the older spellings of the same."""
    found = set()
    folder = os.path.join(ROOT, "queue-core")
    for name in sorted(os.listdir(folder)):
        if not name.endswith(".c"):
            continue
        with open(os.path.join(folder, name), encoding="utf-8") as source:
            text = source.read()
        prefix = re.search(r'#define BOTH.*?\{method, "([^"]+)" path', text, re.S)
        for method, path in re.findall(r'BOTH\(HTTP_(\w+), "([^"]*)"', text):
            found.add((method, prefix.group(1) + path))
        found |= set(re.findall(r'\{\s*HTTP_(\w+),\s*"([^"]+)"', text))
    api = re.compile(r"/(api/(?!v1/)|internal/|vwr/(assign|check|status)/|events/)")
    return {(method, path) for method, path in found if api.match(path)}


def test_the_daemon_has_no_call_that_the_openapi_file_does_not_know():
    described = {(method, path) for method, path, each in OPERATIONS.values() if each["tags"] != ["Health"]}
    assert routes() == described


def test_settings_are_those_of_the_room():
    with open(os.path.join(ROOT, "queue-core/room_settings.c"), encoding="utf-8") as source:
        table = re.search(r"SETTINGS\[\] = \{(.*?)\n\};", source.read(), re.S).group(1)
    names = re.findall(r'\{"(\w+)", (\d+)', table)
    described = OPENAPI["components"]["schemas"]["Settings"]["properties"]
    assert sorted(name for name, _ in names) == sorted(described)
