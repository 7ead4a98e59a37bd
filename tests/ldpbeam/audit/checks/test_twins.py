"""Equal histories of two devices: their bound, and a generator that repeats itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from ldpbeam.audit.checks.evidence import equal_probability
from ldpbeam.audit.checks.twins import chance, equal_histories
from ldpbeam.audit.client.clients import PythonClient
from ldpbeam.audit.client.draws import ReportLog, Subject, plan_of
from ldpbeam.audit.law.pairs import model_of
from ldpbeam.audit.standard_collections import one_collection
from tests.ldpbeam.audit.rare_bugs import GeneratorOf20Bits, Plain
from tests.ldpbeam.audit.small import KindMaker
from tests.narrow import present


class GeneratorOf8Bits(GeneratorOf20Bits):
    bits = 8


@pytest.mark.parametrize(("name", "size"), [("l_grr", 2), ("l_grr", 3), ("l_osue", 2), ("l_sue", 2)])
def test_the_bound_is_not_below_the_truth_nor_far_above(name: str, size: int) -> None:
    """Where symbols of the model are all that reports say, equal symbols are equal histories."""
    asked = one_collection(name, size, epsilon_longitudinal=2.0, epsilon_first=1.0)
    model = model_of(asked.protocol)
    kinds = present(asked.protocol.law.equal_responses(model.pair[0]))
    for reports in (1, 2, 4):
        truth = equal_probability(model, (0,) * reports)
        assert truth <= chance(kinds, model, reports) * (1 + 1e-12)
        assert chance(kinds, model, reports) < 2.5 * truth


@pytest.mark.parametrize("protocol", ["l_osue", "loloha"])
def test_a_generator_that_repeats_itself_shows(protocol: str, tmp_path: Path) -> None:
    """Of 258 devices or more, 33,000 pairs: no two share 8 bits with probability below 1e-50."""
    asked = one_collection(protocol, 24, epsilon_longitudinal=2.0, epsilon_first=1.0)
    found = []
    for kind in (Plain, GeneratorOf8Bits):
        client = PythonClient(asked, KindMaker(kind), tmp_path)
        subject = Subject(client, asked, model_of(asked.protocol), plan_of(2_000), ReportLog(asked))
        evidence = equal_histories(subject)
        assert evidence is not None
        found += [rule.broken for rule in evidence.rules]
    assert found[0] == 0 < found[1]


def test_reports_that_are_often_equal_are_left_out(tmp_path: Path) -> None:
    asked = one_collection("dbitflip_pm", 24, epsilon_longitudinal=2.0, d=4)
    client = PythonClient(asked, KindMaker(Plain), tmp_path)
    model = model_of(asked.protocol)
    assert equal_histories(Subject(client, asked, model, plan_of(2_000), ReportLog(asked))) is None
