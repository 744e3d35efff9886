"""The crash proof in the time CI has: as many kill -9 as fit, and nothing lost, doubled or reordered.
tests/chaos/saga runs longer ones."""
import os

import saga_run

SECONDS = float(os.environ.get("SAGA_SECONDS", "140"))


def show(capsys):
    def say(text):
        with capsys.disabled():
            print(text, flush=True)
    return say


def test_nothing_is_lost_doubled_or_reordered(capsys, tmp_path):
    say = show(capsys)
    seed = os.environ.get("SAGA_SEED", "20260501")
    report = saga_run.run(saga_run.Options(events=12000, seconds=SECONDS, seed=seed, keep=str(tmp_path)), say)
    say(report.text())
    assert report.ok, report.text()
    assert report.kills >= SECONDS / 4, f"only {report.kills} kills: this proves too little"


def test_a_consumer_that_publishes_before_it_commits_is_found(capsys, tmp_path):
    options = saga_run.Options(events=1200, seconds=12, seed="planted", planted=True, relay=1, stats=1,
                               keep=str(tmp_path))
    report = saga_run.run(options)
    found = [c for c in report.complaints if c.kind == "without effect"]
    show(capsys)(f"the planted bug: {report.kills} kills, {len(report.complaints)} complaints, {len(found)} of them"
                 " an event in Kafka without its effect in ticket_db")
    assert found, report.text()
