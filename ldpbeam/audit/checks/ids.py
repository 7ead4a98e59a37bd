"""Report ids: what a value, or the id before, leaves in their bits.

Every bit, the exclusive or of any two, and that of all 64 is a fair coin: for each value that is held,
against each bit and each threshold of the value, and against the same device's id before. Any exclusive or of
bits whatever that is always the same shows as ids that do not span all of the 64 dimensions.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

from ldpbeam.arrays import Ints
from ldpbeam.audit.checks.outcome import Check, Coins, Evidence, Rule

_BITS = 64
_MASKS = [*((bit,) for bit in range(_BITS)), *combinations(range(_BITS), 2)]
"""Bits whose exclusive or is looked at; that of all comes last."""

_BEYOND = 64
"""Ids beyond the dimensions that they are to span: an honest client's do not with probability 2^-64."""

_THRESHOLDS = 8
"""Thresholds of each of several attributes; of one attribute there are all."""


def coins_of(held: Sequence[tuple[Any, Sequence[int]]], consecutive: Sequence[tuple[int, int]]) -> Evidence:
    import numpy as np

    counts = np.array([_heads(numbers) for _, numbers in held], np.int64).reshape(len(held), -1)
    trials = np.array([len(numbers) for _, numbers in held], np.int64)
    coins = [
        Coins(Check.IDS, f"report ids about value {value} is 1", _name, counts[row], int(trials[row]))
        for row, (value, _) in enumerate(held)
    ]
    for what, marks in _marks([value for value, _ in held]):
        heads = np.where(marks[:, None], counts, trials[:, None] - counts).sum(0)
        coins.append(Coins(Check.IDS, f"report ids is {what}", _name, heads, int(trials.sum())))
    differences = [before ^ after for before, after in consecutive]
    heads = np.array(_heads(differences), np.int64)
    coins.append(
        Coins(Check.IDS, "report ids is not that of the device's id before", _name, heads, len(differences))
    )
    rules = [_spanning(f"report ids about value {value}", numbers, _BITS) for value, numbers in held]
    pairs = [before << _BITS | after for before, after in consecutive]
    rules.append(_spanning("consecutive report ids of a device", pairs, 2 * _BITS))
    return Evidence(coins=coins, rules=[rule for rule in rules if rule is not None])


def _name(mask: int) -> str:
    if mask == len(_MASKS):
        return "the parity"
    return "bit " + " ^ bit ".join(map(str, _MASKS[mask]))


def _heads(numbers: Sequence[int]) -> list[int]:
    """How often the exclusive or of each mask is 1."""
    import numpy as np

    words = np.array(numbers, np.uint64)
    bits = (words[:, None] >> np.arange(_BITS, dtype=np.uint64) & np.uint64(1)).astype(np.float64)
    both = (bits.T @ bits).round().astype(np.int64)  # whole numbers below 2**53
    ones = both.diagonal()
    first, second = np.triu_indices(_BITS, 1)
    parity = int((bits.sum(1).astype(np.int64) & 1).sum())
    return [*ones.tolist(), *(ones[first] + ones[second] - 2 * both[first, second]).tolist(), parity]


def _marks(values: Sequence[Any]) -> list[tuple[str, Ints]]:
    """What may be told of a value by one bit, and whether it is so for each value: not the same for all."""
    import numpy as np

    candidates = []
    columns = np.array([value if isinstance(value, tuple) else (value,) for value in values], np.int64)
    for index, column in enumerate(columns.T):
        where = f" of attribute {index}" if columns.shape[1] > 1 else ""
        width = int(column.max()).bit_length()
        candidates += [(f"bit {bit}{where} of the value", column >> bit & 1) for bit in range(width)]
        parity = np.bitwise_xor.reduce([column >> bit & 1 for bit in range(width)] or [column])
        candidates.append((f"the parity{where} of the value", parity))
        limits = np.unique(column)[1:]
        if columns.shape[1] > 1:
            limits = limits[np.unique(np.linspace(0, len(limits) - 1, _THRESHOLDS).round().astype(int))]
        candidates += [
            (f"1 just where the value{where} is below {limit}", column < limit) for limit in limits.tolist()
        ]
    return [(what, marks.astype(bool)) for what, marks in candidates if marks.any() and not marks.all()]


def _spanning(what: str, numbers: Sequence[int], dimensions: int) -> Rule | None:
    """Differences of ids span all dimensions; None where there are too few ids to tell."""
    needed = dimensions + _BEYOND + 1
    if len(numbers) < needed:
        return None
    missing = dimensions - affine_rank(numbers[:needed])
    text = f"no exclusive or of bits of {what} is always the same"
    return Rule(Check.IDS, text, int(missing > 0), 1, 2.0**-_BEYOND)


def affine_rank(numbers: Sequence[int]) -> int:
    """Dimensions, over the field of two elements, that differences of the numbers span."""
    basis: dict[int, int] = {}
    for number in numbers:
        rest = number ^ numbers[0]
        while rest:
            length = rest.bit_length()
            if length not in basis:
                basis[length] = rest
                break
            rest ^= basis[length]
    return len(basis)
