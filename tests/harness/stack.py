"""All servers of one test run below one folder, started on first use, and steered by name."""
import glob
import json
import os
import shutil
import socket
import subprocess
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor

from . import process, servers

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ACTIONS = ("kill", "freeze", "thaw", "start", "restart")


def build_dir():
    """Where the programs under test are: URR_BUILD, else the dev build."""
    return os.path.join(ROOT, os.environ.get("URR_BUILD", "build/dev"))


def program(name):
    """The path of a built program, or None when this build does not have it."""
    path = os.path.join(build_dir(), "bin", name)
    return path if os.access(path, os.X_OK) else None


def sweep(parent):
    """Removes folders of runs that were killed before they could do it themselves."""
    for folder in glob.glob(os.path.join(parent, "urr-test-*-*")):
        owner = os.path.basename(folder).split("-")[2]
        if not os.path.exists(f"/proc/{owner}"):
            shutil.rmtree(folder, ignore_errors=True)


class Stack:
    """`stack.redis`, `stack.pg` and `stack.kafka` start the server when it is down or frozen, so that a
    test never inherits what the one before it broke."""

    def __init__(self):
        parent = os.environ.get("URR_TEST_DIR", "/var/tmp")  # /tmp may be memory: fsync must mean something
        sweep(parent)
        self.folder = tempfile.mkdtemp(prefix=f"urr-test-{os.getpid()}-", dir=parent)
        os.chmod(self.folder, 0o711)  # the servers' user must get to its own folder below
        user = process.server_user()
        self._servers = {server.name: server
                         for server in (servers.Redis(self.folder, user), servers.Postgres(self.folder, user),
                                        servers.Kafka(self.folder, user))}
        # One lasting thread per server: steps on one never interleave, steps on two may overlap, and
        # the death signal of a child is tied to the thread that made it.
        self._threads = {name: ThreadPoolExecutor(1, name) for name in self._servers}
        self._templates = {}
        self._topics_made = False
        self._number = 0
        self._number_lock = threading.Lock()
        self._listen()

    redis = property(lambda self: self.up("redis"))
    pg = property(lambda self: self.up("pg"))
    kafka = property(lambda self: self.up("kafka"))

    def up(self, name):
        server = self._servers[name]
        if not server.running or server.frozen:
            self.act("start", name)
        return server

    def act(self, action, name):
        """kill, freeze, thaw, start or restart one server; returns when it is done."""
        if action not in ACTIONS or name not in self._servers:
            raise ValueError(f"{action} {name}: want one of {ACTIONS} and one of {list(self._servers)}")
        self._threads[name].submit(getattr(self._servers[name], action)).result()

    def database(self, template=None):
        """The URL of a new database: empty, or with the schema of `template` (ticket, payment, stats)."""
        pg = self.pg
        name = f"t{self.number()}"
        source = f" TEMPLATE {self._template(template)}" if template else ""
        pg.execute(f"CREATE DATABASE {name} OWNER urr{source}")
        return pg.url(name)

    def drop_database(self, url):
        self.pg.execute(f"DROP DATABASE IF EXISTS {url.rsplit('/', 1)[1]} WITH (FORCE)")

    def topics(self):
        """The contract's topics, made once per run by urrctl."""
        if not self._topics_made:
            self._urrctl("topics", "create", KAFKA_BROKERS=self.kafka.brokers)
            self._topics_made = True

    def number(self):
        with self._number_lock:
            self._number += 1
            return self._number

    def environment(self, names=("redis", "pg", "kafka"), database=None):
        """What a C test reads; see tests/CMakeLists.txt."""
        env = {"URR_TEST_CONTROL": os.path.join(ROOT, "tests/harness/control"),
               "URR_TEST_STATE": self.folder}
        if "redis" in names:
            env["URR_TEST_REDIS_URL"] = self.redis.url
        if "pg" in names:
            env["URR_TEST_PG_URL"] = database or self.database()
        if "kafka" in names:
            env["URR_TEST_KAFKA"] = self.kafka.brokers
        return env

    def close(self):
        self._socket.close()
        for name, thread in self._threads.items():
            thread.submit(self._servers[name].kill).result()
            thread.shutdown()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _template(self, service):
        """Migrated once per run; databases are then copied from it."""
        if service not in self._templates:
            name = f"template_{service}"
            self._servers["pg"].execute(f"CREATE DATABASE {name} OWNER urr")
            self._urrctl("migrate", service,
                         **{service.upper() + "_DATABASE_URL": self._servers["pg"].url(name)})
            self._templates[service] = name
        return self._templates[service]

    def _urrctl(self, *arguments, **settings):
        urrctl = program("urrctl")
        if not urrctl:
            raise RuntimeError(f"{build_dir()}/bin/urrctl is not built: it makes schemas and topics")
        done = subprocess.run([urrctl, *arguments], capture_output=True, text=True, timeout=120,
                              stdin=subprocess.DEVNULL, env={**os.environ, **settings})
        if done.returncode != 0:
            raise RuntimeError(f"urrctl {' '.join(arguments)} ended with {done.returncode}:\n"
                               + done.stdout + done.stderr)

    def _listen(self):
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(os.path.join(self.folder, "control.sock"))
        self._socket.listen(8)
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection):
        with connection, connection.makefile("rw") as stream:
            try:
                self.act(*json.loads(stream.readline()))
                reply = "ok"
            except Exception as error:  # the caller at the other end must hear of anything
                reply = str(error) or repr(error)
            try:
                stream.write(json.dumps(reply) + "\n")
            except OSError:
                pass
