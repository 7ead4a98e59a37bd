"""Support counts of many devices at once, drawn from exactly the law that devices give them.

Nothing here replaces a protocol: probabilities are those of its channels, hashes those of its family, and
counting is its own. What differs from devices is only how the randomness is drawn, where that is cheaper:

* bits of a permanent round 64 at a time (:func:`bernoulli_words`);
* a fresh round as sums over all devices with the same permanent answer: of n1 bits that are 1 and n0 that
  are 0, Binomial(n1, p) + Binomial(n0, q) are reported as 1; of n_s devices with symbol s, Binomial(n_s,
  own − other) keep it and the others are uniform over all symbols.

tests/reproduction/test_draws.py compares each with the library's fleet of devices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpbeam.arrays import Bytes, Floats, Ints, Uints
from ldpbeam.channels.channel import BitChannel, SymbolChannel
from ldpbeam.protocols import FrequencyProtocol
from ldpbeam.protocols.bit_flip import BitFlip
from ldpbeam.protocols.direct import Direct
from ldpbeam.protocols.local_hash import LocalHash
from ldpbeam.protocols.unary import Unary
from ldpbeam.support import SupportProbabilities
from reproduction.data import Sequences

_CHUNK = 1 << 14
"""Words that are drawn at once: they stay in the processor's cache."""

_SIMPLE = 6
"""Binary digits that are compared for all words; then few words have an undecided bit left."""


def bernoulli_words(rng: np.random.Generator, count: int, weight: int) -> Uints:
    """Words of 64 independent bits each, every one 1 with probability ``weight``/2**64, exactly."""
    out = np.empty(count, np.uint64)
    raw = rng.bit_generator.random_raw
    for begin in range(0, count, _CHUNK):
        below = np.zeros(min(_CHUNK, count - begin), np.uint64)
        undecided = np.full(below.size, ~np.uint64(0))
        rows: NDArray[np.intp] | None = None
        for place in range(63, -1, -1):
            digits = np.asarray(raw(undecided.size), np.uint64)
            if weight >> place & 1:
                decided = undecided & ~digits
                if rows is None:
                    below |= decided
                else:
                    below[rows] |= decided
                undecided &= digits
            else:
                undecided &= ~digits
            if place <= 64 - _SIMPLE:
                left = np.flatnonzero(undecided)
                if not left.size:
                    break
                rows = left if rows is None else rows[left]
                undecided = undecided[left]
        out[begin : begin + below.size] = below
    return out


