"""Composites as functions: typed, labelled, and never pickled with their code."""

from __future__ import annotations

import apache_beam as beam
from apache_beam.internal.cloudpickle import cloudpickle
from apache_beam.testing.test_pipeline import TestPipeline
from apache_beam.testing.util import assert_that, equal_to

from ldpbeam.transforms.composite import composite


@composite
def add_and_scale(numbers: beam.PCollection[int], added: int, *, factor: int = 1) -> beam.PCollection[int]:
    return numbers | "Add" >> beam.Map(lambda n: (n + added) * factor)


def test_its_label_is_the_functions_name() -> None:
    assert add_and_scale(3).default_label() == "add_and_scale"


def test_a_pipeline_that_is_submitted_names_it_and_holds_no_path() -> None:
    dumped = cloudpickle.dumps(add_and_scale(3, factor=10))
    assert __file__.encode() not in dumped
    assert b"add_and_scale" in dumped
    with TestPipeline() as pipeline:
        assert_that(pipeline | beam.Create([1]) | cloudpickle.loads(dumped), equal_to([40]))
