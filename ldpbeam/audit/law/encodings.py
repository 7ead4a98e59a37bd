"""The model of each encoding: which symbols tell two values apart, and their exact probabilities."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import pairwise
from math import comb
from typing import Any

from ldpbeam.audit.law.model import Model, PairModel, ProductModel, Row, SampledModel, Stratum, single_stratum
from ldpbeam.channels.channel import BitChannel, SymbolChannel
from ldpbeam.hashing import LinearFamily
from ldpbeam.protocols.attributes.bounded_counters import BoundedCounters
from ldpbeam.protocols.attributes.sample import Sample
from ldpbeam.protocols.attributes.split import Split
from ldpbeam.protocols.bit_flip import BitFlip
from ldpbeam.protocols.contract import LocalProtocol
from ldpbeam.protocols.direct import Direct
from ldpbeam.protocols.laplace_mean import LaplaceMean
from ldpbeam.protocols.local_hash import LocalHash
from ldpbeam.protocols.one_bit_mean import OneBit, OneBitRRPM
from ldpbeam.protocols.public_string import BinFlipPlus
from ldpbeam.protocols.unary import Unary

MOST_PARTS = 8
"""Attributes that are audited one by one where a device draws one."""

_TOGETHER = 2
"""Attributes whose symbols are audited together where a device reports all."""

_ENUMERATED = 64
"""Responses up to which a protocol that this module does not know is audited response by response."""


def audited_pair(protocol: LocalProtocol[Any]) -> tuple[Any, Any]:
    """The two values that are compared: the first one and the last one, of every attribute."""
    parts = protocol.parts
    if len(parts) == 1:
        return 0, protocol.domain_size - 1
    if isinstance(protocol, BoundedCounters):
        # The sum is bounded, so one counter has it all.
        most = protocol.sum_limit
        return (most, *(0 for _ in parts[1:])), (*(0 for _ in parts[1:]), most)
    return tuple(0 for _ in parts), tuple(part.domain_size - 1 for part in parts)


def pair_with(protocol: LocalProtocol[Any], value: Any) -> tuple[Any, Any]:
    """A pair whose second value is the given one; the first differs from it in every attribute."""
    mine = value if len(protocol.parts) > 1 else (value,)
    other = tuple((own + 1) % part.domain_size for own, part in zip(mine, protocol.parts, strict=True))
    return (other, value) if len(protocol.parts) > 1 else (other[0], value)


def model_of(protocol: LocalProtocol[Any], pair: tuple[Any, Any] | None = None) -> Model:
    """The model of a protocol's reports about a pair of values, which differ in every attribute.

    Args:
        protocol: of a collection.
        pair: None for the audited one.

    Raises:
        NotImplementedError: the encoding has no model, and too many responses to enumerate.
    """
    pair = pair or audited_pair(protocol)
    if isinstance(protocol, Sample):
        models = tuple(
            part_model(part, values)
            for part, values in zip(protocol.parts, zip(*pair, strict=True), strict=True)
        )
        return SampledModel(pair, models[:MOST_PARTS], len(models), protocol.said_about)
    if isinstance(protocol, Split):
        last = len(protocol.parts) - 1
        positions = tuple(dict.fromkeys((0, last)))[:_TOGETHER]
        models = tuple(part_model(protocol.parts[i], (pair[0][i], pair[1][i])) for i in positions)
        return ProductModel(pair, positions, models, protocol.said_about)
    return part_model(protocol, pair)


def part_model(protocol: LocalProtocol[Any], pair: tuple[Any, Any]) -> PairModel:
    """The model of one attribute's responses about two of its values, which may be the same."""
    for kind, made in _MADE.items():
        if isinstance(protocol, kind):
            return made(protocol, pair)
    return _enumerated(protocol, pair)


# Rounds over lumped symbols


def _symbol_rows(channel: SymbolChannel, present: int) -> tuple[Row, ...]:
    """P(output | input) over ``present`` symbols and all others as one more, where there are others."""
    own, other, lumped = channel.own, channel.other, channel.size - present
    rows = []
    for given in range(present):
        row = [own if given == output else other for output in range(present)]
        rows.append(tuple([*row, lumped * other] if lumped else row))
    if lumped:
        rows.append((*(other for _ in range(present)), own + (lumped - 1) * other))
    return tuple(rows)


