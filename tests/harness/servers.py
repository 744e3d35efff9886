"""PostgreSQL, Redis and Kafka as tests need them: real, durable, and ready to be killed.

A server is `down`, `up` or `frozen` (SIGSTOP: it keeps its connections and answers nothing). start()
returns when the server answers; prepare() makes its data folder once. Methods are not thread-safe:
stack.py gives each server its own thread."""
import glob
import os
import secrets
import shutil
import signal
import socket
import subprocess
import time

from . import process

START_SECONDS = 90  # a cold JVM on a busy two-core machine


class Server:
    name = ""
    death_signal = "KILL"

    def __init__(self, folder, user):
        self.folder = os.path.join(folder, self.name)
        self.log = os.path.join(folder, self.name + ".log")
        self.user = user
        self.port = process.free_port()
        self.child = None
        self.frozen = False
        self.prepared = False

    def prepare(self):
        raise NotImplementedError

    def command(self):
        raise NotImplementedError

    def answers(self):
        raise NotImplementedError

    @property
    def running(self):
        return self.child is not None and self.child.poll() is None

    def start(self):
        """Up and answering afterwards, whatever it was before."""
        if self.frozen:
            self.thaw()
        if not self.running:
            if not self.prepared:
                os.mkdir(self.folder, 0o700)
                process.give(self.folder, self.user)
                self.prepare()
                self.prepared = True
            prefix = process.privileges(self.user, self.death_signal)
            self.child = process.spawn(prefix + self.command(), self.log, cwd=self.folder)
        self._wait_until_it_answers()

    def kill(self):
        """kill -9, of every process of the server. Returns when all are gone."""
        if not self.running:
            return
        victims = process.kill_tree(self.child.pid)
        self.child.wait()
        process.eventually(lambda: all(process.gone(pid) for pid in victims), 10,
                           what=f"the death of {self.name}")
        self.frozen = False

    def freeze(self):
        if not self.running:
            raise RuntimeError(f"{self.name} is down: nothing to freeze")
        process.signal_tree(self.child.pid, signal.SIGSTOP)
        self.frozen = True

    def thaw(self):
        if self.running:
            process.signal_tree(self.child.pid, signal.SIGCONT, children_first=True)
        self.frozen = False

    def restart(self):
        self.kill()
        self.start()

    def _wait_until_it_answers(self):
        deadline = time.monotonic() + START_SECONDS
        while not self.answers():
            if self.child.poll() is not None:
                raise RuntimeError(f"{self.name} ended with {self.child.returncode}:\n"
                                   + process.tail(self.log))
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self.name} does not answer on port {self.port}:\n"
                                   + process.tail(self.log))
            time.sleep(0.05)

    def _run(self, *command):
        """A preparing step as the server's user."""
        done = subprocess.run(process.privileges(self.user) + list(command), cwd=self.folder,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{command[0]} failed:\n{done.stdout}{done.stderr}")
        return done.stdout

    def _write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w") as file:
            file.write(text)
        process.give(path, self.user)
        return path


class Redis(Server):
    name = "redis"

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.port}/0"

    def prepare(self):
        self._write("redis.conf", f"""
port {self.port}
bind 127.0.0.1
dir {self.folder}
appendonly yes
appendfsync everysec
save ""
maxmemory-policy noeviction
""")

    def command(self):
        return ["redis-server", os.path.join(self.folder, "redis.conf")]

    def answers(self):
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1) as connection:
                connection.settimeout(1)
                connection.sendall(b"PING\r\n")
                return connection.recv(64).startswith(b"+PONG")  # not -LOADING
        except OSError:
            return False


