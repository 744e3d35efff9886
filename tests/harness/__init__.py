"""The test harness: real PostgreSQL, Redis and Kafka servers that tests own, break and mend.

servers.py    the three servers: start, kill -9, freeze, thaw, restart
stack.py      all of them below one folder, clean databases, topic names, the control socket
daemon.py     one URR daemon under test
fixtures.py   the pytest fixtures (loaded by tests/conftest.py)
counts.py     what each suite passed and failed, for tests/run
control       the same steering wheel for C tests (URR_TEST_CONTROL)
with          runs one command beside servers:  tests/harness/with pg redis -- build/dev/bin/server_test_pg
"""
