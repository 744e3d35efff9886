"""pytest fixtures. Servers start on first use and are shared by the run; each test gets databases,
topic names and daemons of its own. Nothing is skipped: what cannot be had fails the test."""
import os

import pytest

from . import process
from .daemon import Daemon
from .stack import Stack


@pytest.fixture(scope="session")
def stack_of_the_run():
    stack = Stack()
    yield stack
    stack.close()


@pytest.fixture
def servers(stack_of_the_run):
    """The Stack: servers.redis, servers.pg, servers.kafka, servers.act("kill", "redis")."""
    return stack_of_the_run


@pytest.fixture
def fresh_database(servers):
    """fresh_database(), or fresh_database("ticket"): the URL of a new database, dropped afterwards."""
    made = []

    def make(template=None):
        made.append(servers.database(template))
        return made[-1]
    yield make
    for url in made:
        servers.drop_database(url)


@pytest.fixture
def pg_url(fresh_database):
    return fresh_database()


@pytest.fixture
def ticket_db(fresh_database):
    return fresh_database("ticket")


@pytest.fixture(scope="session")
def ticket_db_of_the_run(stack_of_the_run):
    return stack_of_the_run.database("ticket")


@pytest.fixture
def emptied_ticket_db(servers, ticket_db_of_the_run):
    """A ticket_db without rows, the same one each time: an order of magnitude quicker than a new one,
    for suites of hundreds of small tests that close their connections."""
    servers.pg.empty(ticket_db_of_the_run)
    return ticket_db_of_the_run


@pytest.fixture
def payment_db(fresh_database):
    return fresh_database("payment")


@pytest.fixture
def stats_db(fresh_database):
    return fresh_database("stats")


@pytest.fixture
def redis_url(servers):
    """An empty Redis."""
    import redis
    url = servers.redis.url
    redis.Redis.from_url(url).flushall()
    return url


@pytest.fixture
def kafka(servers):
    """host:port of the broker."""
    return servers.kafka.brokers


@pytest.fixture
def topic_prefix(servers):
    """A name no other test's topics start with."""
    return f"t{os.getpid()}-{servers.number()}-"


@pytest.fixture
def topics(stack_of_the_run):
    """The contract's topics exist, under their own names."""
    return stack_of_the_run.topics()


@pytest.fixture
def daemon(request, tmp_path):
    """daemon("urr-relay", settings, port_setting="RELAY_PORT"): a started Daemon that is ready. Keyword
    `ready` names the path to wait for (None: do not wait). All end with the test; a failed test shows
    their logs, and a sanitizer's report in one fails the test."""
    started = []

    def start(name, settings=None, port_setting="HTTP_PORT", ready="/readyz", arguments=(), timeout=30):
        log = tmp_path / f"{name}-{len(started)}.log"
        each = Daemon(name, settings or {}, str(log), port_setting, arguments)
        started.append(each)
        return each.start(ready, timeout)
    yield start
    reports = []
    for each in started:
        if each.running:
            each.thaw()
            try:
                each.stop(20)
            except AssertionError as error:
                reports.append(str(error))
                each.kill()
        report = each.sanitizer_report()
        if report:
            reports.append(f"{each.name}:\n{report}")
    failed = getattr(request.node, "failed_in_call", False)
    for each in started if failed or reports else []:
        print(f"--- {each.name} (port {each.port}), last lines of its log:\n{each.tail()}")
    if reports:
        pytest.fail("\n".join(reports), pytrace=False)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    if report.failed:
        item.failed_in_call = True
    if report.skipped and call.excinfo.errisinstance(pytest.skip.Exception):
        # A test that cannot run proves nothing: say so loudly.
        report.outcome = "failed"
        report.longrepr = f"skipped, which counts as a failure here: {report.longrepr}"


@pytest.fixture
def eventually():
    return process.eventually
