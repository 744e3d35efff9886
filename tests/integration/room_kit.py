"""The waiting room's scripts as an instance of the daemon calls them: the same sources, keys, arguments and
memory as queue-core/room.c, with a clock that tests move."""
import glob
import os
import time
from dataclasses import dataclass, field

import redis

from harness.stack import ROOT

SCRIPTS = os.path.join(ROOT, "queue-core", "scripts")
KEYS = ("seq queue active seen active-seen parked pos-owner threshold settings state vwr log active-place"
        " unclaimed away holds ended").split()
POLL_KEYS = "state active queue seen active-seen unclaimed".split()
TWO33 = 1 << 33
LINE_END = TWO33 - (1 << 20)
DAY = 86_400_000

# Every duration ends in half a second and tests move the clock by whole ones: no comparison of times in
# a script can fall on either side by chance.
RULES = {
    "threshold": 3, "activeTtl": 100_500, "idle": 40_500, "claimTtl": 20_500, "seenTtl": 60_500, "batch": 2,
    "interval": 500, "restore": 30_500, "maxLength": 1_000_000, "maxWait": 0, "clean": 5_500,
    "vwrBatch": 500, "vwrInterval": 10_000, "logEvery": 10_000,
}


def sources():
    """name -> source, put together as room.c does."""
    with open(os.path.join(SCRIPTS, "prelude.lua")) as file:
        prelude = file.read()
    out = {}
    for path in sorted(glob.glob(os.path.join(SCRIPTS, "*.lua"))):
        name = os.path.basename(path)[:-4]
        with open(path) as file:
            out[name] = file.read() if name == "poll" else prelude + file.read()
    del out["prelude"]
    return out


def key(event, name):
    return "{%s}:%s" % (event, name)


def score(epoch, number):
    return epoch * TWO33 + number


class Clock:
    """Milliseconds that stand still until moved."""

    def __init__(self):
        self.now = int(time.time()) * 1000

    def move(self, seconds):
        self.now += int(seconds * 1000)

    def offset(self):
        return self.now - int(time.time() * 1000)


@dataclass
class Seen:
    """What a user was told last."""
    status: str
    position: int
    expiry: int
    place: int  # score; 0: not told
    detail: str
    queue: int
    active: int
    threshold: int
    epoch: int


@dataclass
class Shown:
    """What a user's browser sends along."""
    place: int = 0
    tier1: int = 0
    token: int = 0

    @property
    def pair(self):
        return divmod(self.place, TWO33)


@dataclass
class Instance:
    """One process of the daemon."""
    url: str
    clock: Clock
    rules: dict = field(default_factory=lambda: dict(RULES))

    def __post_init__(self):
        self.memory = {}
        self.sources = sources()
        self.connect(self.url)

    def connect(self, url):
        self.redis = redis.Redis.from_url(url, decode_responses=True)
        self.run_id = self.redis.info("server")["run_id"]
        self.scripts = {name: self.redis.register_script(text) for name, text in self.sources.items()}

    def arguments(self, event, *own, place=0):
        memory = self.memory.get(event, [0, 0, 0, 0, 0])
        return [self.run_id, self.clock.offset(), " ".join(str(self.rules[name]) for name in RULES),
                " ".join(map(str, memory)), *divmod(place, TWO33), *own]

    def keys(self, event, names=KEYS):
        return [key(event, name) for name in names]

    def run(self, script, event, *own, place=0, client=None):
        reply = self.scripts[script](keys=self.keys(event), args=self.arguments(event, *own, place=place),
                                     client=client or self.redis)
        return self.learn(script, event, reply)

    def learn(self, script, event, reply):
        """Every answer refreshes what the instance remembers; returns the script's own part."""
        memory = self.memory.setdefault(event, [0, 0, 0, 0, 0])
        epoch, seq, self.queue, self.active, self.threshold = map(int, reply[:5])
        memory[:3] = [max(memory[0], epoch), max(memory[1], seq), self.threshold]
        if script in ("assign", "room", "serve", "view"):
            memory[3:5] = [int(reply[6]), int(reply[5])]
        return reply[5:]

    def visit(self, event, user, join=False, shown=Shown()):
        own = self.run("visit", event, user, int(join), *divmod(shown.tier1, TWO33), shown.token,
                       place=shown.place)
        return self.seen(event, own)

    def seen(self, event, own):
        return Seen(own[0], int(own[1]), int(own[2]), int(own[3]), own[4], self.queue, self.active,
                    self.threshold, self.memory[event][0])

    def join(self, event, user, shown=Shown()):
        return self.visit(event, user, True, shown)

    def poll(self, event, user, shown=Shown()):
        """poll.lua, then visit.lua when it says so."""
        epoch = self.memory.get(event, [0])[0]
        reply = self.scripts["poll"](keys=self.keys(event, POLL_KEYS), args=[
            self.run_id, self.clock.offset(), epoch, user, int(shown.token > 0)])
        if reply == ["visit"]:
            return self.visit(event, user, False, shown)
        self.memory.setdefault(event, [0, 0, 0, 0, 0])[0] = max(epoch, int(reply[0]))
        self.queue, self.active, self.threshold = map(int, reply[2:5])
        return self.seen(event, reply[5:])

    def leave(self, event, user, reason="left", shown=Shown()):
        return self.run("leave", event, user, reason, shown.token, place=shown.place)[0]

    def admit(self, event):
        """One call: (paced, ended, parked, more, {user: expiry})."""
        paced, ended, parked, more, *users = self.run("admit", event)
        return paced, ended, parked, more, {u: int(x) for u, x in zip(users[::2], users[1::2])}

    def clean(self, event):
        """A whole pass: how many were moved, how many forgotten."""
        moved = forgotten = 0
        first = 1
        while True:
            m, f, more = self.run("clean", event, first)
            moved, forgotten, first = moved + m, forgotten + f, 0
            if not more:
                return moved, forgotten

    def clear(self, event):
        cleared = 0
        while True:
            count, more = self.run("clear", event, "op")
            cleared += count
            if not more:
                return cleared

    def configure(self, event, **pairs):
        flat = [text for pair in pairs.items() for text in map(str, pair)]
        self.run("configure", event, "op", *flat)

    def room(self, event, action, count=0):
        active, serving, moved = map(int, self.run("room", event, action, "op", count)[:3])
        return active, serving, moved

    def assign(self, event):
        """(active, serving, place as a score or 0)."""
        active, serving, number = map(int, self.run("assign", event)[:3])
        return active, serving, score(self.memory[event][0], number) if number else 0

    def serve(self, event):
        return tuple(map(int, self.run("serve", event)[:3]))

    def watch(self, event, *users):
        closed, *flat = self.run("watch", event, *users)
        return closed, [(flat[i], int(flat[i + 1]), int(flat[i + 2])) for i in range(0, len(flat), 3)]

    def view(self, event):
        names = ("roomActive serving parked paused closedReason opensAt title artist registered lastMinute"
                 " restoring").split()
        return dict(zip(names, self.run("view", event)))


