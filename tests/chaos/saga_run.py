"""One run of the saga under fire: own servers, own daemons, journeys, blows, silence, judgement."""
import collections
import dataclasses
import os
import sys
import tempfile
import time

import psycopg2

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]

import checker  # noqa: E402
import facts  # noqa: E402
from harness import payments, process  # noqa: E402
from harness.daemon import Daemon  # noqa: E402
from harness.stack import Stack  # noqa: E402
from journeys import Script  # noqa: E402
from load import Load, Publisher, World  # noqa: E402
from monkey import DaemonVictim, Monkey, ServerVictim  # noqa: E402
from watcher import Watcher  # noqa: E402

SECRET = "0123456789abcdef0123456789abcdef0123456789abcdef"
EVENTS_PER_JOURNEY = 1.55   # payment events, about, duplicates and refunds included
SILENCE_SECONDS = 240
SHOWN = 5                   # complaints of a kind
PORTS = {"urr-ticket-consumer": "TICKET_CONSUMER_PORT", "urr-relay": "RELAY_PORT", "urr-stats": "STATS_PORT"}


@dataclasses.dataclass
class Options:
    events: int = 8000
    seconds: float = 120.0       # how long events are published, and how long at least blows fall
    kills: int = None            # None: as many as fit in `seconds`
    seed: str = "1"
    pace: float = 1.0            # above 1: more blows
    ticket: int = 2              # instances
    relay: int = 2
    stats: int = 2
    planted: bool = False        # the ticket consumer publishes before it commits
    keep: str = None             # folder for the daemons' logs


class Report:
    def __init__(self):
        self.complaints, self.lines = [], []
        self.kills = self.freezes = 0
        self.by_victim = {}

    @property
    def ok(self):
        return not self.complaints

    def text(self):
        lines = [f"{name:<34}{value:>14}" for name, value in self.lines]
        counts = collections.Counter(c.kind for c in self.complaints)
        for kind in ("lost", "doubled", "reordered", "made up", "seats", "standing", "ledger", "stats",
                     "dead letters", "without effect", "died"):
            lines.append(f"{kind:<34}{counts[kind]:>14}")
        shown = collections.Counter()
        for c in self.complaints:
            shown[c.kind] += 1
            if shown[c.kind] <= SHOWN:
                lines.append(f"  {c.kind}: {c.text}"[:600])
        lines.append("OK" if self.ok else "FAILED")
        return "\n".join(lines)


def run(options, say=lambda text: None):
    folder = options.keep or tempfile.mkdtemp(prefix="urr-saga-")
    os.makedirs(folder, exist_ok=True)
    stack = Stack()
    try:
        return _Run(options, stack, folder, say).go()
    finally:
        stack.close()


