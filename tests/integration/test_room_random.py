"""Random interleavings of everything that can happen in a waiting room, called by several instances with
different memories under a moved clock. After each step Redis must hold what a small model of the rules
holds, and a follower that reads only the log must know the same."""
import random

import pytest
from room_kit import DAY, RULES, TWO33, Clock, Follower, Instance, Sets, Shown, key

E = "random"
USERS = [f"u{i}" for i in range(40)]
STEPS = 3500


class Model:
    """The rules of the waiting room without Redis, for one epoch. Times in ms."""

    def __init__(self, clock):
        self.clock = clock
        self.seq = 0
        self.threshold = RULES["threshold"]
        self.paused = self.closed = False
        self.queue, self.parked, self.active = {}, {}, {}  # user -> number
        self.seen, self.away, self.slot = {}, {}, {}  # slot: user -> [expiry, heard, claim by or None]
        self.room = False
        self.used = set()
        self.last_admit = self.grace = self.last_clean = self.no_evict = 0

    @property
    def now(self):
        return self.clock.now

    def order(self):
        return sorted(self.queue, key=self.queue.get)

    def end_slot(self, user):
        del self.slot[user]
        return self.active.pop(user)

    def enqueue(self, user, number):
        self.queue[user], self.seen[user] = number, self.now

    def let_in(self, user, number, claim_by):
        self.queue.pop(user, None)
        self.seen.pop(user, None)
        self.active[user] = number
        self.slot[user] = [self.now + RULES["activeTtl"], self.now, claim_by]

    def park(self, user, number):
        self.queue.pop(user, None)
        self.seen.pop(user, None)
        self.parked[user], self.away[user] = number, self.now

    def waiting_answer(self, user):
        return ("closed", 0) if self.closed else ("queued", self.order().index(user) + 1)

    def visit(self, user, join, tier1=0):
        if user in self.slot:
            if self.slot[user][0] > self.now:
                self.slot[user][1:] = [self.now, None]
                return "active", 0
            self.end_slot(user)
        if user in self.parked:
            self.enqueue(user, self.parked.pop(user))
            del self.away[user]
        if user in self.queue:
            self.seen[user] = self.now
            return self.waiting_answer(user)
        if not join:
            return "not_in_queue", 0
        return self.newcomer(user, 0 if tier1 in self.used else tier1)

    def newcomer(self, user, tier1):
        if self.closed:
            return "closed", 0
        if self.room and not tier1:
            return "need_tier1", 0
        first = not self.queue or 0 < tier1 < min(self.queue.values())
        number = tier1 or self.next()
        self.used.add(number)
        if first and len(self.active) < self.threshold and not self.paused:
            self.let_in(user, number, None)
            return "active", 0
        self.enqueue(user, number)
        return self.waiting_answer(user)

    def next(self):
        self.seq += 1
        return self.seq

    def leave(self, user):
        if user in self.active:
            self.end_slot(user)
            return "active"
        for group, times, name in ((self.queue, self.seen, "queued"), (self.parked, self.away, "parked")):
            if user in group:
                del group[user], times[user]
                return name
        return "not_in_queue"

    def admit(self):
        now = self.now
        if now - self.last_admit > 4000:
            self.grace = max(self.grace, now + max(RULES["idle"], RULES["claimTtl"]))
        for user in [u for u, slot in self.slot.items() if slot[0] <= now]:
            self.end_slot(user)
        if now >= self.grace:
            for user in [u for u, slot in self.slot.items() if slot[2] and slot[2] <= now]:
                self.park(user, self.end_slot(user))
            for user in [u for u, slot in self.slot.items() if slot[1] <= now - RULES["idle"]]:
                self.end_slot(user)
        if now - self.last_admit < RULES["interval"]:
            return []
        self.last_admit = now
        admitted = []
        while (not self.paused and not self.closed and self.queue and len(admitted) < RULES["batch"]
               and len(self.active) < self.threshold):
            user = self.order()[0]
            if self.seen[user] < now - RULES["claimTtl"] and now >= self.grace:
                self.park(user, self.queue[user])
            else:
                self.let_in(user, self.queue[user], now + RULES["claimTtl"])
                admitted.append(user)
        return admitted

    def clean(self):
        now = self.now
        if now - self.last_clean < RULES["clean"]:
            return
        if now - self.last_clean > 4 * RULES["clean"]:
            self.no_evict = max(self.no_evict, now + RULES["seenTtl"])
        self.last_clean = now
        if now >= self.no_evict:
            for user in [u for u, at in self.seen.items() if at <= now - RULES["seenTtl"]]:
                self.park(user, self.queue[user])
        for user in [u for u, at in self.away.items() if at <= now - DAY]:
            del self.parked[user], self.away[user]

    def clear(self):
        for group in (self.queue, self.parked, self.active, self.seen, self.away, self.slot):
            group.clear()


