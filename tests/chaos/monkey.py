"""Kills and freezes: one thread per victim, each with its own seeded dice, so that they overlap."""
import collections
import random
import threading
import time

Blow = collections.namedtuple("Blow", "at victim deed seconds")


class Victim:
    """What can be struck. kill() is kill -9; up() mends whatever was done."""

    def __init__(self, name, pause, down, freeze_at_most):
        self.name = name
        self.pause = pause                      # mean seconds between two blows
        self.down = down                        # longest time it stays dead
        self.freeze_at_most = freeze_at_most    # longest time it stands still

    def kill(self): raise NotImplementedError

    def freeze(self): raise NotImplementedError

    def up(self): raise NotImplementedError

    def died(self):
        """Why it is not running although nobody struck it; None: it is."""
        return None


class ServerVictim(Victim):
    def __init__(self, stack, name, **how):
        super().__init__(name, **how)
        self._stack = stack

    def kill(self): self._stack.act("kill", self.name)

    def freeze(self): self._stack.act("freeze", self.name)

    def up(self): self._stack.act("start", self.name)


class DaemonVictim(Victim):
    def __init__(self, daemon, name, **how):
        super().__init__(name, **how)
        self.daemon = daemon
        self._frozen = False

    def kill(self):
        self.daemon.kill()
        self._frozen = False

    def freeze(self):
        self.daemon.freeze()
        self._frozen = True

    def up(self):
        if self._frozen:
            self.daemon.thaw()
            self._frozen = False
        elif not self.daemon.running:
            self.daemon.start(ready=None)

    def died(self):
        if self.daemon.running:
            return None
        return f"{self.name} ended by itself with {self.daemon.child.returncode}:\n{self.daemon.tail()}"


class Monkey:
    """`kills`: stop after that many kill -9 (None: go on until stop()). A third of the blows are freezes; one
    freeze in four ends in a kill instead of a thaw."""

    def __init__(self, victims, seed, kills=None):
        self.blows, self.complaints = [], []
        self.victims = victims
        self._begin = time.monotonic()
        self._left = kills
        self._lock = threading.Lock()
        self._stop, self._end = threading.Event(), threading.Event()
        # A daemon's life is tied to the thread that started it: these threads stay until release().
        self._threads = {v.name: threading.Thread(target=self._torment, args=(v, random.Random(f"{seed}:{v.name}")),
                                                  name=f"monkey-{v.name}", daemon=True) for v in victims}
        self._ready = {v.name: threading.Event() for v in victims}
        self._calm = {v.name: threading.Event() for v in victims}

    def start(self):
        """Every victim up first, by the thread that will own it; then the blows."""
        for thread in self._threads.values():
            thread.start()
        for ready in self._ready.values():
            ready.wait(120)

    def stop(self):
        """No more blows; returns when every victim is up again."""
        self._stop.set()
        for name, calm in self._calm.items():
            if not calm.wait(150):
                raise RuntimeError(f"{name} cannot be mended")

    def release(self):
        self._stop.set()
        self._end.set()
        for thread in self._threads.values():
            thread.join(30)

    @property
    def exhausted(self):
        return self._left == 0

    def count(self, deed, name=None):
        return sum(blow.deed == deed and name in (None, blow.victim) for blow in self.blows)

    def _torment(self, victim, dice):
        try:
            victim.up()
            self._ready[victim.name].set()
            while not self._stop.wait(dice.expovariate(1 / victim.pause)):
                reason = victim.died()
                if reason:
                    self.complaints.append(reason)
                    victim.up()
                self._strike(victim, dice)
            reason = victim.died()
            if reason:
                self.complaints.append(reason)
            victim.up()
        except Exception as error:
            self.complaints.append(f"{victim.name}: {error!r}")
        finally:
            self._ready[victim.name].set()
            self._calm[victim.name].set()
            self._end.wait()

    def _strike(self, victim, dice):
        if dice.random() < 1 / 3:
            seconds = dice.uniform(0.1, victim.freeze_at_most)
            self._note(victim, "freeze", seconds)
            victim.freeze()
            self._stop.wait(seconds)
            if dice.random() < 0.75:
                victim.up()
                return
        if not self._may_kill():
            victim.up()
            return
        seconds = dice.uniform(0, victim.down)
        self._note(victim, "kill", seconds)
        victim.kill()
        self._stop.wait(seconds)
        victim.up()

    def _may_kill(self):
        with self._lock:
            if self._left is None:
                return True
            if self._left == 0:
                return False
            self._left -= 1
            return True

    def _note(self, victim, deed, seconds):
        with self._lock:
            self.blows.append(Blow(time.monotonic() - self._begin, victim.name, deed, seconds))
