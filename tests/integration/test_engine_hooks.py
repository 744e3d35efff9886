"""The engine's hooks, each failing in its own way: hooks_consumer.c asks a SQL function in every one."""
import pytest

from engine_world import world  # noqa: F401 (a fixture)

HOOKS = ("lock", "add", "before_commit", "tick")
CALM = "CREATE OR REPLACE FUNCTION hook_{0}(v text[]) RETURNS text LANGUAGE sql AS $$ SELECT NULL::text $$"
WRITE = """CREATE OR REPLACE FUNCTION hook_add(v text[]) RETURNS text LANGUAGE sql AS $$
    INSERT INTO seen (value, size) SELECT u, cardinality(v) FROM unnest(v) u RETURNING 'ok' $$"""


@pytest.fixture
def hooked(world):  # noqa: F811
    world.sql("CREATE TABLE seen (n bigint GENERATED ALWAYS AS IDENTITY, value text, size int)")
    world.sql("CREATE SEQUENCE tries")
    for hook in HOOKS:
        world.sql(CALM.format(hook))
    world.sql(WRITE)
    return world


def hook(world, name, body):  # noqa: F811
    world.sql(f"CREATE OR REPLACE FUNCTION hook_{name}(v text[]) RETURNS text LANGUAGE plpgsql AS "
              f"$$ BEGIN {body} END $$")


def start(world):  # noqa: F811
    # One batch per publish: a second is enough for all of it to be there.
    return world.start(program="hooks_consumer", CONSUMER_LINGER_MS="1000")


def seen(world, values, timeout=30):  # noqa: F811
    world.eventually(lambda: sorted(v for v, in world.sql("SELECT value FROM seen")) == sorted(values), timeout,
                     what=f"{len(values)} events applied")


def reasons(world):  # noqa: F811
    return [(letter["value"].decode(), letter["urr-reason"]) for letter in world.letters()]


def test_lock_adds_rows_that_keep_events_apart(hooked):
    hook(hooked, "lock", "RETURN 'order';")
    start(hooked)
    values = [f"v{i:02}" for i in range(20)]
    hooked.publish([v.encode() for v in values], partition=0)
    seen(hooked, values)
    assert [v for v, in hooked.sql("SELECT value FROM seen ORDER BY n")] == values
    assert hooked.value("SELECT max(size) FROM seen") == 1  # a wave each


def test_without_a_common_row_one_call_takes_all(hooked):
    start(hooked)
    values = [f"v{i:02}" for i in range(20)]
    hooked.publish([v.encode() for v in values], partition=0)
    seen(hooked, values)
    assert hooked.value("SELECT max(size) FROM seen") == 20


@pytest.mark.parametrize("name", ["lock", "before_commit"])
def test_a_refusing_hook_is_halved_down_to_its_event(hooked, name):
    hook(hooked, name, "IF 'bad' = ANY (v) THEN RETURN 'reject'; END IF; RETURN NULL;")
    start(hooked)
    hooked.publish([b"a", b"b", b"bad", b"c"], partition=0)
    seen(hooked, ["a", "b", "c"])
    hooked.eventually(lambda: reasons(hooked) == [("bad", "database_refused")], 30)
    assert hooked.value("SELECT count(*) FROM processed_events") == 3


@pytest.mark.parametrize("name", ["lock", "before_commit"])
def test_a_hook_that_says_retry_is_heard_five_times(hooked, name):
    hook(hooked, name, "IF 'bad' = ANY (v) THEN PERFORM nextval('tries'); RETURN 'retry'; END IF; RETURN NULL;")
    start(hooked)
    hooked.publish([b"bad"], partition=0)
    hooked.eventually(lambda: reasons(hooked) == [("bad", "retries_exhausted")], 30)
    assert hooked.value("SELECT last_value FROM tries") == 5


def test_a_brake_rolls_back_and_pauses_until_an_operator_resumes(hooked):
    hook(hooked, "before_commit", "RETURN 'brake';")
    consumer = start(hooked)
    hooked.publish([b"a", b"b"], partition=0)
    hooked.told(consumer, "paused: test_brake: the hook says so")
    assert hooked.value("SELECT count(*) FROM seen") == 0 and hooked.consumed() == 0
    hook(hooked, "before_commit", "RETURN NULL;")
    hooked.sql("UPDATE consumer_control SET paused = false")
    seen(hooked, ["a", "b"])
    consumer.wait("/readyz", 200, 10)


def test_tick_commits_repeats_on_request_and_failing_stops_nothing(hooked):
    hook(hooked, "tick", "INSERT INTO seen (value) VALUES ('tick'); PERFORM nextval('tries'); "
                         "RETURN CASE WHEN currval('tries') % 5 <> 0 THEN 'again' END;")
    consumer = start(hooked)
    ticks = "SELECT count(*) FROM seen WHERE value = 'tick'"
    hooked.eventually(lambda: hooked.value(ticks) >= 10, 20, what="two seconds' work, five transactions each")
    hook(hooked, "tick", "INSERT INTO seen (value) VALUES ('lost'); RAISE 'no' USING ERRCODE = '22012';")
    failures = 'urr_consumer_tick_failures_total{group="%s"}' % hooked.group
    hooked.eventually(lambda: (consumer.metric(failures) or 0) >= 2, 20, what="failed ticks")
    hooked.publish([b"a"], partition=0)
    hooked.eventually(lambda: hooked.value("SELECT count(*) FROM seen WHERE value = 'a'") == 1, 20)
    assert hooked.value("SELECT count(*) FROM seen WHERE value = 'lost'") == 0
    assert consumer.get("/readyz").status_code == 200
