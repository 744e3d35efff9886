"""Which failures of the database are an event's own, and which are nobody's: a trigger raises them at will."""
import os
import signal

import psycopg2
import pytest

from engine_world import world  # noqa: F401 (a fixture)

FAULTS = """
CREATE SEQUENCE tries;
CREATE TABLE faults (user_id text PRIMARY KEY, sqlstate text, first_tries int DEFAULT 1000000, sleeps int);
CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE f faults;
BEGIN
    SELECT * INTO f FROM faults WHERE user_id = NEW.user_id;
    IF FOUND AND nextval('tries') <= f.first_tries THEN
        IF f.sleeps IS NOT NULL THEN
            PERFORM pg_sleep(f.sleeps);
        END IF;
        RAISE EXCEPTION 'as the test wishes' USING ERRCODE = f.sqlstate;
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER fail BEFORE INSERT ON example_totals FOR EACH ROW EXECUTE FUNCTION fail();
"""


@pytest.fixture
def broken(world):  # noqa: F811
    world.sql(FAULTS)
    world.consumer = world.start()
    return world


def fault(world, user, sqlstate, **more):  # noqa: F811
    columns = {"user_id": user, "sqlstate": sqlstate, **more}
    world.sql(f"INSERT INTO faults ({', '.join(columns)}) VALUES ({', '.join(['%s'] * len(columns))})",
              *columns.values())


def tries(world):  # noqa: F811
    return world.value("SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM tries")


def buried(world, reason, detail):  # noqa: F811
    """The one dead letter."""
    world.eventually(lambda: len(world.letters()) == 1, 30, what="a dead letter")
    letter, = world.letters()
    assert (letter["urr-reason"], detail in letter["urr-detail"]) == (reason, True), letter


@pytest.mark.parametrize("sqlstate", ["40001", "40P01", "55P03"])
def test_five_transient_failures_in_a_row_are_poison(broken, sqlstate):
    fault(broken, "bad", sqlstate)
    broken.publish([broken.payment(user="bad")])
    buried(broken, "retries_exhausted", f"gave up after 5 attempts, last error {sqlstate}")
    assert tries(broken) == 5
    broken.publish([broken.payment(user="bad")] + [broken.payment() for _ in range(20)], partition=0)
    broken.applied(20, 20)
    broken.eventually(lambda: len(broken.letters()) == 2, 30)


def test_a_failure_that_passes_before_the_fifth_buries_nobody(broken):
    fault(broken, "bad", "40001", first_tries=4)
    broken.publish([broken.payment(user="bad")])
    broken.applied(1, 1)
    assert tries(broken) == 5 and broken.letters() == []


def test_a_full_disk_is_waited_for(broken):
    fault(broken, "bad", "53100")
    broken.publish([broken.payment(user="bad")] + [broken.payment() for _ in range(20)], partition=0)
    broken.told(broken.consumer, "as the test wishes")
    broken.eventually(lambda: tries(broken) >= 6, 30, what="more attempts than poison gets")
    assert broken.letters() == [] and broken.totals() == (0, 0)
    broken.sql("DELETE FROM faults")
    broken.applied(21, 21)
    broken.consumer.wait("/readyz", 200, 10)
    assert broken.letters() == []


def test_a_unique_key_met_once_is_a_lost_race(broken):
    fault(broken, "bad", "23505", first_tries=1)
    broken.publish([broken.payment(user="bad")])
    broken.applied(1, 1)
    assert tries(broken) == 2 and broken.letters() == []


def test_a_unique_key_met_twice_is_the_events_own(broken):
    fault(broken, "bad", "23505")
    broken.publish([broken.payment(user="bad")])
    buried(broken, "database_refused", "as the test wishes")
    assert tries(broken) == 2
    broken.publish([broken.payment()])
    broken.applied(1, 1)


def test_an_event_that_takes_the_server_down_each_time_is_poison(broken):
    """Only where a fresh connection answers: the seconds in which the server recovers count for nothing."""
    fault(broken, "bad", "P0001", sleeps=600)
    broken.publish([broken.payment(user="bad")])
    kills = 0

    def settled():
        nonlocal kills
        try:
            if broken.letters():
                return True
            backends = broken.sql("SELECT pid FROM pg_stat_activity WHERE wait_event = 'PgSleep'")
            for pid, in backends:
                os.kill(pid, signal.SIGKILL)
                kills += 1
        except (psycopg2.Error, ProcessLookupError):
            broken.reconnect()
        return False
    broken.eventually(settled, 60, every=0.05, what="the dead letter")
    assert kills == 5
    buried(broken, "retries_exhausted", "gave up after 5 attempts")
    broken.publish([broken.payment()])
    broken.applied(1, 1)


def test_a_member_fenced_by_its_own_id_joins_again(world):  # noqa: F811
    """Two processes with one static id: the later one takes the place, the earlier one comes back as after a
    restart, and whoever reads, each event takes effect once."""
    first = world.start(KAFKA_GROUP_INSTANCE_ID="one")
    world.publish([world.payment() for _ in range(50)])
    world.applied(50, 50)
    second = world.start(ready=None, KAFKA_GROUP_INSTANCE_ID="one")
    world.eventually(lambda: "joining again" in first.log(), 40, what="the first member to be fenced")
    world.publish([world.payment() for _ in range(200)])
    world.applied(250, 250, 40)
    second.kill()
    world.publish([world.payment() for _ in range(50)])
    world.applied(300, 300, 40)
    assert first.running and world.letters() == []
    assert world.value("SELECT count(*) FROM processed_events") == 300
    first.wait("/readyz", 200, 20)
