# shellcheck shell=bash
# process.sh - background processes with a pid file that cannot name a stranger: it holds the pid and
# the process's start time, and a pid that was given out anew has another one. Sourced after lib.sh.

RUN=$ROOT/build/run

# stat_field PID N: field N of /proc/PID/stat, counted from 3 (state) after the name in parentheses.
stat_field() {
    local stat fields
    { read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 1
    read -r -a fields <<<"${stat##*) }"
    printf '%s\n' "${fields[$2 - 3]}"
}

state_of() { stat_field "$1" 3; }
started_at() { stat_field "$1" 22; } # in clock ticks since boot

# pid_of NAME: prints the pid while the process we started runs.
pid_of() {
    local pid start
    { read -r pid start <"$RUN/$1.pid"; } 2>/dev/null || return 1
    [ "$(started_at "$pid")" = "$start" ] && [ "$(state_of "$pid")" != Z ] && printf '%s\n' "$pid"
}

running() { pid_of "$1" >/dev/null; }

log_of() { printf '%s\n' "$RUN/$1.log"; }

# start_process NAME COMMAND...: in the background, as the servers' account, in a session of its own.
start_process() {
    local name=$1 pid log
    shift
    log=$(log_of "$name")
    if [ -s "$log" ]; then mv -f "$log" "$log.1"; fi
    # In a background subshell setsid and setpriv exec in place: $! is the server itself. 9 is the lock.
    (as_server_exec setsid "$@") </dev/null >"$log" 2>&1 9>&- &
    pid=$!
    printf '%s %s\n' "$pid" "$(started_at "$pid")" >"$RUN/$name.pid.new"
    mv -f "$RUN/$name.pid.new" "$RUN/$name.pid"
    disown "$pid"
}

as_server_exec() {
    cd /
    if [ "$(id -u)" = 0 ]; then
        exec setpriv --reuid="$SERVER_USER" --regid="$SERVER_USER" --clear-groups -- "$@"
    fi
    exec "$@"
}

# stop_process NAME [SIGNAL]: asks, waits up to 30 s, then kills. Nothing to do is fine.
stop_process() {
    local name=$1 pid tries=0
    if pid=$(pid_of "$name"); then
        kill -s "${2:-TERM}" "$pid"
        while running "$name"; do
            tries=$((tries + 1))
            if [ "$tries" = 300 ]; then kill -s KILL "$pid"; fi
            [ "$tries" -lt 350 ] || fail "$name (pid $pid) does not end"
            sleep 0.1
        done
    fi
    rm -f "$RUN/$name.pid"
}

# wait_for NAME SECONDS COMMAND...: until the command succeeds; a process that ends meanwhile is told.
wait_for() {
    local name=$1 deadline=$((SECONDS + $2))
    shift 2
    until "$@" >/dev/null 2>&1; do
        running "$name" || died "$name"
        [ "$SECONDS" -lt "$deadline" ] || fail "$name does not get ready; its log: $(log_of "$name")"
        sleep 0.1
    done
}

died() {
    tail -n 15 "$(log_of "$1")" >&2
    fail "$1 ended; its log: $(log_of "$1")"
}

listening() { (exec 7<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# need_port NAME PORT: a port somebody else has is said before anything starts.
need_port() {
    if ! running "$1" && listening "$2"; then
        fail "port $2, which $1 needs, is in use${3:+; set $3}. Other ports: URR_PORT_BASE=21000 compose/up"
    fi
}
