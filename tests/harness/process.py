"""Starting, signalling and ending processes so that none outlives the test run."""
import os
import pwd
import random
import signal
import socket
import subprocess
import time

_taken_ports = set()


def free_port():
    """A loopback port nobody listens on, from below the kernel's range for outgoing connections."""
    while True:
        port = random.randint(22000, 31999)
        if port in _taken_ports or not port_is_free(port):
            continue
        _taken_ports.add(port)
        return port


def port_is_free(port):
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def eventually(check, timeout=10.0, every=0.02, what=None):
    """Waits until check() returns something true, and returns it. An AssertionError inside check counts
    as "not yet"; the last one is shown when time is up."""
    deadline = time.monotonic() + timeout
    last = None
    while True:
        try:
            value = check()
            if value:
                return value
        except AssertionError as error:
            last = error
        if time.monotonic() >= deadline:
            name = what or getattr(check, "__name__", "the condition")
            raise AssertionError(f"{name} did not come true within {timeout} s") from last
        time.sleep(every)


def server_user():
    """The account servers run as: PostgreSQL refuses root. None when we are not root ourselves."""
    if os.geteuid() != 0:
        return None
    for name in ("urr", "postgres", "nobody"):
        try:
            pwd.getpwnam(name)
            return name
        except KeyError:
            continue
    raise RuntimeError("no unprivileged account for the servers: run compose/install")


def give(path, user):
    if user:
        account = pwd.getpwnam(user)
        os.chown(path, account.pw_uid, account.pw_gid)


def privileges(user, death_signal="KILL"):
    """The command prefix that drops root and ties the child's life to ours. setpriv execs, so the pid
    stays; it sets the death signal after the change of user, which would clear it."""
    prefix = ["setpriv", f"--pdeathsig={death_signal}"]
    if user:
        group = str(pwd.getpwnam(user).pw_gid)
        prefix += [f"--reuid={user}", f"--regid={group}", "--clear-groups"]
    return prefix + ["--"]


def descendants(pid):
    """All living children of pid, nearest first. PostgreSQL's backends leave the process group."""
    found = []
    todo = [pid]
    while todo:
        parent = todo.pop(0)
        try:
            tasks = os.listdir(f"/proc/{parent}/task")
        except OSError:
            continue
        for task in tasks:
            try:
                with open(f"/proc/{parent}/task/{task}/children") as children:
                    pids = [int(word) for word in children.read().split()]
            except OSError:
                continue
            found += pids
            todo += pids
    return found


def signal_tree(pid, number, children_first=False):
    """Signals a process and all its descendants. A parent that is stopped or killed first can make no
    new children meanwhile; on SIGCONT it comes last."""
    if children_first:
        pids = descendants(pid)[::-1] + [pid]
    else:
        _send(pid, number)
        pids = descendants(pid)
    for each in pids:
        _send(each, number)


def kill_tree(pid):
    """SIGSTOP first: so the list of descendants is complete when the SIGKILLs go out."""
    signal_tree(pid, signal.SIGSTOP)
    victims = descendants(pid) + [pid]
    for each in victims:
        _send(each, signal.SIGKILL)
    return victims


def _send(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def gone(pid):
    """True when pid no longer runs (a zombie counts as gone)."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def spawn(command, log_path, env=None, cwd="/"):
    with open(log_path, "ab") as log:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env,
                                cwd=cwd, start_new_session=True)


def tail(path, lines=25):
    try:
        with open(path, errors="replace") as log:
            return "".join(log.readlines()[-lines:])
    except OSError:
        return ""
