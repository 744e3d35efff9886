# shellcheck shell=bash
# servers.sh - PostgreSQL, Redis and Kafka for one machine. Sourced after lib.sh, process.sh, settings.sh.

# The data's place: below build/, unless the servers' account cannot search the way there.
data_folder() {
    local elsewhere
    mkdir -p "$ROOT/build"
    if [ ! -e "$ROOT/build/data" ] && ! as_server test -x "$ROOT/build"; then
        elsewhere=/var/tmp/urr-$(printf '%s' "$ROOT" | sha256sum | cut -c1-12)
        mkdir -p "$elsewhere"
        ln -sfn "$elsewhere" "$ROOT/build/data"
    fi
    mkdir -p "$ROOT/build/data"
    DATA=$(readlink -f "$ROOT/build/data")
    chmod 711 "$DATA"
}

# own_folder NAME: one only the servers' account may read.
own_folder() {
    mkdir -p "$DATA/$1"
    chmod 700 "$DATA/$1"
    if [ "$(id -u)" = 0 ]; then chown "$SERVER_USER:" "$DATA/$1"; fi
}

# server_file PATH: standard input, readable by the servers' account only.
server_file() {
    (umask 077 && cat >"$1.new")
    if [ "$(id -u)" = 0 ]; then chown "$SERVER_USER:" "$1.new"; fi
    mv -f "$1.new" "$1"
}

# --- PostgreSQL -------------------------------------------------------------------------------------

