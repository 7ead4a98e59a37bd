"""The graph of a run: every transform has a label that stays, so that a running job can be replaced."""

from __future__ import annotations

from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.pipeline import PipelineVisitor

from pipelines.collect import CollectReports
from pipelines.options import RunConfig
from tests.pipelines.running import collection

GOLDEN = Path(__file__).with_name("labels.txt")


def labels(config: RunConfig) -> list[str]:
    """Full labels that our code gives, in the order of the graph (not what Beam's own transforms hold)."""
    pipeline = beam.Pipeline(runner="FnApiRunner")
    _ = pipeline | "Collect" >> CollectReports(config)
    found: list[str] = []

    class Visitor(PipelineVisitor):
        def enter_composite_transform(self, node: object) -> None:
            self.visit_transform(node)

        def visit_transform(self, node: object) -> None:
            parent = node.parent  # type: ignore[attr-defined]
            if parent and type(parent.transform).__module__.startswith(("pipelines.", "transforms.")):
                found.append(node.full_label)  # type: ignore[attr-defined]

    pipeline.visit(Visitor())
    return found


@pytest.fixture
def config() -> RunConfig:
    return RunConfig((collection("grr", name="a"), collection("sue", name="b")), ("in",), "out")


def test_labels_are_those_that_were_published(config: RunConfig) -> None:
    """A changed label loses the state of a running job: it must show in a diff of labels.txt."""
    assert labels(config) == GOLDEN.read_text().splitlines()


def test_nothing_is_labelled_by_accident(config: RunConfig) -> None:
    """No lambda and no Beam class name stands where a label of ours should be."""
    names = [label.rpartition("/")[2] for label in labels(config)]
    defaults = {"Create", "Flatten", "GroupByKey", "Reshuffle", "WindowInto"}
    assert [n for n in names if set(n) & set("(<>)") or n in defaults] == []
