# shellcheck shell=bash disable=SC2034 # most of what is set here is read by those who source it
# settings.sh - ports, addresses and secrets of this stack, in build/run/stack.env (mode 0600).
# Secrets are made once per stack; addresses are worked out at each `up`, so that a port can be changed
# and a server of your own be named (KAFKA_BROKERS, REDIS_URL, TICKET_DATABASE_URL …).

STACK_ENV=$ROOT/build/run/stack.env

# Every name below goes into the file, and so to the daemons and to whoever sources it.
SETTINGS=(JWT_SECRET INTERNAL_API_TOKEN QUEUE_ENTRY_TOKEN_SECRET VWR_TOKEN_SECRET
    KAFKA_BROKERS REDIS_URL TICKET_DATABASE_URL PAYMENT_DATABASE_URL STATS_DATABASE_URL)
PRIVATE=(PG_PASSWORD TICKET_DB_PASSWORD PAYMENT_DB_PASSWORD STATS_DB_PASSWORD REDIS_PASSWORD
    PG_PORT REDIS_PORT KAFKA_PORT KAFKA_CONTROLLER_PORT DAEMON_PORT_BASE)

# saved NAME: its value in the file of an earlier `up`.
saved() { if [ -e "$STACK_ENV" ]; then sed -n "s/^\(export \)\{0,1\}$1=//p" "$STACK_ENV"; fi; }

# secret NAME: from the environment, else the stack's own, else a new one.
secret() {
    local value=${!1:-}
    [ -n "$value" ] || value=$(saved "$1")
    [ -n "$value" ] || value=$(openssl rand -hex 32)
    printf -v "$1" '%s' "$value"
}

make_settings() {
    local name base=${URR_PORT_BASE:-} servers
    servers=${base:-15400}
    DAEMON_PORT_BASE=${URR_DAEMON_PORT_BASE:-${base:-3000}}
    PG_PORT=${URR_PG_PORT:-$((servers + 32))}
    REDIS_PORT=${URR_REDIS_PORT:-$((servers + 79))}
    KAFKA_PORT=${URR_KAFKA_PORT:-$((servers + 92))}
    KAFKA_CONTROLLER_PORT=${URR_KAFKA_CONTROLLER_PORT:-$((KAFKA_PORT + 1))}
    same_ports_while_running
    for name in PG_PASSWORD TICKET_DB_PASSWORD PAYMENT_DB_PASSWORD STATS_DB_PASSWORD REDIS_PASSWORD JWT_SECRET \
        INTERNAL_API_TOKEN QUEUE_ENTRY_TOKEN_SECRET VWR_TOKEN_SECRET; do secret "$name"; done

    OWN_KAFKA=no OWN_REDIS=no OWN_PG=no
    if ! given KAFKA_BROKERS KAFKA_PORT; then
        OWN_KAFKA=yes
        KAFKA_BROKERS=127.0.0.1:$KAFKA_PORT
    fi
    if ! given REDIS_URL REDIS_PORT; then
        OWN_REDIS=yes
        REDIS_URL=redis://:$REDIS_PASSWORD@127.0.0.1:$REDIS_PORT/0
    fi
    for name in ticket payment stats; do database_setting "$name"; done
}

# given SETTING PORT: the caller names a server of his own. What an earlier `up` wrote into stack.env and a
# shell has sourced since is our own address, not a given one.
given() {
    local value=${!1:-}
    [ -n "$value" ] || return 1
    ! { [ "$value" = "$(saved "$1")" ] && [[ $value == *"127.0.0.1:$(saved "$2")"* ]]; }
}

database_setting() {
    local setting=${1^^}_DATABASE_URL password=${1^^}_DB_PASSWORD
    if ! given "$setting" PG_PORT; then
        OWN_PG=yes
        printf -v "$setting" '%s' "postgresql://$1_service:${!password}@127.0.0.1:$PG_PORT/$1_db"
    fi
}

# A stack that runs keeps its ports: without a wish it is found where it is, with another wish refused.
same_ports_while_running() {
    local name old wished
    for name in PG_PORT:pg REDIS_PORT:redis KAFKA_PORT:kafka KAFKA_CONTROLLER_PORT:kafka; do
        running "${name#*:}" || continue
        old=$(saved "${name%:*}")
        name=${name%:*}
        if [ "$old" = "${!name}" ]; then continue; fi
        wished=URR_$name
        if [ -n "${URR_PORT_BASE:-}${!wished:-}" ]; then
            fail "the stack runs with $name=$old: compose/down first, then choose other ports"
        fi
        printf -v "$name" '%s' "$old"
    done
    old=$(saved DAEMON_PORT_BASE)
    if [ -n "$old" ] && [ -z "${URR_PORT_BASE:-}${URR_DAEMON_PORT_BASE:-}" ] && any_running; then
        DAEMON_PORT_BASE=$old
    fi
}

any_running() {
    local file
    for file in "$RUN"/*.pid; do
        if [ -e "$file" ] && running "$(basename "$file" .pid)"; then return 0; fi
    done
    return 1
}

save_settings() {
    local name
    (
        umask 077
        {
            say "# Made by compose/up; goes with the data. To use it: set -a; . build/run/stack.env; set +a"
            for name in "${SETTINGS[@]}" "${PRIVATE[@]}"; do printf '%s=%s\n' "$name" "${!name}"; done
        } >"$STACK_ENV.new"
    )
    mv -f "$STACK_ENV.new" "$STACK_ENV"
    for name in "${SETTINGS[@]}"; do export "${name?}"; done
}

# daemons FUNCTION: calls FUNCTION name port setting needs… for each daemon the build has.
daemons() {
    local name offset setting needs
    while read -r name offset setting needs <&6; do
        case $name in '' | '#'*) continue ;; esac
        [ -x "$ROOT/build/release/bin/$name" ] || continue
        # shellcheck disable=SC2086 # needs is a list
        "$1" "$name" "$((DAEMON_PORT_BASE + offset))" "$setting" $needs
    done 6<"$ROOT/compose/daemons"
}
