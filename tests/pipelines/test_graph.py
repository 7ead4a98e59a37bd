"""The graph of a run: every transform has a label that stays, so that a running job can be replaced."""

from __future__ import annotations

from pathlib import Path

import apache_beam as beam
import pytest

from ldpbeam.job.config import RunConfig
from ldpbeam.pipelines.bounded import collect_reports
from tests.pipelines.running import collection
from tests.transforms.graphs import labels

GOLDEN = Path(__file__).with_name("labels.txt")


def collected(config: RunConfig) -> list[str]:
    pipeline = beam.Pipeline(runner="FnApiRunner")
    _ = pipeline | "Collect" >> collect_reports(config)
    return labels(pipeline)


@pytest.fixture
def config() -> RunConfig:
    return RunConfig.parsed(
        (collection("grr", name="a"), collection("sue", name="b")), files=("in",), output="out"
    )


def test_labels_are_those_that_were_published(config: RunConfig) -> None:
    """A changed label loses the state of a running job: it must show in a diff of labels.txt."""
    assert collected(config) == GOLDEN.read_text().splitlines()


def test_nothing_is_labelled_by_accident(config: RunConfig) -> None:
    """No lambda and no Beam class name stands where a label of ours should be."""
    names = [label.rpartition("/")[2] for label in collected(config)]
    defaults = {"Create", "Flatten", "GroupByKey", "Reshuffle", "WindowInto"}
    assert [n for n in names if set(n) & set("(<>)") or n in defaults] == []
