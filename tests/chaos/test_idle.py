"""kill -9 of each server under an idle stack: every daemon keeps running, /readyz of those that need it
turns red and comes back by itself, and nobody else's does."""
import os

import pytest

from harness.stack import ROOT, program

SECRETS = ("JWT_SECRET", "INTERNAL_API_TOKEN", "QUEUE_ENTRY_TOKEN_SECRET", "VWR_TOKEN_SECRET")


def rows():
    """compose/daemons: [(name, port's setting, needs)] of the daemons this build has."""
    with open(os.path.join(ROOT, "compose/daemons")) as table:
        words = [line.split() for line in table if line.strip() and not line.startswith("#")]
    return [(name, setting, needs) for name, _, setting, *needs in words if program(name)]


CASES = [pytest.param(name, setting, needs, server, id=f"{name}-without-{server}")
         for name, setting, needs in rows() for server in ("redis", "pg", "kafka")]


@pytest.fixture
def settings(servers, fresh_database, redis_url, kafka):
    return {
        "TICKET_DATABASE_URL": fresh_database("ticket"), "PAYMENT_DATABASE_URL": fresh_database("payment"),
        "STATS_DATABASE_URL": fresh_database("stats"), "REDIS_URL": redis_url, "KAFKA_BROKERS": kafka,
        # Each its own, as the daemons insist.
        **{name: str(n) * 48 for n, name in enumerate(SECRETS)},
    }


@pytest.mark.parametrize("name, setting, needs, server", CASES)
def test_survives(name, setting, needs, server, settings, daemon, servers, topics):
    one = daemon(name, settings, port_setting=setting)
    servers.act("kill", server)
    if server in needs:
        one.wait("/readyz", 503, 30)
    assert one.get("/healthz", timeout=2).status_code == 200
    if server not in needs:
        assert one.get("/readyz", timeout=2).status_code == 200
    servers.act("start", server)
    one.wait("/readyz", 200, 60)
    assert one.get("/healthz", timeout=2).status_code == 200
