"""The channel of a derived device is that of the protocol, exactly, if its function is a random one.

The pseudo-random function is replaced by an ideal one: the words of each stream are enumerated, and asked
for again a stream repeats them. Then two reports of a derived device have the same joint law as two of a
device that draws from the operating system and keeps a memo: no word is used for two draws. So have the
reports of two copies of a device about one epoch, where their values differ.
"""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import Any

import pytest

from ldpbeam.client.derivation import WHOLE, Derivation, DerivedRandomness, Purpose, ReportRandomness, hash_of
from ldpbeam.client.report_draws import DerivedDraws
from ldpbeam.collection.collection import Collection
from ldpbeam.protocols import Memo
from ldpbeam.protocols.attributes.allocate import allocate
from ldpbeam.randomness import FULL, Randomness
from ldpbeam.wire import device_state_pb2
from tests.ldpbeam.client.devices import collection, composites, label
from tests.reference.channels import Seeded, first_answer, memos
from tests.reference.device_law import every_outcome
from tests.reference.settings import Setting, settings

# laplace_mean draws a hundred fresh words.
SMALL = [s for s in settings((2, 3)) if s.name != "laplace_mean" and (s.domain_size == 2 or not s.unary)]
small = pytest.mark.parametrize("setting", SMALL, ids=str)
few = pytest.mark.parametrize("setting", [s for s in SMALL if not s.name.startswith("one_bit")], ids=str)


class Stream(Randomness):
    """Words of the enumeration, the same ones for whoever reads the stream from its start."""

    def __init__(self, known: list[int], source: Randomness) -> None:
        self._known = known
        self._source = source
        self._position = 0

    def word(self, limit: int = FULL) -> int:
        if self._position == len(self._known):
            self._known.append(self._source.word(limit))
        self._position += 1
        return self._known[self._position - 1]


class Ideal:
    """A random function in place of the pseudo-random one."""

    def __init__(self, source: Randomness) -> None:
        self._source = source
        self._streams: dict[Any, list[int]] = {}

    def stream(self, *label: Any) -> Stream:
        return Stream(self._streams.setdefault(label, []), self._source)


def pair_of_a_derived_device(
    built: Any, values: tuple[Any, Any], epochs: tuple[int, int], memo: Memo, source: Any
) -> Any:
    """Two reports of a device; of one epoch those of two copies."""
    function: Any = Ideal(source)
    part = WHOLE if isinstance(values[0], tuple) else 0
    return tuple(
        built.device.privatize(value, memo, ReportRandomness(function, epoch, part, hash_of(value)))[0]
        for epoch, value in zip(epochs, values, strict=True)
    )


def pair_of_a_memo(built: Any, values: tuple[Any, Any], memo: Memo, source: Any) -> Any:
    """Two reports of a device that draws from the operating system."""
    first, after = built.device.privatize(values[0], memo, source)
    return first, built.device.privatize(values[1], after, source)[0]


@small
@pytest.mark.parametrize(
    ("pair", "epochs"), [((0, 0), (0, 1)), ((0, 1), (0, 1)), ((1, 0), (0, 1)), ((0, 1), (7, 7))], ids=str
)
@pytest.mark.cases(20)
def test_two_reports_have_the_law_of_a_device_that_keeps_a_memo(
    setting: Setting, pair: tuple[int, int], epochs: tuple[int, int]
) -> None:
    built = setting.build()
    for memo in memos(built)[:2] if built.guarantee.memoised_ratio is not None else [Memo()]:
        derived = partial(pair_of_a_derived_device, built, pair, epochs, memo)
        assert every_outcome(derived) == every_outcome(partial(pair_of_a_memo, built, pair, memo))


@pytest.mark.parametrize("asked", list(composites()), ids=label)
def test_copies_that_differ_in_one_attribute_share_no_coin_in_any(asked: Collection) -> None:
    built = asked.protocol
    if asked.attributes:
        built = allocate(asked.allocation, asked.protocol_name or None, (2, 2), asked.parameters)
    before = (0,) * (len(built.parts) - 1)
    memo, pair = built.device.new_memo(Seeded(0)), ((*before, 0), (*before, 1))
    derived = partial(pair_of_a_derived_device, built, pair, (7, 7), memo)
    assert every_outcome(derived) == every_outcome(partial(pair_of_a_memo, built, pair, memo))


@few
@pytest.mark.cases(20)
def test_noise_has_the_law_of_a_uniform_value_whatever_the_device_holds(setting: Setting) -> None:
    built, asked = setting.build(), collection(setting)

    for memo in memos(built)[:2] if built.guarantee.memoised_ratio is not None else [Memo()]:

        def noise(source: Any, memo: Memo = memo) -> Any:
            draws = DerivedDraws(asked, b"s" * 32)
            draws._derivation = Ideal(source)  # type: ignore[assignment]
            draws._memo = memo
            return built.device.decode(draws.noise(3, device_state_pb2.DeviceMemo()).payload)

        found = every_outcome(noise).law
        first: dict[Any, Fraction] = {}
        for value in range(setting.domain_size):
            law = every_outcome(partial(first_answer, built, value, memo)).law
            for response, probability in law.items():
                first[response] = first.get(response, Fraction(0)) + probability / setting.domain_size
        assert found == first


@pytest.mark.parametrize("setting", settings((11,)), ids=str)
def test_what_is_memoised_comes_again_in_every_epoch(setting: Setting) -> None:
    built = setting.build()
    derivation = Derivation(b"s" * 32, b"d" * 32)
    memo = built.device.new_memo(DerivedRandomness(derivation, Purpose.ONCE, 0, 0))
    for value in (0, 3, 10):
        answers = []
        for epoch in range(4):
            words = ReportRandomness(derivation, epoch, 0, hash_of(value))
            kept = built.device.privatize(value, memo, words)[1]
            assert [key for _, key in words.inputs] == list(kept.answers)
            answers.append(kept.answers)
        assert answers == [answers[0]] * 4
        assert bool(answers[0]) == (built.guarantee.memoised_ratio is not None)


def test_the_streams_of_a_report_are_the_documented_ones() -> None:
    assert [(one.name, int(one)) for one in Purpose] == [
        ("ONCE", 1),
        ("PERMANENT", 2),
        ("FRESH", 3),
        ("REPORT_ID", 4),
        ("NOISE", 5),
        ("SENDING_TIME", 6),
        ("PARTICIPATION", 7),
    ]
    asked: list[Any] = []

    class Noting:
        def stream(self, *label: Any) -> Stream:
            asked.append(label)
            return Stream([0] * 99, None)  # type: ignore[arg-type]

    function: Any = Noting()
    report = ReportRandomness(function, 7, 4, b"about")
    report.word()
    report.permanent(9).word()
    report.part(2).word()
    report.part(2).permanent(5).word()
    report.word()
    DerivedRandomness(function, Purpose.NOISE, 7, 4).permanent(9).word()
    fresh, again = (3, 4, 7, b"about"), (3, 2, 7, b"about")
    assert asked == [fresh, (2, 4, 9), again, (2, 2, 5), (5, 4, 7, b"")]
    assert report.inputs == [(4, 9), (2, 5)]
