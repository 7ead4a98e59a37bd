"""The law of the whole bytes: a device sends what its random words and its values give, and nothing else.

Every byte of every report is compared with :mod:`tests.reference.device`, over many epochs, values and
devices, through the public ``Device`` with its own source of randomness, of which only the operating system
is replaced. So whatever else reaches a report is seen: another value, another generator, a value hidden in
the report id, an epoch that is answered differently.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from struct import unpack
from typing import Any

import pytest

from ldpbeam import randomness
from ldpbeam.client import Device
from ldpbeam.collection.collection import Collection
from ldpbeam.collection.string_domain import StringDomain
from ldpbeam.hashing import LinearFamily
from ldpbeam.randomness import FULL
from tests.ldpbeam.client.devices import collection, composites, label
from tests.reference.device import ReferenceDevice
from tests.reference.settings import Setting, settings

EPOCHS = 300
"""More than any short period that a fault could have."""
FEWER = 80
"""In a life of so many each value of a small domain stays, changes and comes back."""


class OperatingSystem:
    """In place of ``secrets``: seeded words, written down in the order in which they were given."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.given: list[int] = []

    def randbits(self, bits: int) -> int:
        self.given.append(self._random.getrandbits(bits))
        return self.given[-1]

    def randbelow(self, limit: int) -> int:
        self.given.append(self._random.randrange(limit))
        return self.given[-1]

    def token_bytes(self, size: int) -> bytes:
        """Words of 64 bits as :meth:`randbits` gives them, of one draw: that begins with the lowest bits."""
        drawn = self._random.getrandbits(8 * size).to_bytes(size, "little")
        self.given += unpack(f"<{size // 8}Q", drawn)
        return drawn

    def taken(self) -> list[int]:
        words, self.given = self.given, []
        return words


@pytest.fixture
def system(monkeypatch: pytest.MonkeyPatch) -> OperatingSystem:
    found = OperatingSystem(20260102)
    monkeypatch.setattr(randomness, "secrets", found)
    return found


def history(asked: Collection, draw: random.Random, epochs: int) -> Iterator[Any]:
    """Values that stay, change and come back."""

    def value() -> Any:
        if isinstance(asked.domain, StringDomain):
            return "".join(draw.choices("abcABCx", (2, 2, 2, 1, 1, 1, 0.2), k=draw.randrange(7)))
        if asked.domain is not None:
            return draw.randrange(asked.domain.size)
        return tuple(draw.randrange(domain.size // 4 + 1) for _, domain in asked.histograms)

    held = value()
    for _ in range(epochs):
        if draw.random() < 0.4:
            held = value()
        yield held


def hold(asked: Collection, system: OperatingSystem, values: Iterator[Any]) -> None:
    """One device over its life, against the reference; the number of words is always the same."""
    device = Device.ephemeral(asked)
    expected = ReferenceDevice(asked, system.taken())
    counts = set()
    for epoch, value in enumerate(values):
        sent = device.report(value, 3 * epoch + 1)
        words = system.taken()
        counts.add(len(words))
        assert sent == expected.report(value, 3 * epoch + 1, words)
        assert device.report(value, 3 * epoch + 1) == sent
        assert not system.given
    assert len(counts) == 1


devices = pytest.mark.parametrize(
    ("number", "epochs"),
    [(0, FEWER), *(pytest.param(i, EPOCHS, marks=pytest.mark.thorough) for i in (0, 1, 2, 3))],
)
"""Longer lives, and lives of other values, say the same once more."""


@devices
@pytest.mark.parametrize("setting", settings((11,)), ids=str)
@pytest.mark.cases(15)
def test_every_byte_of_a_report_is_known(
    system: OperatingSystem, setting: Setting, number: int, epochs: int
) -> None:
    asked = collection(setting)
    hold(asked, system, history(asked, random.Random(number), epochs))


@devices
@pytest.mark.parametrize("asked", list(composites()), ids=label)
def test_every_byte_about_several_attributes_or_a_text_is_known(
    system: OperatingSystem, asked: Collection, number: int, epochs: int
) -> None:
    hold(asked, system, history(asked, random.Random(number), epochs))


ONCE_EACH = {s.name: s for s in reversed(settings((320,)))}


@pytest.mark.cases(4)
@pytest.mark.parametrize("name", sorted(ONCE_EACH))
def test_every_value_is_reported_and_remembered(system: OperatingSystem, name: str) -> None:
    hold(collection(ONCE_EACH[name]), system, iter([*range(320), *range(320)]))


def test_each_word_is_a_draw_of_its_own(system: OperatingSystem) -> None:
    source = randomness.SystemRandomness()
    for limit in (FULL, FULL - 5, 10):
        for _ in range(3):
            word = source.word(limit)
            assert system.taken() == [word]
    for count in (1, 5):
        assert list(source.words(count)) == system.taken()


class Counted(int):
    """An integer that counts what is done to it and to what comes of it."""

    steps = 0

    def __mod__(self, other: int) -> int:
        Counted.steps += 1
        return int(self) % other

    def __floordiv__(self, other: int) -> Counted:
        Counted.steps += 1
        return Counted(int(self) // other)


@pytest.mark.parametrize("g", [2, 3, 5])
def test_a_linear_hash_takes_as_many_steps_for_every_value(g: int) -> None:
    size = 1 << 20
    family = LinearFamily(g, size)
    for seed in (1, 2, family.points // 2, family.points - 1):
        taken = set()
        for value in (0, 1, g, g**5 - 1, g**5, size // 2, size - 1):
            Counted.steps = 0
            family.hash(Counted(seed), Counted(value))
            taken.add(Counted.steps)
        assert taken == {4 * family.digits}