class Postgres(Server):
    name = "pg"
    death_signal = "QUIT"  # immediate shutdown: takes the backends along

    def __init__(self, folder, user):
        super().__init__(folder, user)
        self.password = secrets.token_hex(16)

    def url(self, database, role="urr"):
        return f"postgresql://{role}:{self.password}@127.0.0.1:{self.port}/{database}"

    @property
    def admin_url(self):
        return self.url("postgres", "postgres")

    def prepare(self):
        secret = self._write("password", self.password)
        os.chmod(secret, 0o600)
        # --no-sync only spares the empty cluster; the server itself runs with fsync on.
        self._run(self._binary("initdb"), "-D", os.path.join(self.folder, "data"), "-U", "postgres",
                  "-A", "scram-sha-256", "--pwfile", secret, "-E", "UTF8", "--locale=C.UTF-8",
                  "--no-sync")

    def command(self):
        settings = {
            "listen_addresses": "127.0.0.1", "port": self.port, "unix_socket_directories": "",
            "fsync": "on", "synchronous_commit": "on", "max_connections": 200, "timezone": "UTC",
            "log_min_messages": "warning", "log_line_prefix": "%m [%p] ", "deadlock_timeout": "200ms",
        }
        options = [word for item in settings.items() for word in ("-c", "%s=%s" % item)]
        return [self._binary("postgres"), "-D", os.path.join(self.folder, "data")] + options

    def answers(self):
        import psycopg2
        try:
            psycopg2.connect(self.admin_url, connect_timeout=2).close()
            return True
        except psycopg2.OperationalError:
            return False

    def start(self):
        fresh = not self.prepared
        super().start()
        if fresh:
            # Tests work with the rights a service has in production, not with the superuser's.
            self.execute("CREATE ROLE urr LOGIN CREATEDB PASSWORD %s", (self.password,))

    def empty(self, url):
        """Deletes all rows of a migrated database; what the migrations recorded stays."""
        self.execute("""
            DO $$ DECLARE names text; BEGIN
                SELECT string_agg(quote_ident(tablename), ', ') INTO names FROM pg_tables
                 WHERE schemaname = 'public' AND tablename NOT IN ('schema_migrations', 'schema_functions');
                EXECUTE 'TRUNCATE ' || names || ' RESTART IDENTITY CASCADE';
            END $$""", url=url)

    def execute(self, statement, values=None, url=None):
        import psycopg2
        connection = psycopg2.connect(url or self.admin_url, connect_timeout=10)
        try:
            connection.autocommit = True
            with connection.cursor() as cursor:
                cursor.execute(statement, values)
        finally:
            connection.close()

    @staticmethod
    def _binary(name):
        found = glob.glob(f"/usr/lib/postgresql/*/bin/{name}")
        if not found:
            raise RuntimeError("PostgreSQL's server programs are missing: run compose/install")
        return max(found, key=lambda path: int(path.split("/")[4]))


class Kafka(Server):
    name = "kafka"

    def __init__(self, folder, user):
        super().__init__(folder, user)
        self.controller_port = process.free_port()

    @property
    def brokers(self):
        return f"127.0.0.1:{self.port}"

    def prepare(self):
        self._link_jars()
        self._write("log4j.properties", """
log4j.rootLogger=WARN, stdout
log4j.appender.stdout=org.apache.log4j.ConsoleAppender
log4j.appender.stdout.layout=org.apache.log4j.PatternLayout
log4j.appender.stdout.layout.ConversionPattern=%d %p %m (%c)%n
""")
        self._write("server.properties", f"""
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{self.controller_port}
listeners=PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self.controller_port}
advertised.listeners=PLAINTEXT://127.0.0.1:{self.port}
controller.listener.names=CONTROLLER
log.dirs={self.folder}/data
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
group.initial.rebalance.delay.ms=0
broker.heartbeat.interval.ms=200
broker.session.timeout.ms=1500
auto.create.topics.enable=false
""")
        # The short session: after a kill -9 the controller takes the broker back only when its old
        # registration has run out (9 s by default).
        uuid = self._java("kafka.tools.StorageTool", "random-uuid").split()[-1]
        self._java("kafka.tools.StorageTool", "format", "-t", uuid, "-c", "server.properties")

    def command(self):
        return self._jvm() + ["-Xmx512m", "kafka.Kafka", os.path.join(self.folder, "server.properties")]

    def answers(self):
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient
        if socket.socket().connect_ex(("127.0.0.1", self.port)) != 0:
            return False
        client = AdminClient({"bootstrap.servers": self.brokers, "log_level": 0,
                              "reconnect.backoff.ms": 20})
        try:
            return len(client.list_topics(timeout=2).brokers) > 0
        except KafkaException:
            return False

    def _java(self, *arguments):
        return self._run(*self._jvm(), *arguments)

    def _jvm(self):
        # C1 only: a test broker lives for minutes, and its start is what we wait for.
        return ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC",
                f"-Dlog4j.configuration=file:{self.folder}/log4j.properties",
                "-cp", os.path.join(self.folder, "lib", "*")]

    def _link_jars(self):
        """The cache may lie in a home folder the server's user cannot search: link, or copy, the jars."""
        cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        jars = glob.glob(os.path.join(cache, "urr", "kafka-3.9.1", "lib", "*.jar"))
        if not jars:
            raise RuntimeError("Kafka's jars are missing: run compose/install")
        library = os.path.join(self.folder, "lib")
        os.mkdir(library, 0o755)
        os.chmod(library, 0o755)
        for jar in jars:
            target = os.path.join(library, os.path.basename(jar))
            try:
                os.link(jar, target)
            except OSError:
                shutil.copyfile(jar, target)
