"""The README, as a newcomer follows it: compose/up in a fresh clone, the tour, status and down."""
import os
import re
import subprocess

import pytest

from harness import process
from harness.stack import ROOT

SHELL = "set -euo pipefail\n"


def free_base():
    """A port below which nothing of the stack's offsets is in use."""
    for base in range(23000, 32000, 200):
        if all(process.port_is_free(base + offset) for offset in (4, 7, 12, 13, 32, 79, 92, 93)):
            return base
    raise RuntimeError("no free ports between 23000 and 32000")


class Clone:
    def __init__(self, folder):
        self.folder = str(folder / "urr")
        self.base = free_base()
        subprocess.run(["git", "clone", "-q", ROOT, self.folder], check=True, stdin=subprocess.DEVNULL)

    def run(self, command, timeout=60, check=True):
        env = {**os.environ, "URR_PORT_BASE": str(self.base), "CMAKE_C_COMPILER_LAUNCHER": "ccache",
               "PSQL_PAGER": "cat"}
        done = subprocess.run(["bash", "-c", command], cwd=self.folder, env=env, text=True, timeout=timeout,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert not check or done.returncode == 0, done.stdout
        return done.stdout


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    clone = Clone(tmp_path_factory.mktemp("tour"))
    clone.run("compose/up", timeout=600)
    yield clone
    clone.run("compose/down --purge")


def tour(clone):
    """The README's commands up to the n-th block, each block as one script, with this stack's port."""
    text = open(os.path.join(clone.folder, "README.md")).read()
    blocks = re.findall(r"```sh tour\n(.*?)```", text, re.S)
    assert len(blocks) == 4
    return [re.sub(r"127\.0\.0\.1:300(\d)", lambda port: f"127.0.0.1:{clone.base + int(port[1])}", block)
            for block in blocks]


def test_the_tour_shows_what_the_readme_says(clone, eventually):
    pay, again, figures, _ = tour(clone)
    clone.run(SHELL + pay)
    look = SHELL + pay.replace("\npay pay-1\n", "\n")  # the same look, without paying again
    eventually(lambda: clone.run(look).count("| confirmed |") == 2, 30, what="both seats are confirmed")
    head = look[:look.index("psql")]
    clone.run(head + again)
    ledger = head + again[again.index("psql"):]
    eventually(lambda: "pay-2      | refund_requested | 198000 | already_paid" in clone.run(ledger), 30,
               what="the second payment goes back")
    assert "pay-1      | applied          | 198000 |" in clone.run(ledger)
    eventually(lambda: '"confirmedReservations": 1' in clone.run(head + figures), 30, what="figures")


def test_the_tours_crowd_is_served_fairly(clone):
    pay, _, _, crowd = tour(clone)
    out = clone.run(SHELL + pay[:pay.index("pay()")] + crowd, timeout=120)
    assert re.search(r"^\s*overshoot\s+0 +most inside 50", out, re.M), out
    assert len(re.findall(r"^\s*inversions\s+0 ", out, re.M)) == 2, out
    assert ": fair" in out


def test_a_second_up_takes_seconds_and_changes_nothing(clone):
    before = clone.run("compose/status")
    out = clone.run("compose/up", timeout=60)
    took = float(re.search(r"\(([0-9.]+) s\)\s*$", out).group(1))
    assert took < 15, out
    assert clone.run("compose/status") == before


def test_killed_daemons_and_servers_come_back_with_what_was_paid(clone, eventually):
    pids = dict(re.findall(r"^(\S+)\s+(\d+)\s", clone.run("compose/status"), re.M))
    subprocess.run(["kill", "-9", pids["urr-ticket-consumer"], pids["pg"]], check=True)
    pay = tour(clone)[0]
    clone.run(SHELL + pay[:pay.index("pay pay-1")] + "pay pay-3")
    clone.run("compose/up", timeout=60)
    ledger = SHELL + pay[:pay.index("export PATH")] + \
        "psql -X \"$TICKET_DATABASE_URL\" -Atc \"SELECT state FROM payment_ledger WHERE payment_id = 'pay-3'\""
    eventually(lambda: "refund_requested" in clone.run(ledger), 30, what="the payment is in the ledger")


def alive(pid):
    """A process that has ended and only waits to be noticed is not."""
    try:
        return open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_down_ends_exactly_what_up_started(clone):
    pids = re.findall(r"^\S+\s+(\d+)\s", clone.run("compose/status"), re.M)
    assert len(pids) >= 6
    clone.run("compose/down")
    assert not [pid for pid in pids if alive(pid)]
    assert not re.search(r"\byes$", clone.run("compose/status", check=False), re.M)
