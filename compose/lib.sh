# shellcheck shell=bash
# lib.sh - what compose/*, tests/run and .ci/run share: steps with progress, packages, jars, builds.
# Sourced, not run. Callers set `set -euo pipefail` first.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
CACHE=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/urr
KAFKA_VERSION=3.9.1
KAFKA_JARS=$CACHE/kafka-$KAFKA_VERSION/lib
SERVER_USER=urr # runs the servers and daemons; PostgreSQL refuses root

say() { printf '%s\n' "$*"; }

fail() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit 1
}

# step TITLE COMMAND...: runs it with its output in a log; says how long it took, or shows the log's end.
step() {
    local title=$1 log start=$EPOCHREALTIME status=0
    shift
    mkdir -p "$ROOT/build/log"
    log=$ROOT/build/log/$(printf '%s' "$title" | tr -cs 'A-Za-z0-9' '-').log
    printf '%-52s ' "$title"
    # A subshell of its own, so that `set -e` holds inside: in an `if` or before `||` it would not.
    set +e
    (set -e; "$@") >"$log" 2>&1 </dev/null
    status=$?
    set -e
    if [ "$status" -ne 0 ]; then
        printf 'failed\n'
        tail -n 15 "$log" >&2
        fail "\"$title\" failed; the whole log: $log"
    fi
    printf '%6.1f s\n' "$(seconds_since "$start")"
}

seconds_since() { awk -v a="$1" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f", b - a }'; }

# --- packages ---------------------------------------------------------------------------------------

# missing_packages GROUP...: the packages of those groups that are not there, one per line.
missing_packages() {
    local group package command wanted=" $* "
    while read -r group package command; do
        case $group in '' | '#'*) continue ;; esac
        [[ $wanted == *" $group "* ]] || continue
        if [ -n "$command" ] && command -v "$command" >/dev/null; then continue; fi
        [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] && continue
        printf '%s\n' "$package"
    done <"$ROOT/compose/packages"
}

# install_packages GROUP...: installs what is missing, and lets no package start a server of its own.
install_packages() {
    local missing
    mapfile -t missing < <(missing_packages "$@")
    if [ "${#missing[@]}" -gt 0 ]; then
        command -v apt-get >/dev/null ||
            fail "this is no Debian: install by hand what corresponds to ${missing[*]}"
        [ "$(id -u)" = 0 ] || fail "packages are missing; as root: apt-get install ${missing[*]}"
        step "Installing ${#missing[@]} packages" apt_install "${missing[@]}"
    fi
    server_account
}

POLICY=/usr/sbin/policy-rc.d
CLUSTERS=/etc/postgresql-common/createcluster.conf

# Runs in step's subshell: the trap puts back what it changed, also after a failure.
apt_install() {
    export DEBIAN_FRONTEND=noninteractive
    made_policy=no
    trap apt_restore EXIT
    if [ ! -e "$POLICY" ]; then
        made_policy=yes
        printf '#!/bin/sh\nexit 101\n' >"$POLICY"
        chmod +x "$POLICY"
    fi
    apt_get update
    if [[ " $* " == *" postgresql "* ]]; then
        apt_get install postgresql-common # brings the file that says whether to make a cluster
        cp -p "$CLUSTERS" "$CLUSTERS.urr-saved"
        sed -i 's/^#*create_main_cluster.*/create_main_cluster = false/' "$CLUSTERS"
    fi
    apt_get install "$@"
}

apt_restore() {
    if [ "$made_policy" = yes ]; then rm -f "$POLICY"; fi
    if [ -e "$CLUSTERS.urr-saved" ]; then mv -f "$CLUSTERS.urr-saved" "$CLUSTERS"; fi
}

apt_get() {
    local action=$1
    shift
    if [ "$action" = update ]; then
        apt-get -o DPkg::Lock::Timeout=300 -q update
    else
        apt-get -o DPkg::Lock::Timeout=300 -q -y --no-install-recommends "$action" "$@"
    fi
}

# The account servers run as. Without root everything runs as the caller.
server_account() {
    if [ "$(id -u)" = 0 ] && ! id "$SERVER_USER" >/dev/null 2>&1; then
        useradd --system --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin "$SERVER_USER"
    fi
}

# as_server COMMAND...: runs it as that account.
as_server() {
    if [ "$(id -u)" = 0 ]; then
        setpriv --reuid="$SERVER_USER" --regid="$SERVER_USER" --clear-groups -- "$@"
    else
        "$@"
    fi
}

# --- Kafka's jars -----------------------------------------------------------------------------------

# Fetched once into the cache, outside the build folder, and moved into place whole.
kafka_jars() {
    have_kafka_jars && return
    command -v java >/dev/null || fail "Kafka needs Java 17: apt-get install openjdk-17-jre-headless"
    command -v mvn >/dev/null || fail "Kafka's jars come through Maven: apt-get install maven"
    step "Fetching Kafka $KAFKA_VERSION (46 MB, once)" fetch_kafka_jars
}

have_kafka_jars() { compgen -G "$KAFKA_JARS/kafka_2.13-$KAFKA_VERSION.jar" >/dev/null; }

fetch_kafka_jars() {
    local folder=${KAFKA_JARS%/lib} fresh
    mkdir -p "$CACHE"
    exec 8>"$CACHE/kafka.lock"
    flock 8
    have_kafka_jars && return
    fresh=$(mktemp -d "$CACHE/kafka.XXXXXX")
    # shellcheck disable=SC2064
    trap "rm -rf '$fresh'" EXIT
    mvn -q -B -f "$ROOT/compose/kafka/pom.xml" dependency:copy-dependencies \
        -DoutputDirectory="$fresh/lib" -DincludeScope=runtime ||
        fail "Maven could not fetch Kafka's jars: give KAFKA_BROKERS, or put them into $KAFKA_JARS"
    chmod 755 "$fresh"
    rm -rf "$folder"
    mv -T "$fresh" "$folder"
}

# --- building ---------------------------------------------------------------------------------------

# build PRESET [TARGET...]: configures when needed, builds; the result is in build/PRESET/bin.
build() {
    local preset=$1
    shift
    step "Building ($preset)" build_quietly "$preset" "$@"
}

build_quietly() {
    local preset=$1
    shift
    if [ -z "${CMAKE_C_COMPILER_LAUNCHER:-}" ] && command -v ccache >/dev/null; then
        export CMAKE_C_COMPILER_LAUNCHER=ccache
    fi
    cd "$ROOT"
    [ -e "build/$preset/build.ninja" ] || cmake --preset "$preset"
    cmake --build --preset "$preset" -j "$(nproc)" ${1:+--target "$@"}
}