def permanent_bits(rng: np.random.Generator, values: Ints, size: int, channel: BitChannel) -> Bytes:
    """Memoised one-hot vectors, packed as reports are: bit v of a row is bit v & 7 of byte v >> 3."""
    words = -(-size // 64)
    rows = bernoulli_words(rng, values.size * words, channel.zero).astype("<u8").view(np.uint8)
    rows = rows.reshape(values.size, 8 * words)[:, : (size + 7) // 8].copy()
    if size % 8:
        rows[:, -1] &= np.uint8((1 << size % 8) - 1)
    ones = below(rng, values.size, channel.one)
    at, bit = np.arange(values.size), (np.uint8(1) << (values & 7).astype(np.uint8)).astype(np.uint8)
    held = rows[at, values >> 3]
    rows[at, values >> 3] = np.where(ones, held | bit, held & ~bit)
    return rows


def below(rng: np.random.Generator, count: int, weight: int) -> NDArray[np.bool_]:
    """Independent coins, True with probability ``weight``/2**64."""
    words = np.asarray(rng.bit_generator.random_raw(count), np.uint64)
    return words < np.uint64(weight)


def fresh_bits(rng: np.random.Generator, ones: Ints, n: int | Ints, channel: BitChannel) -> Ints:
    """How many of n bits are reported as 1, of which ``ones`` are 1: int64, of the shape of ``ones``."""
    return rng.binomial(ones, float(channel.own)) + rng.binomial(n - ones, float(channel.other))


def fresh_symbols(rng: np.random.Generator, held: Ints, own: float, other: float) -> Ints:
    """How often each symbol is reported: int64 (rows, m), each row drawn on its own."""
    unchanged = rng.binomial(held, own - other)
    size = held.shape[1]
    others = (held - unchanged).sum(axis=1)
    return unchanged + rng.multinomial(others, np.full(size, 1 / size))


def second_round(protocol: FrequencyProtocol[Any]) -> BitChannel:
    """The channel of the bits of every report, where a protocol has one."""
    if not isinstance(protocol, Unary):
        raise TypeError(f"{protocol.NAME} reports no randomised bit for each value")
    return protocol.rounds.last


def bit_counts(rows: Bytes, people: Sequences, protocol: Unary | BitFlip) -> Ints:
    """How many memoised answers have a 1 at each value, in every epoch: int64 (epochs, k)."""
    out = np.zeros((people.epochs, people.size), np.int64)
    whole = rows.view(f"V{rows.shape[1]}")[:, 0]  # one copy for each row instead of one for each byte
    for epoch in range(people.epochs):
        held = whole[people.pair[epoch]].view(np.uint8).reshape(people.devices, -1)
        protocol.counter.add(held, out[epoch])
    return out


def one_bit_counts(
    rng: np.random.Generator, people: Sequences, protocol: BitFlip
) -> tuple[Ints, Ints, Bytes, NDArray[np.bool_]]:
    """Devices that sampled one bucket each for life, with d = 1 (Microsoft section 3.4)."""
    bucket = rng.integers(0, people.size, people.devices)
    channel = protocol.channel
    answers = np.stack([below(rng, people.devices, w) for w in (channel.zero, channel.one)], axis=1)
    hit = bucket[people.device] == people.value
    bits = answers[people.device, hit.astype(np.int64)]
    counts = [np.bincount(bucket[bits[row]], minlength=people.size) for row in people.pair]
    sampled = np.bincount(bucket, minlength=people.size)
    return np.array(counts, np.int64), sampled, answers.astype(np.uint8), hit


def symbol_counts(rng: np.random.Generator, people: Sequences, channel: SymbolChannel) -> Ints:
    """How many devices have each memoised answer under direct encoding: int64 (epochs, k)."""
    words = rng.integers(0, channel.total, people.value.size, np.uint64)
    answers = channel.draw_many(people.value, words)
    counts = [np.bincount(answers[row], minlength=people.size) for row in people.pair]
    return np.array(counts, np.int64)


def hash_counts(rng: np.random.Generator, people: Sequences, protocol: LocalHash) -> Ints:
    """Support counts of local hashing over two rounds: int64 (epochs, k)."""
    family, permanent, g = protocol.family, protocol.rounds.permanent, protocol.g
    if permanent is None:
        raise ValueError(f"{protocol.NAME} memoises nothing; use one_epoch")
    seeds = _seeds(rng, protocol, people.devices)
    hashed = family.hash_many(seeds[people.device], people.value)
    symbols = np.tile(np.arange(g), people.devices)
    answers = permanent.draw_many(symbols, rng.integers(0, permanent.total, symbols.size, np.uint64))
    by_pair = answers[people.device * g + hashed]
    own, other = float(protocol.rounds.last.own), float(protocol.rounds.last.other)
    out = np.empty((people.epochs, people.size), np.int64)
    for epoch in range(people.epochs):
        drawn = _keep_or_uniform(rng, by_pair[people.pair[epoch]], own - other, g)
        out[epoch] = _counted(protocol, family.pack(seeds, drawn))
    return out


def one_epoch(rng: np.random.Generator, protocol: FrequencyProtocol[Any], held: Ints) -> Ints:
    """Support counts of one epoch in which no device has reported before: int64 (k,)."""
    n = int(held.sum())
    own, other = float(protocol.estimator.support.own), float(protocol.estimator.support.other)
    if isinstance(protocol, Unary):
        return rng.binomial(held, own) + rng.binomial(n - held, other)
    if isinstance(protocol, Direct):
        drawn: Ints = fresh_symbols(rng, held[None, :], own, other)[0]
        return drawn
    if not isinstance(protocol, LocalHash):
        raise TypeError(f"one epoch of {protocol.NAME} is not drawn here")
    values = np.repeat(np.arange(held.size), held)
    seeds = _seeds(rng, protocol, n)
    hashed = protocol.family.hash_many(seeds, values)
    # Both rounds over symbols: a lie is one of the g − 1 others, whatever the family's collisions are.
    unchanged = (protocol.g * own - 1) / (protocol.g - 1)
    symbols = _keep_or_uniform(rng, hashed, unchanged, protocol.g)
    return _counted(protocol, protocol.family.pack(seeds, symbols))


def two_rounds(
    rng: np.random.Generator, protocols: Sequence[FrequencyProtocol[Any]], people: Sequences
) -> list[Ints]:
    """Support counts, int64 (epochs, k), of protocols that share the permanent round."""
    first = protocols[0]
    if isinstance(first, LocalHash):
        return [hash_counts(rng, people, one) for one in protocols if isinstance(one, LocalHash)]
    rounds = {one.rounds.permanent for one in protocols if isinstance(one, Unary | Direct)}
    if len(rounds) != 1:
        raise ValueError("protocols that are drawn together need the same permanent round")
    if isinstance(first, Direct) and first.rounds.permanent is not None:
        held = symbol_counts(rng, people, first.rounds.permanent)
        channels = [one.rounds.last for one in protocols if isinstance(one, Direct)]
        return [fresh_symbols(rng, held, float(one.own), float(one.other)) for one in channels]
    if isinstance(first, Unary) and first.rounds.permanent is not None:
        rows = permanent_bits(rng, people.value, people.size, first.rounds.permanent)
        ones = bit_counts(rows, people, first)
        return [fresh_bits(rng, ones, people.devices, second_round(one)) for one in protocols]
    raise TypeError(f"{first.NAME} has no two rounds that are drawn here")


def frequencies(counts: Ints, n: int | Ints, probabilities: SupportProbabilities) -> Floats:
    """The unbiased estimates alone (docs/maths.md section 1), of any shape; NaN where n is 0."""
    with np.errstate(invalid="ignore", divide="ignore"):
        share = counts / np.asarray(n, np.float64)
    return np.asarray((share - float(probabilities.other)) / float(probabilities.gap), np.float64)


def _seeds(rng: np.random.Generator, protocol: LocalHash, devices: int) -> Uints:
    family = protocol.family
    shape = (devices, family.SEED_WORDS)
    words = rng.integers(0, family.word_limit - 1, shape, np.uint64, endpoint=True)
    return family.seed_columns(words)


def _keep_or_uniform(rng: np.random.Generator, symbols: Ints, probability: float, g: int) -> Ints:
    return np.where(rng.random(symbols.size) < probability, symbols, rng.integers(0, g, symbols.size))


def _counted(protocol: LocalHash, payloads: Bytes) -> Ints:
    counts = np.zeros(protocol.counter.counts_length, np.int64)
    protocol.counter.add(payloads, counts)
    return protocol.counter.support_counts(counts)
