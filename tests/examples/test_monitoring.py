"""Alerts and dashboard of examples/monitoring name only metrics, labels and jobs that exist.

What exists is what a collector and an engine answer, once everything that they count has happened; the
metrics of Prometheus itself are ``up`` and what a rule of the file records.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import yaml

from ldpbeam.collector.gather import RequestCounts
from ldpbeam.collector.server import Collector, Limits
from ldpbeam.engine.status import Status
from tests.conftest import REPOSITORY

FOLDER = REPOSITORY / "examples" / "monitoring"
PAGE = (REPOSITORY / "docs" / "production.md").read_text("utf-8")
FUNCTIONS = {"sum", "max", "rate", "increase", "changes", "time"}
WORDS = {"by", "and", "offset"}
BY_PROMETHEUS = {"instance", "job"}
"""Labels that a scrape adds."""

Metrics = dict[str, set[str]]
"""Labels of each metric."""


def answered() -> Metrics:
    """What both endpoints answer, with their labels."""
    counts = RequestCounts()
    counts.reports["0123456789abcdef"] += 1
    counts.refused["0123456789abcdef", "malformed"] += 1
    counts.answers[204] += 1
    gather: Any = mock.Mock(counts=counts, damaged=0, held=0)
    collector = Collector(gather, Limits(), {"0123456789abcdef": "one"})
    engine = Status(rejected=Counter({"malformed": 1}))
    metrics: Metrics = {"up": set()}
    for line in (collector.metrics() + engine.as_text()).splitlines():
        if not line.startswith("#"):
            name, _, labels = line.rpartition(" ")[0].partition("{")
            metrics.setdefault(name, set()).update(re.findall(r"(\w+)=", labels))
    return metrics


def unknown(expression: str, metrics: Metrics) -> list[str]:
    """Names of an expression in Prometheus's language that stand for nothing."""
    text = re.sub(r'"[^"]*"', '""', expression)
    found = []
    # A selector in braces, or the grouping of a sum, has labels; what is left has metrics.
    for name, inside in re.findall(r"([a-zA-Z_:][\w:]*)\{([^}]*)\}", text):
        labels = set(re.findall(r"(\w+)\s*[=!]", inside))
        found += sorted(labels - metrics.get(name, set()) - BY_PROMETHEUS)
    text = re.sub(r"\{[^}]*\}", "", text)
    text = re.sub(r"\[[^\]]*\]|\boffset \w+", "", text)
    named = set(re.findall(r"[a-zA-Z_:][\w:]*", re.sub(r"by \([^)]*\)", "", text))) - WORDS
    grouped = {label for some in re.findall(r"by \(([^)]*)\)", text) for label in re.findall(r"\w+", some)}
    has = set().union(*(metrics.get(name, set()) for name in named)) | BY_PROMETHEUS
    return found + sorted(named - FUNCTIONS - metrics.keys()) + sorted(grouped - has)


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load((FOLDER / "alerts.yaml").read_text("utf-8"))["groups"]
    return list(group["rules"])


def recorded() -> Metrics:
    return answered() | {rule["record"]: set() for rule in rules() if "record" in rule}


def panels() -> list[dict[str, Any]]:
    return list(json.loads((FOLDER / "dashboard.json").read_text("utf-8"))["panels"])


def expressions() -> list[str]:
    asked = [rule["expr"] for rule in rules()]
    return asked + [target["expr"] for panel in panels() for target in panel["targets"]]


@pytest.mark.parametrize("expression", expressions())
def test_every_name_of_an_expression_exists(expression: str) -> None:
    assert unknown(expression, recorded()) == []


def test_every_metric_is_on_the_dashboard() -> None:
    """Somebody who looks at it sees all that there is."""
    shown = " ".join(target["expr"] for panel in panels() for target in panel["targets"])
    assert {name for name in answered() if not re.search(rf"\b{name}\b", shown)} == set()


def test_the_page_has_every_alert() -> None:
    table = PAGE.partition("## Alerts")[2].partition("\n## ")[0]
    named = re.findall(r"`(\w+)`", " ".join(re.findall(r"^\| (`[^|]*) \|", table, re.MULTILINE)))
    assert sorted(named) == sorted(rule["alert"] for rule in rules() if "alert" in rule)


def test_the_sum_that_a_rule_records_is_what_was_rejected(tmp_path: Path) -> None:
    """The accounting balances, so the rejected are what is left; computed as Prometheus would."""
    engine = Status(
        read=100, counted=50, late=7, duplicate=3, pending=30, rejected={"malformed": 6, "oversize": 4}
    )
    (rule,) = (rule for rule in rules() if "record" in rule)
    assert rule["record"] == "ldpbeam:reports_rejected"
    values = dict(re.findall(r"^(ldpbeam_\w+) (\S+)$", engine.as_text(), re.MULTILINE))
    terms = re.findall(r"(-?)\s*(ldpbeam_\w+)", rule["expr"])
    left = sum(int(values[name]) * (-1 if sign else 1) for sign, name in terms)
    assert left == sum(engine.rejected.values())