@dataclass
class Sets:
    """Where everybody is, read from Redis in one transaction; queue and parked in order."""
    queue: dict
    parked: dict
    active: dict  # user -> place
    expiry: dict
    extra: dict

    @staticmethod
    def read(client, event):
        pipe = client.pipeline(transaction=True)
        for name in ("queue", "parked", "active", "seen", "active-seen", "unclaimed", "away"):
            pipe.zrange(key(event, name), 0, -1, withscores=True)
        pipe.hgetall(key(event, "active-place"))
        pipe.hgetall(key(event, "pos-owner"))
        queue, parked, active, seen, active_seen, unclaimed, away, places, owners = pipe.execute()
        as_dict = [{u: int(s) for u, s in part} for part in (queue, parked, active)]
        return Sets(as_dict[0], as_dict[1], {u: int(s) for u, s in places.items()}, as_dict[2],
                    {"seen": dict(seen), "active-seen": dict(active_seen), "unclaimed": dict(unclaimed),
                     "away": dict(away), "owners": owners})

    def check(self):
        """What always holds, whatever happened."""
        groups = [set(self.queue), set(self.parked), set(self.active)]
        assert sum(map(len, groups)) == len(set.union(*groups)), "a user in two sets"
        places = [*self.queue.values(), *self.parked.values(), *self.active.values()]
        assert len(places) == len(set(places)), "two share a place"
        assert set(self.expiry) == groups[2] == set(self.extra["active-seen"])
        assert set(self.extra["seen"]) == groups[0]
        assert set(self.extra["away"]) == groups[1]
        assert set(self.extra["unclaimed"]) <= groups[2]
        expected = {str(place): letter + user for letter, part in
                    (("q", self.queue), ("p", self.parked), ("a", self.active)) for user, place in part.items()}
        living = {place: owner for place, owner in self.extra["owners"].items() if owner[0] != "f"}
        assert living == expected, "pos-owner disagrees"


class Follower:
    """Knows who waits, in which order, and who is inside from {E}:log alone. Starts at the newest complete
    snapshot, and again when an `epoch` entry says that what it read may not have happened."""

    def __init__(self, client, event):
        self.client, self.event = client, event
        self.restart()

    def restart(self):
        self.queue, self.parked, self.active = {}, {}, {}
        self.threshold = None
        self.complete = False
        self.snapshot = self.client.hget(key(self.event, "state"), "snapshot")
        self.position = "0-0"
        if self.snapshot:
            milliseconds, sequence = map(int, self.snapshot.split("-"))
            self.position = f"{milliseconds}-{sequence - 1}" if sequence else f"{milliseconds - 1}-{2**64 - 1}"
        self.first_epoch = True
        self.entries = 0

    def follow(self):
        while True:
            batch = self.client.xrange(key(self.event, "log"), f"({self.position}", count=1000)
            for number, entry in batch:
                if entry["k"] == "epoch" and entry["r"] == "lost" and self.complete and self.live:
                    self.restart()
                    break
                self.position = number
                self.apply(entry)
            else:
                if len(batch) < 1000:
                    self.live = True  # from here on, entries are news
                    self.complete = True
                    return self

    live = False

    def apply(self, entry):
        self.entries += 1
        kind = entry["k"]
        if kind == "part":
            self.put_part(entry)
        elif kind in ("join", "return", "admit", "park", "expire", "leave", "clear"):
            for group in (self.queue, self.parked, self.active):
                group.pop(entry["u"], None)
            into = {"join": self.queue, "return": self.queue, "admit": self.active, "park": self.parked}.get(kind)
            if into is not None:
                into[entry["u"]] = int(entry["s"])
            assert len(self.active) <= int(entry["a"])
        if "th" in entry:
            self.threshold = int(entry["th"])

    def put_part(self, entry):
        """Only for those who have not been following: others know it already."""
        words = entry["members"].split(" ")
        group = getattr(self, entry["of"])
        for user, place in zip(words[::2], words[1::2]):
            group[user] = int(place)

    def waiting(self):
        return sorted(self.queue, key=self.queue.get)