pg_bin() {
    local found
    found=$(printf '%s\n' /usr/lib/postgresql/*/bin/postgres | sort -V | tail -n 1)
    [ -x "$found" ] || fail "PostgreSQL's server is missing: apt-get install postgresql"
    dirname "$found"
}

start_pg() {
    local bin folder=$DATA/pg
    bin=$(pg_bin)
    own_folder pg
    if [ ! -e "$folder/data/PG_VERSION" ]; then
        rm -rf "$folder/data"
        printf '%s' "$PG_PASSWORD" | server_file "$folder/password"
        as_server "$bin/initdb" -D "$folder/data" -U postgres -A scram-sha-256 --pwfile "$folder/password" \
            -E UTF8 --locale=C.UTF-8
        rm -f "$folder/password"
    fi
    forget_zombie "$folder/data"
    start_process pg "$bin/postgres" -D "$folder/data" -c listen_addresses=127.0.0.1 -c port="$PG_PORT" \
        -c unix_socket_directories= -c max_connections=200 -c timezone=UTC
    wait_for pg 60 pg_sql postgres 'SELECT 1'
}

# A postmaster that was killed and that nobody has waited for (some containers' first process does not)
# looks alive to the next one. Its lock goes once its backends, which work in the data folder, are gone too.
forget_zombie() {
    local pid state deadline=$((SECONDS + 20))
    pid=$(head -n 1 "$1/postmaster.pid" 2>/dev/null) || return 0
    state=$(sed -n 's/^State:[[:space:]]*\(.\).*/\1/p' "/proc/$pid/status" 2>/dev/null) || return 0
    if [ "$state" != Z ]; then return; fi
    until nobody_works_in "$1"; do
        [ "$SECONDS" -lt "$deadline" ] || fail "processes of a killed PostgreSQL still work in $1"
        sleep 0.1
    done
    rm -f "$1/postmaster.pid"
}

nobody_works_in() {
    local folder
    folder=$(readlink -f "$1")
    ! readlink /proc/[0-9]*/cwd 2>/dev/null | grep -qxF "$folder"
}

# pg_sql DATABASE STATEMENT: as the superuser. No password stands in argv, where others could read it.
pg_sql() {
    PGPASSWORD=$PG_PASSWORD PGCONNECT_TIMEOUT=5 psql -X -q -A -t -v ON_ERROR_STOP=1 -h 127.0.0.1 \
        -p "$PG_PORT" -U postgres -d "$1" -f - <<<"$2"
}

# One role with its own password and one database per service: no service can log in as another or read
# another's tables.
create_databases() {
    local service password
    for service in ticket payment stats; do
        password=${service^^}_DB_PASSWORD
        if [ -z "$(pg_sql postgres "SELECT 1 FROM pg_roles WHERE rolname = '${service}_service'")" ]; then
            pg_sql postgres "CREATE ROLE ${service}_service"
        fi
        pg_sql postgres "ALTER ROLE ${service}_service LOGIN PASSWORD '${!password}'"
        if [ -z "$(pg_sql postgres "SELECT 1 FROM pg_database WHERE datname = '${service}_db'")" ]; then
            pg_sql postgres "CREATE DATABASE ${service}_db OWNER ${service}_service"
            pg_sql postgres "REVOKE CONNECT ON DATABASE ${service}_db FROM PUBLIC"
        fi
    done
}

# --- Redis ------------------------------------------------------------------------------------------

start_redis() {
    own_folder redis
    server_file "$DATA/redis/redis.conf" <<CONF
port $REDIS_PORT
bind 127.0.0.1
dir $DATA/redis
requirepass $REDIS_PASSWORD
appendonly yes
appendfsync everysec
save ""
maxmemory-policy noeviction
CONF
    start_process redis redis-server "$DATA/redis/redis.conf"
    wait_for redis 30 redis_answers
}

redis_answers() {
    [ "$(REDISCLI_AUTH=$REDIS_PASSWORD redis-cli -h 127.0.0.1 -p "$REDIS_PORT" PING 2>/dev/null)" = PONG ]
}

# --- Kafka ------------------------------------------------------------------------------------------

start_kafka() {
    local folder=$DATA/kafka classpath
    own_folder kafka
    link_jars "$folder/lib"
    classpath="$folder/lib/*"
    server_file "$folder/log4j.properties" <<'CONF'
log4j.rootLogger=WARN, stdout
log4j.logger.kafka.server.KafkaRaftServer=INFO
log4j.appender.stdout=org.apache.log4j.ConsoleAppender
log4j.appender.stdout.layout=org.apache.log4j.PatternLayout
log4j.appender.stdout.layout.ConversionPattern=%d %p %m (%c)%n
CONF
    # The short broker session: after a kill -9 the controller takes a broker back only when its old
    # registration has run out, 9 s by default.
    server_file "$folder/server.properties" <<CONF
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:$KAFKA_CONTROLLER_PORT
listeners=PLAINTEXT://127.0.0.1:$KAFKA_PORT,CONTROLLER://127.0.0.1:$KAFKA_CONTROLLER_PORT
advertised.listeners=PLAINTEXT://127.0.0.1:$KAFKA_PORT
controller.listener.names=CONTROLLER
log.dirs=$folder/data
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
broker.heartbeat.interval.ms=500
broker.session.timeout.ms=2500
auto.create.topics.enable=false
CONF
    if [ ! -e "$folder/data/meta.properties" ]; then
        local uuid
        uuid=$(as_server java -cp "$classpath" kafka.tools.StorageTool random-uuid | tail -n 1)
        as_server java -cp "$classpath" kafka.tools.StorageTool format -t "$uuid" -c "$folder/server.properties"
    fi
    start_process kafka java -Xmx512m -XX:+ExitOnOutOfMemoryError \
        -Dlog4j.configuration="file:$folder/log4j.properties" -cp "$classpath" kafka.Kafka \
        "$folder/server.properties"
    wait_for kafka 120 grep -q 'Kafka Server started' "$(log_of kafka)"
}

# The cache may lie in a home folder the servers' account cannot search: link, or copy, the jars.
link_jars() {
    if [ -e "$1/kafka_2.13-$KAFKA_VERSION.jar" ]; then return; fi
    rm -rf "$1" "$1.new"
    cp -al "$KAFKA_JARS" "$1.new" 2>/dev/null || { rm -rf "$1.new" && cp -r "$KAFKA_JARS" "$1.new"; }
    chmod -R a+rX "$1.new"
    mv -T "$1.new" "$1"
}
