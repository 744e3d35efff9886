#!/usr/bin/python3
"""What each suite passed and failed, one line per suite in the file named by URR_TEST_COUNTS.

    counts.py ctest SUITE JUNIT   count the cmocka tests in ctest's report
    counts.py total FILE          print the table and, last, "N passed, N failed"
"""
import os
import re
import sys
import xml.etree.ElementTree as tree


def cmocka(text, exit_ok):
    """(passed, failed) of one cmocka binary. A skipped test is not passed; a binary that ended badly
    without naming a failed test (a crash, a leak report) counts as one more failure."""
    ran = sum(int(n) for n in re.findall(r"^\[=+\].*?(\d+) test\(s\) run\.", text, re.M))
    passed = sum(int(n) for n in re.findall(r"^\[  PASSED  \] (\d+) test\(s\)", text, re.M))
    started = len(re.findall(r"^\[ RUN      \]", text, re.M))
    failed = max(ran, started) - passed
    if (not exit_ok and failed == 0) or passed + failed == 0:
        failed += 1
    return passed, failed


def append(suite, passed, failed):
    path = os.environ.get("URR_TEST_COUNTS")
    if path:
        with open(path, "a") as file:
            file.write(f"{suite}\t{passed}\t{failed}\n")


def from_ctest(suite, junit):
    passed = failed = 0
    for case in tree.parse(junit).getroot().iter("testcase"):
        output = case.findtext("system-out") or ""
        ended_well = case.get("status") == "run"
        # A script among the binaries counts as one test; a cmocka binary always prints its ruler.
        good, bad = cmocka(output, ended_well) if "[====" in output or not ended_well else (1, 0)
        passed += good
        failed += bad
        if bad:
            print(f"FAILED {case.get('name')}\n{output}")
    append(suite, passed, failed)


def total(path):
    passed = failed = 0
    with open(path) as file:
        for line in file:
            suite, good, bad = line.rstrip("\n").split("\t")
            print(f"{suite:<28} {good:>6} passed {bad:>6} failed")
            passed += int(good)
            failed += int(bad)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or passed == 0 else 0


def main():
    if sys.argv[1:2] == ["ctest"] and len(sys.argv) == 4:
        return from_ctest(sys.argv[2], sys.argv[3])
    if sys.argv[1:2] == ["total"] and len(sys.argv) == 3:
        return total(sys.argv[2])
    sys.exit(__doc__)


if __name__ == "__main__":
    sys.exit(main())
