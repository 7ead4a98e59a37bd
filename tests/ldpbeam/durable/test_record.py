"""Dataclasses as records of JSON: each kind of field there and back, and everything that is refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from ldpbeam.durable.record import MOST, read_fields, write_fields


@dataclass(frozen=True)
class Tagged:
    """A class whose record is of another shape."""

    tag: str

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Tagged:
        return cls(record["t"])

    def as_record(self) -> dict[str, Any]:
        return {"t": self.tag}


@dataclass(frozen=True)
class Inner:
    share: float
    pair: tuple[int, float] = (1, 0.5)


@dataclass(frozen=True)
class Outer:
    name: str
    epoch: int | None
    known: bool
    inner: Inner
    tagged: tuple[Tagged, ...]
    counts: Mapping[str, int]
    anything: Any
    late: int = 0
    more: tuple[Inner, ...] = field(default=())


WHOLE = Outer(
    "a", None, True, Inner(2.5), (Tagged("x"), Tagged("y")), {"n": 3}, [1, "z"], 4, (Inner(1, (7, 1)),)
)
RECORD = json.loads(json.dumps(write_fields(WHOLE)))


def test_a_record_read_again_is_the_same_value() -> None:
    assert read_fields(Outer, RECORD) == WHOLE
    assert list(RECORD) == list(WHOLE.__dataclass_fields__)
    assert RECORD["inner"] == {"share": 2.5}  # a default is not written
    assert RECORD["tagged"] == [{"t": "x"}, {"t": "y"}]


def test_what_has_a_default_may_be_missing_or_null_and_is_not_written() -> None:
    few = {name: value for name, value in RECORD.items() if name not in {"late", "more"}}
    found = read_fields(Outer, {**few, "more": None, "unknown": 9})
    assert (found.late, found.more) == (0, ())
    assert write_fields(found) == few


@pytest.mark.parametrize(
    "damage",
    [
        {"name": None},
        {"epoch": 1.5},
        {"epoch": -MOST - 1},
        {"known": 1},
        {"inner": {}},
        {"inner": {"share": False}},
        {"inner": {"share": float("nan")}},
        {"inner": {"share": 1, "pair": [1, 2, 3]}},
        {"counts": {"n": "3"}},
    ],
    ids=str,
)
def test_what_is_of_another_kind_is_refused(damage: dict[str, Any]) -> None:
    with pytest.raises((LookupError, TypeError, ValueError, AttributeError)):
        read_fields(Outer, {**RECORD, **damage})
