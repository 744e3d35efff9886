# shellcheck shell=bash
# room.sh - for the waiting room's benchmarks: a Redis as production has it, one urr-queue with one worker, an
# event. Sourced; sets NAME's server variables and removes everything at the exit.
#   room_start [SETTING=VALUE...]   starts both; $redis_url, $port, $queue_pid
#   room_event EVENT                registers it: nobody is let in
#   room_fill EVENT MEMBERS         so many wait
#   field JSON KEY                  the value of a number in one line of JSON
build=${BUILD:-build/release}
bin=$build/bin
bench=${0##*/}
for program in urr-queue urrctl room_bench load_bench http_bench; do
    [ -x "$bin/$program" ] || { echo "$bench: $bin/$program is missing: cmake --build $build" >&2; exit 1; }
done
free_port() { /usr/bin/python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
dir=$(mktemp -d)
pids=()
finish() {
    for pid in "${pids[@]}"; do kill "$pid" 2> /dev/null || true; done
    wait 2> /dev/null || true
    rm -rf "$dir"
}
trap finish EXIT
ulimit -n 65536 2> /dev/null || ulimit -n "$(ulimit -Hn)"

# await NAME COMMAND...: until the command succeeds, AWAIT_S (20) seconds at most
await() {
    local name=$1
    shift
    for _ in $(seq $((${AWAIT_S:-20} * 20))); do
        "$@" > /dev/null 2>&1 && return
        sleep 0.05
    done
    echo "$bench: $name does not answer" >&2
    cat "$dir"/*.log >&2
    exit 1
}

room_start() {
    local redis_port
    redis_port=$(free_port)
    port=$(free_port)
    redis_url=redis://127.0.0.1:$redis_port/0
    JWT_SECRET=$(head -c 48 /dev/urandom | base64 -w0)
    export JWT_SECRET REDIS_URL=$redis_url
    redis-server --port "$redis_port" --bind 127.0.0.1 --save '' --appendonly yes --appendfsync everysec \
        --auto-aof-rewrite-percentage 0 --dir "$dir" > "$dir/redis.log" 2>&1 &
    pids+=($!)
    await redis-server redis-cli -p "$redis_port" ping
    env "$@" QUEUE_PORT="$port" WORKERS=1 MAX_CONNECTIONS="$(($(ulimit -n) - 300))" LOG_LEVEL=warn QUEUE_THRESHOLD=0 \
        QUEUE_ENTRY_TOKEN_SECRET="$(head -c 48 /dev/urandom | base64 -w0)" \
        VWR_TOKEN_SECRET="$(head -c 48 /dev/urandom | base64 -w0)" "$bin/urr-queue" > "$dir/queue.log" 2>&1 &
    queue_pid=$!
    pids+=("$queue_pid")
    await urr-queue curl -sf "http://127.0.0.1:$port/readyz"
}

room_event() { "$bin/urrctl" queue register "$1" --threshold 0 --yes > /dev/null; }
room_fill() { "$bin/room_bench" fill "$redis_url" "$1" "$2"; }
field() { /usr/bin/python3 -c 'import json, sys; print(json.loads(sys.argv[1])[sys.argv[2]])' "$1" "$2"; }
ratio() { awk -v v="$1" -v l="$2" 'BEGIN { printf "%.2f", v / l }'; }
rss_mb() { awk '/^VmRSS/ { printf "%.1f", $2 / 1024 }' "/proc/$1/status"; }
redis_memory() { redis-cli -u "$redis_url" info memory | awk -F: '/^used_memory:/ { print $2 + 0 }'; }
result() { printf '{"bench":"%s","value":%s,"unit":"%s","limit":%s,"ratio":%s}\n' "$@"; }
no_errors() {
    [ "$(field "$1" errors)" = 0 ] || { echo "$bench: errors: $1" >&2; cat "$dir/queue.log" >&2; exit 1; }
}
