"""The times of files: which are believed, and what is said about the others."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from ldpbeam.collection.collection import Collection
from ldpbeam.collection.epochs import Epochs, parse_instant
from ldpbeam.job.file_times import doubtful_times
from tests.pipelines.running import collection

ORIGIN = parse_instant("2026-03-01T00:00:00Z")
DAY = 86400
AGREED = replace(collection("grr", 4), epochs=Epochs(DAY, ORIGIN, 100), future_tolerance=3600)
NOW = ORIGIN + 10 * DAY + 7200


def told(tmp_path: Path, times: list[int], *collections: Collection) -> list[str]:
    paths = []
    for index, time in enumerate(times):
        path = tmp_path / f"{index}.pb"
        path.touch()
        os.utime(path, (time, time))
        paths.append(str(path))
    lines = list(
        doubtful_times([*paths, "gs://bucket/x", str(tmp_path / "gone")], collections or (AGREED,), NOW)
    )
    return [line.replace(f"{tmp_path}/", "") for line in lines]


@pytest.mark.parametrize("time", [ORIGIN - 3601, ORIGIN, NOW, NOW + DAY - 7200 - 3601])
def test_times_that_let_no_other_epoch_in_are_not_named(tmp_path: Path, time: int) -> None:
    assert told(tmp_path, [time]) == []


@pytest.mark.parametrize("time", [0, 315532800, ORIGIN - 3602])
def test_a_time_before_the_first_epoch_is_named(tmp_path: Path, time: int) -> None:
    (line,) = told(tmp_path, [ORIGIN, time, ORIGIN - 3602])
    assert line.startswith("1.pb: the file's own time, ")
    assert (
        "(and that of 1 more) is before the first epoch (2026-03-01T00:00:00Z), so it is not believed" in line
    )
    assert "--not-after" in line
    assert line.endswith("[W-FILE-TIME]")
    older = replace(AGREED, epochs=Epochs(DAY, 0, 100_000))
    assert told(tmp_path, [time], AGREED, older) == []  # it may be of this one


@pytest.mark.parametrize("time", [NOW + DAY - 7200 - 3600, 4_070_908_800, 1 << 40])
def test_a_time_in_the_future_is_named(tmp_path: Path, time: int) -> None:
    (line,) = told(tmp_path, [NOW, time])
    assert line.startswith("1.pb: the file's own time, ")
    assert " is in the future, so epochs are taken that have not begun" in line
    assert "--not-after" in line
    ended = replace(AGREED, epochs=Epochs(DAY, ORIGIN, 5))
    assert told(tmp_path, [time], ended) == []  # there is no further epoch


def test_the_time_is_written_out(tmp_path: Path) -> None:
    assert "own time, 2099-01-01T00:00:00Z, is in" in told(tmp_path, [4_070_908_800])[0]
    assert "own time, 1970-01-01T00:00:00Z, is before" in told(tmp_path, [-5])[0]
