"""Alerts and the runbook: rules that promtool accepts, metrics that exist, a section for each alert and finding."""
import glob
import json
import os
import re
import shutil
import subprocess
import tempfile

import yaml

from harness.process import free_port
from harness.stack import ROOT

FOLDER = os.path.join(ROOT, "compose/prometheus")
RULES = [rule for group in yaml.safe_load(open(f"{FOLDER}/alerts.yml"))["groups"] for rule in group["rules"]]
RUNBOOK = open(os.path.join(ROOT, "docs/runbook.md")).read()
ANCHORS = {re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-") for title in re.findall(r"^## (.*)$", RUNBOOK, re.M)}


def promtool(*arguments):
    done = subprocess.run(["promtool", *arguments], cwd=FOLDER, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_promtool_accepts_rules_and_settings(tmp_path):
    promtool("check", "rules", "alerts.yml")
    for name in ("prometheus.yml", "alerts.yml"):
        (tmp_path / name).write_text(open(f"{FOLDER}/{name}").read())
    (tmp_path / "targets.json").write_text('[{"targets": ["127.0.0.1:1"]}]')
    promtool("check", "config", str(tmp_path / "prometheus.yml"))


def test_every_alert_rings_when_it_must():
    promtool("test", "rules", "alerts_test.yml")
    tested = {t["alertname"] for test in yaml.safe_load(open(f"{FOLDER}/alerts_test.yml"))["tests"]
              for t in test["alert_rule_test"]}
    assert tested == {rule["alert"] for rule in RULES}


def test_every_alert_reads_metrics_that_exist():
    known = set(re.findall(r"^\| `(\w+)`", open(os.path.join(ROOT, "docs/metrics.md")).read(), re.M)) | {"up"}
    for rule in RULES:
        used = set(re.findall(r"\b(?:urr|process)_\w+", rule["expr"]))
        assert used <= known, (rule["alert"], used - known)


def test_every_alert_and_every_finding_has_its_section():
    for rule in RULES:
        page, anchor = rule["annotations"]["runbook"].split("#")
        assert page == "docs/runbook.md" and anchor in ANCHORS, rule["alert"]
        assert f"`{rule['alert']}`" in RUNBOOK, f"the runbook does not name {rule['alert']}"
    source = open(os.path.join(ROOT, "cli/cmd_doctor.c")).read()
    pages = set(re.findall(r'"([a-z]+(?:-[a-z]+)+|topics|versions)"\);', source))
    for path in glob.glob(os.path.join(ROOT, "cli/sql/doctor_*.sql")):
        pages |= set(re.findall(r"'([a-z]+(?:-[a-z]+)+|connections)'", open(path).read()))
    assert len(pages) > 15 and pages <= ANCHORS, pages - ANCHORS
    for anchor in re.findall(r"\]\(#([a-z-]+)\)", RUNBOOK):
        assert anchor in ANCHORS, anchor


START = """
set -euo pipefail
. compose/lib.sh; . compose/process.sh; . compose/settings.sh; . compose/servers.sh; . compose/observability.sh
RUN=$1 DATA=$2 DAEMON_PORT_BASE=$(($3 - 90))
trap 'stop_process prometheus' EXIT
daemons() { "$1" urr-relay 1 RELAY_PORT; }
launch_prometheus
curl -fsS "http://127.0.0.1:$3/api/v1/rules" && echo
for _ in $(seq 150); do
    targets=$(curl -fsS "http://127.0.0.1:$3/api/v1/targets")
    case $targets in *urr-relay*) break ;; esac
    sleep 0.1
done
echo "$targets"
"""


def test_prometheus_starts_with_these_files_and_ends():
    folder = tempfile.mkdtemp(prefix="urr-prometheus-", dir="/var/tmp")
    try:
        os.chmod(folder, 0o711)
        run, data = os.path.join(folder, "run"), os.path.join(folder, "data")
        os.mkdir(run), os.mkdir(data)
        os.chmod(data, 0o711)
        done = subprocess.run(["bash", "-c", START, "start", run, data, str(free_port())], cwd=ROOT,
                              capture_output=True, text=True, timeout=90)
        assert done.returncode == 0, done.stdout + done.stderr
        rules, targets = (json.loads(line)["data"] for line in done.stdout.splitlines() if line.startswith("{"))
        assert len(rules["groups"][0]["rules"]) == len(RULES)
        assert targets["activeTargets"][0]["labels"]["daemon"] == "urr-relay"
        assert not os.path.exists(os.path.join(run, "prometheus.pid")), "it was not ended"
    finally:
        shutil.rmtree(folder, ignore_errors=True)
