"""The graph of a run over files: every transform has a label of ours, by which runners name it."""

from __future__ import annotations

from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.portability import common_urns

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


@pytest.mark.thorough
def test_labels_are_those_that_were_published(config: RunConfig) -> None:
    """Pages and metrics of a runner show labels: a change must be seen in a diff of labels.txt."""
    assert collected(config) == GOLDEN.read_text().splitlines()


def test_files_are_handed_out_where_there_are_several_workers(config: RunConfig) -> None:
    several = (config.changed(runner="FlinkRunner"), config.changed(beam_args=("--direct_num_workers=2",)))
    assert ["Collect/Read/Spread" in collected(one) for one in (config, *several)] == [False, True, True]


def test_keys_are_encoded_alike_on_both_sides_of_every_grouping(config: RunConfig) -> None:
    pipeline = beam.Pipeline(runner="FnApiRunner")
    _ = pipeline | "Collect" >> collect_reports(config)
    components = pipeline.to_runner_api().components

    def key(pcollection: str) -> str:
        (first, *_) = components.coders[components.pcollections[pcollection].coder_id].component_coder_ids
        return str(components.coders[first].SerializeToString(deterministic=True))

    groupings = [
        (*one.inputs.values(), *one.outputs.values())
        for one in components.transforms.values()
        if one.spec.urn == common_urns.primitives.GROUP_BY_KEY.urn
    ]
    assert len(groupings) >= 4
    assert [pair for pair in groupings if key(pair[0]) != key(pair[1])] == []
