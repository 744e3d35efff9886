"""urrctl stats rebuild: damaged figures come back from the log, whatever interrupts it. And, where the log is
shortened anyway, docs/runbook.md followed by copy and paste."""
import os
import random
import re
import signal
import subprocess
import time

import psycopg2
import pytest

from harness.process import eventually
from harness.stack import ROOT, build_dir
from night_world import OK, REFUSED, RETRY, STATS, TICKET, USAGE, NightWorld
from sql_world import new_id
from test_engine import delete_records

FIGURES = ("reservations_created, reservations_confirmed, cancelled_user, cancelled_refunded, total_revenue,"
           " refunded_revenue, payments_confirmed, payment_revenue, payments_refunded, refund_amount")


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    world = NightWorld(str(tmp_path_factory.mktemp("rebuild")))
    sell(world, 30)
    yield world
    world.close_all()


def sell(world, count):
    """Reservations of every end: confirmed, refunded, cancelled, pending."""
    made = [world.created(world.reservation(seats=1, user=new_id())) for _ in range(count)]
    paid = {rid: new_id() for rid in made[: count * 2 // 3]}
    world.publish(*(world.confirmed(rid, payment=payment, amount=50000) for rid, payment in paid.items()))
    world.publish(b"nonsense", key="x")
    world.run("SELECT ticket_cancel(ARRAY[%s]::uuid[], 'admin')", made[-1])
    world.settled()
    world.publish(*(world.refunded(paid[rid], amount=50000) for rid in made[: count // 5]))
    world.settled()


def truth(world):
    """An independent sum over ticket_db, which knows nothing of the log."""
    reserved = world.rows("""
        SELECT count(*), count(*) FILTER (WHERE status IN ('confirmed', 'refunded')),
               count(*) FILTER (WHERE status = 'cancelled' AND cancel_reason = 'user'),
               count(*) FILTER (WHERE status = 'refunded'),
               coalesce(sum(total_amount) FILTER (WHERE status IN ('confirmed', 'refunded')), 0)::bigint,
               coalesce(sum(total_amount) FILTER (WHERE status = 'refunded'), 0)::bigint FROM reservations""")[0]
    paid = world.rows("""
        SELECT count(*), coalesce(sum(amount), 0)::bigint, count(*) FILTER (WHERE state = 'refunded'),
               coalesce(sum(amount) FILTER (WHERE state = 'refunded'), 0)::bigint FROM payment_ledger""")[0]
    return reserved + paid


def live(world):
    sums = ", ".join(f"coalesce(sum({name.strip()}), 0)::bigint" for name in FIGURES.split(","))
    return world.stats_rows(f"SELECT {sums} FROM daily_stats_gen JOIN stats_generations USING (generation)"
                            " WHERE state = 'live'")[0]


def everything(world):
    """All figures of the live generation, to compare two moments."""
    return [world.stats_rows(f"SELECT to_jsonb(t) - 'generation' - 'updated_at' FROM {table} t"
                             " JOIN stats_generations USING (generation) WHERE state = 'live' ORDER BY 1")
            for table in ("daily_stats_gen", "event_daily_stats_gen", "hourly_stats_gen")]


def generation(world):
    return world.stats_rows("SELECT generation FROM stats_generations WHERE state = 'live'")[0][0]


def damage(world):
    world.stats_rows("UPDATE daily_stats_gen SET total_revenue = total_revenue + 777, reservations_created = 1")
    world.stats_rows("UPDATE event_daily_stats_gen SET reservations_confirmed = 0")
    world.stats_rows("DELETE FROM hourly_stats_gen")


def test_damaged_figures_are_the_truth_again_and_live_traffic_goes_on(world):
    assert live(world) == truth(world)
    right = everything(world)
    damage(world)
    assert live(world) != truth(world)
    before = generation(world)
    plan = world.ask("stats", "rebuild", "--dry-run")
    assert plan["state"] == "planned" and plan["left"] > 60 and generation(world) == before
    assert world.stats_rows("SELECT count(*) FROM stats_generations")[0][0] == before
    done = world.ask("stats", "rebuild", "--yes")
    assert done["state"] == "switched" and done["refused"] == 1
    changed = {(d["eventId"], d["figure"]): (d["live"], d["rebuilt"]) for d in done["differences"]}
    assert (None, "total_revenue") in changed
    assert changed[str(world.event), "reservations_confirmed"] == (0, 20)
    assert generation(world) == before + 1
    assert everything(world) == right and live(world) == truth(world)
    sell(world, 6)
    assert live(world) == truth(world)  # the consumer counts on, in the new generation
    assert world.stats_rows("SELECT count(*) FROM processed_events WHERE consumer_group LIKE 'replay:%%'")[0][0] == 0
    assert world.stats_rows("SELECT count(*) FROM operator_audit WHERE command = 'stats rebuild'")[0][0] == 2


def test_what_the_live_group_never_counted_is_counted_once_for_good(world):
    """Skipped records are in the rebuilt figures; read again later they do not count twice."""
    world.daemons["urr-stats"].kill()
    rid = world.created(world.reservation(seats=1))
    world.publish(world.confirmed(rid, payment=new_id(), amount=50000))
    eventually(lambda: world.one("SELECT status FROM reservations WHERE id = %s", rid) == "confirmed"
               and not world.one("SELECT count(*) FROM outbox"), 30, what="the sale to be told")
    ends = world.ends("payment-events", "reservation-events")
    old = {}
    for (topic, partition), end in ends.items():
        old[topic, partition], = world.stats_rows(
            "SELECT next_offset FROM consumer_offsets WHERE consumer_group = %s AND topic = %s AND partition = %s",
            STATS, topic, partition)[0]
        world.stats_rows("UPDATE consumer_offsets SET next_offset = %s, last_offset = NULL, generation = generation + 1"
                         " WHERE consumer_group = %s AND topic = %s AND partition = %s", end, STATS, topic, partition)
    assert live(world) != truth(world)
    assert world.ask("stats", "rebuild", "--yes")["state"] == "switched"
    assert live(world) == truth(world)
    for (topic, partition), offset in old.items():
        world.stats_rows("UPDATE consumer_offsets SET next_offset = %s, last_offset = NULL, generation = generation + 1"
                         " WHERE consumer_group = %s AND topic = %s AND partition = %s", offset, STATS, topic, partition)
    world.start("urr-stats")
    world.settled()
    assert live(world) == truth(world)


def test_interrupted_at_random_moments_it_ends_the_same(world):
    right = everything(world)
    damage(world)
    chance = random.Random(11)
    ended = []
    for signal_ in (signal.SIGKILL, signal.SIGINT, signal.SIGKILL, signal.SIGKILL):
        running = world.spawn("stats", "rebuild", "--yes")
        time.sleep(chance.uniform(0.02, 0.5))  # anywhere in the work is right
        running.send_signal(signal_)
        running.communicate(timeout=30)
        ended.append(running.returncode)
    assert world.ask("stats", "rebuild", "--yes")["state"] == "switched"
    assert everything(world) == right and live(world) == truth(world), ended
    world.settled()
    sell(world, 3)
    assert live(world) == truth(world)


def test_stay_builds_without_switching_and_abort_throws_it_away(world):
    before, right = generation(world), everything(world)
    built = world.ask("stats", "rebuild", "--stay")
    assert built["state"] == "built" and built["differences"] == [] and generation(world) == before
    assert world.ask("stats", "rebuild", "--abort", "--yes")["state"] == "aborted"
    assert generation(world) == before and everything(world) == right
    for table in ("daily_stats_gen", "event_daily_stats_gen", "stats_rebuild_keys"):
        assert world.stats_rows(f"SELECT count(*) FROM {table} WHERE generation = %s", built["generation"]) == [(0,)]
    done = world.urrctl("stats", "rebuild", "--abort", "--yes")
    assert done.code == REFUSED and "nothing to abort" in done.err


def test_two_operators_and_wrong_use_change_nothing(world):
    right = everything(world)
    held = psycopg2.connect(world.stats_url)
    with held.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(hashtext('urr stats rebuild'))")
        done = world.urrctl("stats", "rebuild", "--yes")
    held.close()
    assert done.code == RETRY and "another urrctl" in done.err
    for arguments, word in ((("stats",), "rebuild"), (("stats", "rebuild"), "--yes"),
                            (("stats", "rebuild", "--now"), "--now")):
        done = world.urrctl(*arguments)
        assert done.code == USAGE and word in done.err, done.err
    assert world.urrctl("stats", "rebuild", "--stay", STATS_TIME_ZONE="UTC").code == OK
    done = world.urrctl("stats", "rebuild", "--yes")
    assert done.code == REFUSED and "STATS_TIME_ZONE" in done.err
    assert world.urrctl("stats", "rebuild", "--abort", "--yes", STATS_TIME_ZONE="UTC").code == OK
    assert everything(world) == right


def test_days_that_left_the_log_are_copied(world):
    """Late in the file: it shortens the log."""
    right = everything(world)
    ends = world.ends("payment-events")
    for (topic, partition), end in ends.items():
        delete_records(world.brokers, topic, partition, end // 2)
    plan = world.ask("stats", "rebuild", "--dry-run")
    assert plan["state"] == "planned"
    done = world.ask("stats", "rebuild", "--yes")
    assert done["state"] == "switched" and done["copiedThrough"]
    assert everything(world) == right
    sell(world, 3)
    assert live(world) == truth(world)


# --- the runbook, by copy and paste


def steps(section):
    """The shell blocks of a section, in order."""
    text = open(os.path.join(ROOT, "docs/runbook.md")).read()
    body = re.search(rf"^## {section}\n(.*?)(?=^## |\Z)", text, re.S | re.M).group(1)
    return [re.sub(r"^ {3}", "", block, flags=re.M) for block in re.findall(r"```sh\n(.*?)```", body, re.S)]


def paste(world, block):
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", block], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=120, env={**os.environ, **world.settings,
                                                       "PATH": f"{build_dir()}/bin:{os.environ['PATH']}"})
    assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_somebody_follows_the_runbook_after_a_gap(world):
    world.daemons["urr-ticket-consumer"].kill()
    rids = [world.created(world.reservation(seats=1)) for _ in range(2)]
    events = [world.confirmed(rid, payment=new_id(), amount=50000) for rid in rids]
    for event in events:
        event["order"] = "one-partition"
    world.publish(events[0])
    gone = world.ends("payment-events")
    world.publish(events[1])
    for (topic, partition), end in gone.items():
        delete_records(world.brokers, topic, partition, end)
    consumer = world.start("urr-ticket-consumer", ready=None)
    consumer.wait("/readyz", 503)
    eventually(lambda: world.one("SELECT count(*) FROM consumer_gaps WHERE accepted_at IS NULL"), 30, what="the gap")
    look, accept, after = steps("The consumer stopped with a gap")
    assert TICKET in paste(world, look)
    paste(world, accept)
    consumer.wait("/readyz", 200)
    eventually(lambda: world.one("SELECT status FROM reservations WHERE id = %s", rids[1]) == "confirmed", 30,
               what="the payment behind the gap to be applied")
    assert "payments" not in paste(world, after)  # what is gone from the log is nobody's difference
    world.publish(events[0])                      # step 2: published again
    eventually(lambda: world.one("SELECT status FROM reservations WHERE id = %s", rids[0]) == "confirmed", 30,
               what="the payment of the gap to be applied")


def test_somebody_follows_the_runbook_after_the_brake(world):
    def paused():
        return world.one("SELECT count(*) FROM consumer_control WHERE paused AND consumer_group = %s", TICKET)
    world.publish(*(world.confirmed(new_id(), payment=new_id(), amount=5) for _ in range(30)))
    eventually(paused, 30, what="the brake")
    look, mended, right, after = steps("Refund brake")
    assert "refund_brake" in paste(world, look)
    paste(world, mended.splitlines()[0])  # its dry run: here the refunds are right
    assert paused()
    paste(world, right)
    world.settled()
    assert world.one("SELECT count(*) FROM payment_ledger WHERE refund_reason = 'reservation_missing'") == 30
    assert TICKET in paste(world, after)