def _bits_rows(channel: BitChannel, bits: int) -> tuple[Row, ...]:
    """P(output | input) over the vectors of so many independent bits; bit i of a number is bit i."""

    def chance(given: int, output: int) -> Fraction:
        found = Fraction(1)
        for i in range(bits):
            one = channel.own if given >> i & 1 else channel.other
            found *= one if output >> i & 1 else 1 - one
        return found

    numbers = range(1 << bits)
    return tuple(tuple(chance(given, output) for output in numbers) for given in numbers)


def _stratum(
    name: str,
    probability: Fraction,
    inputs: tuple[int, int],
    rounds: tuple[tuple[Row, ...] | None, tuple[Row, ...] | None],
    *,
    one_input: bool = False,
) -> Stratum:
    """Of the numbers of the two inputs and the rows of the permanent and the instantaneous round."""
    permanent, instant = rounds
    first = permanent or instant
    assert first is not None  # noqa: S101 - every protocol has a round
    answers = first[inputs[0]], first[inputs[1]]
    second = instant if permanent else None
    return Stratum(name, probability, answers, second, one_input, permanent is not None)


def _rows(
    protocol: Any, made: Callable[[Any, int], tuple[Row, ...]], count: int
) -> tuple[tuple[Row, ...] | None, tuple[Row, ...] | None]:
    return tuple(  # type: ignore[return-value]
        None if channel is None else made(channel, count)
        for channel in (protocol.permanent, protocol.instant)
    )


def _for_life(protocol: Any, model: PairModel) -> PairModel:
    """Strata are drawn for life where answers are memoised, else for every report."""
    return model if protocol.permanent is not None else single_stratum(model)


# Encodings


def _direct(protocol: Direct, pair: tuple[int, int]) -> PairModel:
    """The first value, the second one, and all others."""
    v, w = pair
    rounds = _rows(protocol, _symbol_rows, 2)

    def placed(response: int) -> tuple[int, int]:
        return 0, 0 if response == v else 1 if response == w else 2

    return _for_life(protocol, PairModel(pair, placed, (_stratum("", Fraction(1), (0, 1), rounds),)))


def _unary(protocol: Unary, pair: tuple[int, int]) -> PairModel:
    """The two values' bits."""
    v, w = pair
    rounds = _rows(protocol, _bits_rows, 2)

    def placed(response: int) -> tuple[int, int]:
        return 0, (response >> v & 1) | (response >> w & 1) << 1

    return _for_life(protocol, PairModel(pair, placed, (_stratum("", Fraction(1), (1, 2), rounds),)))


def _local_hash(protocol: LocalHash, pair: tuple[int, int]) -> PairModel:
    """Whether the function separates the values; then the hash of the first, of the second, and others."""
    v, w = pair
    family = protocol.family
    kinds = (
        _stratum("separated", 1 - family.collision, (0, 1), _rows(protocol, _symbol_rows, 2)),
        _stratum("not separated", family.collision, (0, 0), _rows(protocol, _symbol_rows, 1), one_input=True),
    )

    def placed(response: Any) -> tuple[int, int]:
        first, second = family.hash(response.seed, v), family.hash(response.seed, w)
        if first == second:
            return 1, 0 if response.symbol == first else 1
        return 0, 0 if response.symbol == first else 1 if response.symbol == second else 2

    # Of 2**128 affine functions no two devices have the same one.
    same = Fraction(1, family.points - 1) if isinstance(family, LinearFamily) else Fraction(1, 1 << 128)
    return _for_life(protocol, PairModel(pair, placed, kinds, lambda response: response.seed, same))


def _bit_flip(protocol: BitFlip, pair: tuple[int, int]) -> PairModel:
    """Which of the values' buckets were sampled, and their bits; any one bit where neither was."""
    v, w = pair
    b, d = protocol.domain_size, protocol.d
    two, one = (_rows(protocol, _bits_rows, bits) for bits in (2, 1))
    only = Fraction(d * (b - d), b * (b - 1))
    listed = [
        ("both sampled", Fraction(d * (d - 1), b * (b - 1)), (1, 2), two, False),
        ("the first sampled", only, (1, 0), one, False),
        ("the second sampled", only, (0, 1), one, False),
        ("neither sampled", Fraction((b - d) * (b - d - 1), b * (b - 1)), (0, 0), one, True),
    ]
    kinds = tuple(
        _stratum(name, share, inputs, rows, one_input=same) for name, share, inputs, rows, same in listed
    )

    def placed(response: Any) -> tuple[int, int]:
        asked = response.indices

        def bit(value: int) -> int:
            return int(response.bits >> asked.index(value) & 1)

        if v in asked:
            return (0, bit(v) | bit(w) << 1) if w in asked else (1, bit(v))
        return (2, bit(w)) if w in asked else (3, response.bits & 1)

    return _for_life(
        protocol, PairModel(pair, placed, kinds, lambda response: response.indices, Fraction(1, comb(b, d)))
    )


