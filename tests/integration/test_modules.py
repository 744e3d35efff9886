"""Every cmocka binary that needs real servers (urr_server_test in CMake), one item each."""
import glob
import os
import signal
import subprocess

import pytest

from harness import counts
from harness.stack import build_dir

TIMEOUT_SECONDS = 240
NEEDS = {"redis": b"URR_TEST_REDIS_URL", "pg": b"URR_TEST_PG_URL", "kafka": b"URR_TEST_KAFKA"}
BINARIES = sorted(glob.glob(os.path.join(build_dir(), "bin", "server_test_*")))


def needs_of(binary):
    """The servers whose variable the binary reads: its name stands in the program."""
    with open(binary, "rb") as file:
        content = file.read()
    return [server for server, variable in NEEDS.items() if variable in content]


def test_the_build_has_server_tests():
    assert BINARIES, f"no server_test_* in {build_dir()}/bin: build first"


@pytest.mark.parametrize("binary", [pytest.param(path, id=os.path.basename(path)) for path in BINARIES])
def test_module(binary, servers, fresh_database, request, record_property):
    needs = needs_of(binary)
    if "redis" in needs:
        request.getfixturevalue("redis_url")
    database = fresh_database() if "pg" in needs else None
    env = {**os.environ, **servers.environment(needs, database)}
    child = subprocess.Popen([binary], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True)
    try:
        output, _ = child.communicate(timeout=TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        output = child.communicate()[0] + f"\nkilled after {TIMEOUT_SECONDS} s\n"
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
    passed, failed = counts.cmocka(output, child.returncode == 0)
    record_property("cmocka", (passed, failed))
    print(f"{os.path.basename(binary)}: {passed} passed, {failed} failed")
    assert failed == 0, f"{os.path.basename(binary)} ended with {child.returncode}:\n{output}"
