"""The harness's fixtures for every test below tests/, and the counts tests/run adds up."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from harness import counts  # noqa: E402
from harness.fixtures import *  # noqa: E402,F401,F403


class Tally:
    """Counts tests; one that ran a cmocka binary counts as many as that binary held."""

    def __init__(self):
        self.results = {}

    def pytest_runtest_logreport(self, report):
        passed, failed = self.results.get(report.nodeid, (0, 0))
        if report.when == "call":
            inner = dict(report.user_properties).get("cmocka")
            passed, failed = inner or (int(report.passed), int(report.failed))
        elif report.failed:  # the set-up or the tear-down broke
            failed += 1
        self.results[report.nodeid] = (passed, failed)

    def pytest_sessionfinish(self, session, exitstatus):
        passed = sum(good for good, _ in self.results.values())
        failed = sum(bad for _, bad in self.results.values())
        if failed == 0 and exitstatus not in (0, 5):  # 5: nothing collected
            failed = 1
        counts.append(os.environ.get("URR_TEST_SUITE", "pytest"), passed, failed)


def pytest_configure(config):
    if not hasattr(config, "workerinput"):  # the lanes of a parallel run report to the one that counts
        config.pluginmanager.register(Tally(), "urr-tally")
