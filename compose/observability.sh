# shellcheck shell=bash
# observability.sh - Prometheus beside the stack. Sourced after lib.sh, process.sh, settings.sh, servers.sh.
# compose/down ends it like a daemon, by its pid file.

prometheus_port() { printf '%s\n' $((DAEMON_PORT_BASE + 90)); }

# One target per daemon of compose/daemons.
prometheus_target() { printf '%s{"targets": ["127.0.0.1:%s"], "labels": {"daemon": "%s"}}' "$comma" "$2" "$1" && comma=,; }

prometheus_targets() {
    local comma=
    printf '['
    daemons prometheus_target
    printf ']\n'
}

start_observability() {
    if running prometheus; then
        say "Prometheus runs"
    else
        step "Starting Prometheus" launch_prometheus
    fi
}

launch_prometheus() {
    local folder=$DATA/prometheus name
    own_folder prometheus
    for name in prometheus.yml alerts.yml; do server_file "$folder/$name" <"$ROOT/compose/prometheus/$name"; done
    prometheus_targets | server_file "$folder/targets.json"
    start_process prometheus prometheus --config.file="$folder/prometheus.yml" \
        --storage.tsdb.path="$folder/data" --web.listen-address="127.0.0.1:$(prometheus_port)" --log.level=warn
    wait_for prometheus 30 curl -fsS -o /dev/null "http://127.0.0.1:$(prometheus_port)/-/ready"
}
