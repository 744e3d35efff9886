"""Alerts and the runbook: rules that promtool accepts, metrics that exist, a section for each alert and finding."""
import glob
import os
import re
import subprocess

import yaml

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