def _public_string(protocol: BinFlipPlus, pair: tuple[int, int]) -> PairModel:
    """The string's bits at the two values, and whether it was accepted."""
    v, w = pair
    share = Fraction(protocol.threshold, 1 << 32)
    rows = _bits_rows(protocol.instant, 1)
    kinds = []
    for string in range(4):
        bits = string & 1, string >> 1
        chance = Fraction(1)
        for bit in bits:
            chance *= share if bit else 1 - share
        name = f"string {bits[0]}, {bits[1]}"
        kinds.append(Stratum(name, chance, (rows[bits[0]], rows[bits[1]]), memoised=False))

    def placed(response: Any) -> tuple[int, int]:
        first, second = (protocol.string_bit(response.seed, value) for value in (v, w))
        return first | second << 1, response.bit

    return single_stratum(PairModel(pair, placed, tuple(kinds)))


def _one_bit(protocol: OneBit, pair: tuple[int, int]) -> PairModel:
    """The bit. At the two ends no rounding is left to chance."""
    rounds = []
    for value in pair:
        one = Fraction(protocol.bit.weight(value), 1 << 64)
        rounds.append((1 - one, one))
    rows = (rounds[0], rounds[1])
    stratum = Stratum("", Fraction(1), rows, memoised=False)
    if isinstance(protocol, OneBitRRPM):
        instant = None if protocol.instant is None else _bits_rows(protocol.instant, 1)
        stratum = Stratum("", Fraction(1), rows, instant, pair[0] == pair[1])
    return PairModel(pair, lambda response: (0, response), (stratum,))


def _laplace(protocol: LaplaceMean, pair: tuple[int, int]) -> PairModel:
    """Six intervals of the noisy value, cut at the ends of the domain and as far beyond them."""
    m, margin = protocol.maximum, protocol.margin
    cuts = sorted({cut for cut in (-m, 1, (m + 1) // 2, m, 2 * m) if -margin < cut <= m + margin})

    def at_least(cut: int, value: int) -> Fraction:
        noise = cut - value
        return protocol.instant.above(noise) if noise >= 0 else 1 - protocol.instant.below(noise - 1)

    def row(value: int) -> Row:
        tails = [Fraction(1), *(at_least(cut, value) for cut in cuts), Fraction(0)]
        return tuple(a - b for a, b in pairwise(tails))

    def placed(response: int) -> tuple[int, int]:
        return 0, sum(response >= cut for cut in cuts)

    stratum = Stratum("", Fraction(1), (row(pair[0]), row(pair[1])), memoised=False)
    return PairModel(pair, placed, (stratum,))


def _enumerated(protocol: LocalProtocol[Any], pair: tuple[Any, Any]) -> PairModel:
    """Every response is a symbol: for a protocol of one round that is not one of ours."""
    responses: Sequence[Any] = list(protocol.responses()) if protocol.domain_size <= _ENUMERATED else ()
    if not 0 < len(responses) <= _ENUMERATED or getattr(protocol, "permanent", None) is not None:
        raise NotImplementedError(
            f"{protocol.NAME} has no model in {__name__}, and is too large to enumerate"
        )
    symbols = {response: number for number, response in enumerate(responses)}
    rows = tuple(tuple(protocol.likelihood(one, value) for one in responses) for value in pair)
    stratum = Stratum("", Fraction(1), (rows[0], rows[1]), memoised=False)
    return PairModel(pair, lambda response: (0, symbols[response]), (stratum,))


_MADE: dict[Any, Callable[[Any, tuple[Any, Any]], PairModel]] = {
    Direct: _direct,
    Unary: _unary,
    LocalHash: _local_hash,
    BitFlip: _bit_flip,
    BinFlipPlus: _public_string,
    OneBit: _one_bit,
    LaplaceMean: _laplace,
}
"""What makes the model of each encoding."""
