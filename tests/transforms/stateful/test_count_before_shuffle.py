"""Counts of one bundle: every part of every element is in them, once."""

from __future__ import annotations

from collections import defaultdict

from apache_beam.utils.timestamp import Timestamp

from ldpbeam.admission import Parts, ReportColumns
from ldpbeam.collection.epochs import Epochs
from ldpbeam.epoch_result import count_support
from ldpbeam.schedule import Schedule
from ldpbeam.transforms.coders import SupportCoder
from ldpbeam.transforms.stateful.parts import CountBeforeShuffle
from tests.pipelines.running import collection, fleet

BOTH = [collection(name, name=name, epochs=Epochs(3600, 0, 100)) for name in ("grr", "loloha")]


def test_a_bundle_gives_one_support_per_epoch_at_its_latest_arrival() -> None:
    """Three elements of two parts for each of two epochs of two collections, and then another bundle."""
    step = CountBeforeShuffle({agreed.digest_hex: Schedule(agreed, 600, 1200) for agreed in BOTH})
    (lost, *_) = fleet(BOTH[0], 10, 1)
    for bundle in range(2):
        step.start_bundle()
        step.process(((BOTH[0].digest_hex, 0), Parts([lost])), Timestamp(99))  # a bundle that fails here
        step.start_bundle()
        wanted: dict[tuple[str, int], list[ReportColumns]] = defaultdict(list)
        for when in (5, 9, 7):
            for agreed in BOTH:
                for batch in fleet(agreed, 10 + when + bundle, 2):
                    key = agreed.digest_hex, batch.epoch
                    wanted[key] += [batch, batch]
                    step.process((key, Parts([batch, batch])), Timestamp(when))
        output = list(step.finish_bundle())
        assert [one.value[0] for one in output] == [(*key, 0) for key in wanted]
        assert {one.timestamp for one in output} == {Timestamp(9)}
        for one, agreed in zip(output, [BOTH[0]] * 2 + [BOTH[1]] * 2, strict=True):
            parts = wanted[agreed.digest_hex, one.value[0][1]]
            assert SupportCoder().decode(one.value[1]) == count_support(agreed, parts)
