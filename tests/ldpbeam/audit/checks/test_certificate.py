"""A weight that was rounded up by one is found; no number of reports would show it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ldpbeam.audit.checks.certificate import certificate_rules
from ldpbeam.audit.checks.outcome import Check
from ldpbeam.channels.channel import BitChannel, SymbolChannel
from ldpbeam.channels.noise import LaplaceNoise
from ldpbeam.channels.rounds import Rounds
from ldpbeam.collection.collection import Collection
from ldpbeam.protocols.one_bit_mean import LinearBit
from ldpbeam.randomness import FULL
from tests.ldpbeam.audit.collections import COLLECTIONS
from tests.reference.channels import round_of


def with_round(collection: Collection, name: str, channel: Any) -> Collection:
    """The same collection with another round in its protocol."""
    changed: Collection = replace(collection)
    kind: Any = collection.protocol  # a dataclass, as all of the table are
    change: dict[str, Any] = {name: channel}
    if hasattr(kind, "rounds"):
        change = {"rounds": replace(kind.rounds, **change)}
    object.__setattr__(changed, "protocol", replace(kind, **change))
    return changed


def more(channel: Any) -> Any:
    """The next weight upward; where that is the other end of a symmetric one, both."""
    if isinstance(channel, SymbolChannel):
        return SymbolChannel(channel.size, channel.keep + 1, channel.each)
    if isinstance(channel, LinearBit):
        return LinearBit(channel.maximum, channel.step + 2)
    assert isinstance(channel, BitChannel)
    if channel.one + channel.zero == FULL:
        return BitChannel(channel.one + 1, channel.zero - 1)
    return BitChannel(channel.one, channel.zero - 1)


def broken(collection: Collection) -> list[str]:
    return [rule.what for rule in certificate_rules(collection) if rule.broken]


@pytest.mark.parametrize("name", sorted(COLLECTIONS))
def test_no_collection_exceeds_its_levels(name: str) -> None:
    rules = certificate_rules(COLLECTIONS[name])
    assert rules
    assert all(rule.check is Check.CERTIFICATE and not rule.broken for rule in rules)


@pytest.mark.parametrize(
    ("name", "round_"),
    [
        ("grr", "instant"),
        ("sue", "instant"),
        ("oue", "instant"),
        ("binflip_plus", "instant"),
        ("l_grr", "permanent"),
        ("l_osue", "permanent"),
        ("loloha", "permanent"),
        ("dbitflip_pm", "permanent"),
    ],
)
def test_a_weight_rounded_up_is_found(name: str, round_: str) -> None:
    collection = COLLECTIONS[name]
    channel = more(round_of(collection.protocol, round_))
    found = broken(with_round(collection, round_, channel))
    assert any("level of" in what for what in found), found


@pytest.mark.parametrize("name", ["l_grr", "loloha", "l_osue", "l_sue"])
def test_a_second_round_that_is_too_weak_is_found(name: str) -> None:
    """The composed level is computed from the weights of both rounds."""
    collection = COLLECTIONS[name]
    second = round_of(collection.protocol, "instant")
    if isinstance(second, SymbolChannel):
        weaker: Any = SymbolChannel(second.size, second.keep, second.each - (second.each >> 40))
    else:
        weaker = BitChannel(second.one + (1 << 24), second.zero - (1 << 24))
    found = broken(with_round(collection, "instant", weaker))
    assert any("first report" in what for what in found), found


def test_noise_of_a_higher_level_is_found() -> None:
    collection = COLLECTIONS["laplace_mean"]
    protocol: Any = collection.protocol
    m = protocol.estimator.maximum
    noise = LaplaceNoise.for_level(1.0 + 1e-9, m, m + protocol.margin)
    assert broken(with_round(collection, "instant", noise))


def test_attributes_that_spend_the_whole_level_each_are_found() -> None:
    """Three attributes of a split each at ε/2: their levels add up to more than ε."""
    collection = COLLECTIONS["split_one_round"]
    parts: tuple[Any, ...] = collection.protocol.parts
    spent = tuple(
        replace(part, rounds=Rounds(SymbolChannel.from_epsilon(part.domain_size, 1.5))) for part in parts
    )
    assert any("level of a report" in what for what in broken(with_round(collection, "protocols", spent)))
    # A device that draws one attribute spends what that one does.
    alone = COLLECTIONS["sample"]
    assert broken(alone) == []