class Play:
    def __init__(self, url, seed):
        self.dice = random.Random(seed)
        self.clock = Clock()
        rules = {**RULES, "logEvery": 40}
        self.instances = [Instance(url, self.clock, rules) for _ in range(3)]
        if seed % 2:  # so that a snapshot has many parts, and changes come between them
            for each in self.instances:
                each.sources = {name: text.replace("SNAPSHOT_PART = 200", "SNAPSHOT_PART = 3")
                                for name, text in each.sources.items()}
                each.connect(url)
        self.client = self.instances[0].redis
        self.model = Model(self.clock)
        self.tokens = []  # Tier 1 numbers that somebody may bring
        self.places = {}  # the last place each user was told
        self.instances[0].view(E)
        self.epoch = self.instances[0].memory[E][0]

    def one(self):
        return self.dice.choice(self.instances)

    def user(self):
        return self.dice.choice(USERS)

    def told(self, user, seen, expected):
        assert (seen.status, seen.position) == expected
        if seen.place:
            self.places[user] = seen.place

    def shown(self, user):
        """Now and then a user sends a place along, living or long given up: it must change nothing."""
        place = self.places.get(user, 0) if self.dice.random() < 0.5 else 0
        return Shown(place=place)

    def join(self):
        user = self.user()
        shown = self.shown(user)
        if self.tokens and self.dice.random() < 0.5:
            shown.tier1 = self.dice.choice(self.tokens)
        expected = self.model.visit(user, True, shown.tier1 % TWO33)
        self.told(user, self.one().join(E, user, shown), expected)

    def poll(self):
        user = self.user()
        expected = self.model.visit(user, False)
        call = self.dice.choice([Instance.poll, Instance.visit])
        self.told(user, call(self.one(), E, user, shown=self.shown(user)), expected)

    def watch(self):
        users = self.dice.sample(USERS, 5)
        known = [u for u in users if u in self.model.slot or u in self.model.queue or u in self.model.parked]
        expected = {}
        for user in known:
            over = user in self.model.slot and self.model.slot[user][0] <= self.clock.now
            if not over:
                self.model.visit(user, False)
        for user in users:
            if user in self.model.queue:
                expected[user] = ("queued", self.model.order().index(user) + 1)
            elif user in self.model.slot and self.model.slot[user][0] > self.clock.now:
                expected[user] = ("active", 0)
            else:
                expected[user] = ("gone", 0)
        _, stands = self.one().watch(E, *users)
        assert {u: stand[:2] for u, stand in zip(users, stands)} == expected

    def leave(self):
        user = self.dice.choice([*self.model.active, self.user()])
        assert self.one().leave(E, user, shown=self.shown(user)) == self.model.leave(user)

    def admit(self):
        assert list(self.one().admit(E)[4]) == self.model.admit()

    def clean(self):
        self.one().clean(E)
        self.model.clean()

    def clear(self):
        self.one().clear(E)
        self.model.clear()

    def threshold(self):
        self.model.threshold = self.dice.choice([0, 1, 2, 3, 5, 8])
        self.one().configure(E, threshold=self.model.threshold)

    def pause(self):
        self.model.paused = not self.model.paused
        self.one().configure(E, paused=int(self.model.paused))

    def close(self):
        self.model.closed = not self.model.closed
        self.one().configure(E, closed=int(self.model.closed))

    def room(self):
        self.model.room = not self.model.room
        self.one().room(E, "activate" if self.model.room else "deactivate")

    def assign(self):
        active, _, place = self.one().assign(E)
        assert active == self.model.room
        if active and not self.model.closed:
            assert place % TWO33 == self.model.next()
            self.tokens = (self.tokens + [place])[-10:]
        else:
            assert place == 0

    def wait(self):
        """Time passes beside daemons that do their work, most of the time."""
        for _ in range(self.dice.choice([1, 1, 1, 2, 3, 7])):
            self.clock.move(1)
            if self.dice.random() < 0.9:
                self.admit()
            if self.dice.random() < 0.3:
                self.clean()

    def sleep(self):
        self.clock.move(self.dice.choice([25, 70, 130, 601]))

    def lose_a_day(self):
        self.clock.move(DAY // 1000 + 1)

    WEIGHTS = {"join": 24, "poll": 24, "watch": 4, "leave": 9, "admit": 5, "clean": 2, "wait": 25, "sleep": 0.3,
               "threshold": 1, "pause": 0.6, "close": 0.4, "room": 0.6, "assign": 4, "clear": 0.1,
               "lose_a_day": 0.1}

    def step(self):
        name, = self.dice.choices(list(self.WEIGHTS), self.WEIGHTS.values())
        getattr(self, name)()
        if self.model.closed and self.dice.random() < 0.1:
            self.close()
        if self.model.paused and self.dice.random() < 0.1:
            self.pause()
        return name

    def compare(self, before):
        found = Sets.read(self.client, E)
        found.check()
        base = self.epoch * TWO33
        for group, model in ((found.queue, self.model.queue), (found.parked, self.model.parked),
                             (found.active, self.model.active)):
            assert group == {user: base + number for user, number in model.items()}
        assert list(found.queue) == self.model.order()
        assert len(found.active) <= max(self.model.threshold, before), "more inside than allowed"
        assert int(self.client.get(key(E, "seq")) or 0) == self.model.seq
        return found


@pytest.mark.parametrize("seed", range(4))
def test_redis_the_model_and_the_log_agree_after_every_step(redis_url, seed):
    play = Play(redis_url, seed)
    follower = Follower(play.client, E)
    steps, parked = {}, set()
    for number in range(STEPS):
        before = len(play.model.active)
        name = play.step()
        steps[name] = steps.get(name, 0) + 1
        try:
            found = play.compare(before)
            parked |= set(found.parked.items())
            follower.follow()
            assert (follower.queue, follower.parked, follower.active) == (found.queue, found.parked, found.active)
            assert follower.waiting() == list(found.queue)
            if number % 100 == 0:  # one who comes late, also in the middle of a snapshot
                late = Follower(play.client, E).follow()
                assert (late.queue, late.parked, late.active) == (found.queue, found.parked, found.active)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, step {number} ({name})") from error
    assert set(steps) >= set(Play.WEIGHTS) - {"clear", "lose_a_day"}
    assert len(parked) > 30
    # Cut to two snapshots, whole stream nodes (100 entries) at a time.
    assert follower.entries > 600 > 400 > play.client.xlen(key(E, "log"))
    assert play.client.hget(key(E, "state"), "epoch") == str(play.epoch)
