"""Epochs: indices, times and the texts people write for them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from ldpbeam.collection.epochs import DEFAULT_COUNT, Epochs, parse_duration, parse_instant
from ldpbeam.errors import CollectionError

LAST = 253402300799  # 9999-12-31T23:59:59Z


@pytest.mark.parametrize(
    "arguments,said",
    [
        ((0, 0), "at least 1 s"),
        ((60, 0, 0), "at least one"),
        ((60, -1), "1970 and 9999"),
        ((60, LAST + 1), "1970 and 9999"),
        ((60, LAST), "after the year 9999"),
    ],
)
def test_unsound_epochs_are_refused(arguments: Any, said: str) -> None:
    with pytest.raises(CollectionError) as caught:
        Epochs(*arguments)
    assert said in str(caught.value)
    assert caught.value.code == "E-COLLECTION-VALUE"
    assert caught.value.remedy


def test_counts_are_cut_at_the_end_of_the_calendar() -> None:
    """A year-long epoch with the default count would run to year 10⁶: planned epochs end by 9999."""
    epochs = Epochs(365 * 86400, 0)
    assert 8000 < epochs.count < 8100 < DEFAULT_COUNT
    assert epochs.start(epochs.count) <= LAST
    assert datetime.fromtimestamp(epochs.start(epochs.count - 1), UTC).year <= 9999
    assert Epochs(60, 0).count == DEFAULT_COUNT
    assert Epochs(60, 0, 5).count == 5


def test_contains_the_planned_epochs_only() -> None:
    epochs = Epochs(3600, 1000, 3)
    assert [e for e in range(-2, 6) if epochs.contains(e)] == [0, 1, 2]
    assert epochs.index(999.5) == -1


@pytest.mark.parametrize(
    "text,seconds",
    [("90s", 90), ("15m", 900), ("6h", 21600), ("1d", 86400), ("2w", 1209600), ("1d12h", 129600),
     ("0", 0), (" 6H ", 21600), ("0s", 0)],
)  # fmt: skip
def test_durations(text: str, seconds: int) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "6", "6 h", "-6h", "1h1", "\u0661d"])
def test_what_is_not_a_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["1M", "1d1M"])
def test_a_capital_m_is_refused_with_both_meanings(text: str) -> None:
    with pytest.raises(ValueError, match=r"minutes or months: write 1m for a minute.*30d"):
        parse_duration(text)


def test_instants_need_a_time_zone_and_whole_seconds() -> None:
    expected = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp())
    assert parse_instant("2026-01-01T00:00:00Z") == expected
    assert parse_instant("2026-01-01T01:00:00+01:00") == expected
    assert parse_instant(datetime(2026, 1, 1, tzinfo=UTC)) == expected
    for wrong in ("2026-01-01T00:00:00", "yesterday", "2026-01-01T00:00:00.5Z", 5):
        with pytest.raises(ValueError):
            parse_instant(wrong)  # type: ignore[arg-type]