class _Run:
    def __init__(self, options, stack, folder, say):
        self.options, self.stack, self.folder, self.say = options, stack, folder, say
        self.begin = time.monotonic()
        self.report = Report()

    def go(self):
        self._servers()
        self._daemons()
        journeys = max(1, round(self.options.events / EVENTS_PER_JOURNEY))
        world = World(self.ticket_url, seats=2 * journeys + 2000)
        self.script = Script(self.options.seed)
        self.publisher = Publisher(self.brokers, self.script.sent)
        self.load = Load(self.ticket_url, world, self.script, self.publisher, journeys, self.options.seconds * 0.9)
        self.monkey = Monkey(self._victims(), self.options.seed, self.options.kills)
        self.monkey.start()
        self.say(f"{journeys} journeys over {self.options.seconds:.0f} s, seed {self.options.seed};"
                 f" logs in {self.folder}")
        watcher = Watcher(self.brokers, self.ticket_url).start()
        try:
            with payments.PaymentService(self.brokers, self.publisher.publish, 0.1, self.options.seed) as double:
                self.load.start()
                self._storm()
                silence = time.monotonic()
                self._silence(double)
                silence = time.monotonic() - silence
            watcher.stop()
            self.load.stop()
            self._judge(watcher, double, silence)
        finally:
            self.monkey.release()
            self._end_daemons()
        return self.report

    # --- building up -------------------------------------------------------------------------------

    def _servers(self):
        self.brokers = self.stack.kafka.brokers
        self.ticket_url, self.stats_url = self.stack.database("ticket"), self.stack.database("stats")
        self.stack.topics()
        for url in (self.ticket_url, self.stats_url):
            facts.watch_outbox(url)
        # An operator has looked at the refunds of this run and knows that they are right.
        with psycopg2.connect(self.ticket_url) as db, db.cursor() as cursor:
            cursor.execute("INSERT INTO consumer_control (consumer_group, changed_by, brake_released_until)"
                           " VALUES (%s, 'chaos', now() + interval '1 day')", (checker.TICKET,))
        db.close()

    def _daemons(self):
        kafka = {"KAFKA_BROKERS": self.brokers}
        consumer = {**kafka, "KAFKA_SESSION_TIMEOUT_MS": "6000"}  # the broker's least
        settings = {
            "urr-ticket-consumer": {**consumer, "TICKET_DATABASE_URL": self.ticket_url},
            "urr-relay": {**kafka, "TICKET_DATABASE_URL": self.ticket_url, "STATS_DATABASE_URL": self.stats_url},
            "urr-stats": {**consumer, "STATS_DATABASE_URL": self.stats_url, "JWT_SECRET": SECRET},
        }
        if self.options.planted:
            settings["urr-ticket-consumer"]["URR_TEST_PUBLISH_BEFORE_COMMIT"] = "1"
        counts = {"urr-ticket-consumer": self.options.ticket, "urr-relay": self.options.relay,
                  "urr-stats": self.options.stats}
        self.daemons = {}
        for name, count in counts.items():
            for number in range(count):
                own = dict(settings[name])
                if name != "urr-relay":
                    own["KAFKA_GROUP_INSTANCE_ID"] = f"{name}-{number}"
                self.daemons[f"{name.removeprefix('urr-')}-{number}"] = Daemon(
                    name, own, os.path.join(self.folder, f"{name}-{number}.log"), PORTS[name])

    def _victims(self):
        pace = self.options.pace
        victims = [ServerVictim(self.stack, "pg", pause=6 / pace, down=0.5, freeze_at_most=2.5),
                   ServerVictim(self.stack, "kafka", pause=7 / pace, down=0.5, freeze_at_most=3)]
        for name, daemon in self.daemons.items():
            # Now and then longer than the session time-out of 6 s: the frozen one comes back as a zombie.
            victims.append(DaemonVictim(daemon, name, pause=3 / pace, down=1.0, freeze_at_most=8))
        return victims

    # --- the run -----------------------------------------------------------------------------------

    def _storm(self):
        begin, told = time.monotonic(), 0.0
        while True:
            now = time.monotonic() - begin
            enough = self.monkey.exhausted if self.options.kills is not None else True
            if now >= self.options.seconds and enough:
                break
            self._look_after()
            if now - told >= 10:
                told = now
                self.say(self._progress(now))
            time.sleep(0.1)
        self.monkey.stop()
        self.report.kills, self.report.freezes = self.monkey.count("kill"), self.monkey.count("freeze")
        self.report.by_victim = {v.name: (self.monkey.count("kill", v.name), self.monkey.count("freeze", v.name))
                                 for v in self.monkey.victims}

    def _progress(self, now):
        return (f"{now:5.0f} s  {self.load.started} journeys begun, {self.load.finished_journeys} ended,"
                f" {self.publisher.published} events published, {self.monkey.count('kill')} kills,"
                f" {self.monkey.count('freeze')} freezes")

    def _look_after(self):
        if self.load.failure:
            raise self.load.failure

    def _silence(self, double):
        """Until nothing is on its way any more: journeys, publisher, consumers, outboxes, refunds."""
        self.say("silence: everything is up, waiting until nothing moves")
        deadline = time.monotonic() + SILENCE_SECONDS
        quiet, before, moved = None, None, time.monotonic()
        while time.monotonic() < deadline:
            self._look_after()
            state = self._on_its_way(double)
            if state != before:
                before, moved = state, time.monotonic()
            elif self.publisher.waiting and time.monotonic() - moved > 20:
                self.publisher.mend()
                moved = time.monotonic()
            if state is not None and not any(state.values()):
                if quiet is not None and time.monotonic() - quiet > 1:
                    return
                quiet = quiet or time.monotonic()
            else:
                quiet = None
            time.sleep(0.2)
        self._complain("lost", f"after {SILENCE_SECONDS} s there is still something on its way: {before}")

    def _on_its_way(self, double):
        try:
            ends = facts.ends(self.brokers, facts.TOPICS)
            way = {"journeys": self.load.wanted - self.load.finished_journeys, "publisher": self.publisher.waiting}
            for url, name, group, topics in ((self.ticket_url, "ticket", checker.TICKET, (checker.PAYMENTS,)),
                                             (self.stats_url, "stats", checker.STATS, checker.DOMAIN)):
                db = psycopg2.connect(url)
                at = facts.offsets(db, group)
                way[f"{name} lag"] = sum(end - at.get(place, 0) for place, end in ends.items() if place[0] in topics)
                with db.cursor() as cursor:
                    cursor.execute("SELECT count(*) FROM outbox")
                    way[f"{name} outbox"] = cursor.fetchone()[0]
                    if name == "ticket":
                        cursor.execute("SELECT count(*) FROM payment_ledger WHERE state = 'refund_requested'")
                        way["refunds"] = cursor.fetchone()[0]
                db.close()
            way["commands"] = sum(end - double.position.get(partition, 0)
                                  for (topic, partition), end in ends.items() if topic == checker.COMMANDS)
            return way
        except Exception as error:  # a server that is still coming up
            self.say(f"not yet: {error}")
            return None

    # --- the judgement -----------------------------------------------------------------------------

    def _judge(self, watcher, double, silence):
        found = facts.collect(self.brokers, self.ticket_url, self.stats_url, self.script)
        judge = checker.Judge(found)
        self.report.complaints += judge.judge()
        for text in watcher.complaints:
            self._complain("without effect", text)
        for text in self.monkey.complaints:
            self._complain("died", text)
        for name, daemon in self.daemons.items():
            mark = daemon.sanitizer_report()
            if mark:
                self._complain("died", f"{name}: {mark}")
        by_topic = collections.Counter(r.topic for r in found.records)
        letters = sum(n for topic, n in by_topic.items() if topic.endswith(".dlq"))
        follow_ups = sum(by_topic[t] for t in facts.TOPICS if t != checker.PAYMENTS)
        if watcher.seen < follow_ups:
            self._complain("lost", f"the watcher saw {watcher.seen} of {follow_ups} follow-ups")
        self.report.lines = [
            ("kills (-9)", self.report.kills), ("freezes", self.report.freezes),
            *((f"  {name}: kills / freezes", f"{k} / {f}") for name, (k, f) in self.report.by_victim.items()),
            ("journeys", self.load.wanted), ("payment events in the log", by_topic[checker.PAYMENTS]),
            ("  applied to ticket_db", len(found.processed[checker.TICKET])),
            ("reservations", len(found.ticket["reservations"])),
            ("payments in the ledger", len(found.ticket["payment_ledger"])),
            ("refunds answered", len(double.answered)),
            ("follow-ups in Kafka", follow_ups), ("  looked at while it ran", watcher.seen),
            ("dead letters", letters), ("sent once more by the relay", judge.repeats),
            ("seconds until silence", f"{silence:.1f}"),
            ("seconds in all", f"{time.monotonic() - self.begin:.1f}"),
        ]

    def _complain(self, kind, text):
        self.report.complaints.append(checker.Complaint(kind, text))

    def _end_daemons(self):
        for daemon in self.daemons.values():
            if daemon.child is not None:
                daemon.thaw()
                daemon.kill()
