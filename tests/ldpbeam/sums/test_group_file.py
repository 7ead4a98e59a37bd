"""Files of groups: what they may say, and what is refused with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from ldpbeam.collection.domain import Domain
from ldpbeam.errors import UsageError
from ldpbeam.sums import read_groups
from ldpbeam.sums.group_file import shared_values, values_of

COLOURS = Domain(4, ("red", "green", "yes", "none of these"), other=3)
MINUTES = Domain(36, None, 360.0)
YEARS = Domain(101, None, 100.0)
PLACES = Domain(10)


def written(folder: Path, text: str) -> Path:
    path = folder / "groups.csv"
    path.write_text(text, "utf-8")
    return path


@pytest.mark.parametrize(
    ("domain", "lines", "expected"),
    [
        (COLOURS, ["warm,red", "all but red,green", "all but red,yes", "all but red,none of these"],
         {"warm": [0], "all but red": [1, 2, 3]}),
        (MINUTES, ["an hour,0..60", "rest,60..360"], {"an hour": list(range(6)), "rest": list(range(6, 36))}),
        (YEARS, ["young,0..17", "hundred,100"], {"young": list(range(18)), "hundred": [100]}),
        (PLACES, ["a,3", "a,5..6", "b,3"], {"a": [3, 5, 6], "b": [3]}),
    ],
)  # fmt: skip
def test_values_of_every_kind_of_domain(
    tmp_path: Path, domain: Domain, lines: list[str], expected: dict[str, list[int]]
) -> None:
    text = "\n".join(["group,value", *lines, ""])
    assert read_groups(written(tmp_path, text), domain) == expected
    assert read_groups(written(tmp_path, "\ufeff" + text), domain) == expected


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("group,value\nwarm,red\nwarm,blue\n", ":3", "'blue' is not one of the labels"),
        ("name,label\nwarm,red\n", ":1", "columns are not group,value"),
        ("group,value\nwarm\n", ":2", "1 cell "),
        ("group,value\nwarm,\n", ":2", "'' is not one of the labels"),
        ("group,value\n,red\n", ":2", "no name"),
        ('group,value\nwarm,red\n"warm,blue\n', ":3", "not closed"),
        ("group,value\n", "", "no group"),
        ("", ":1", "columns"),
    ],
)  # fmt: skip
def test_what_is_no_file_of_groups(tmp_path: Path, text: str, line: str, why: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(UsageError, match=why) as caught:
        read_groups(path, COLOURS)
    assert caught.value.code == "E-USAGE-GROUPS"
    assert caught.value.where == f"{path}{line}"


def test_edges_are_taken_as_labels_write_them_or_exactly() -> None:
    """Of buckets whose edges are no short decimals too, and of a million buckets."""
    thirds = Domain(3, maximum=10.0)
    assert values_of(thirds, "0..3.33333") == [0]
    assert values_of(thirds, "3.33333..10") == [1, 2]
    for near in ("0..3.3333", "0..3.333334", "0..3.3"):
        with pytest.raises(ValueError, match=r"between buckets, which are 3\.33333 wide"):
            values_of(thirds, near)
    assert values_of(Domain(1_000_000, maximum=0.3), "0.2999991..0.3") == [999_997, 999_998, 999_999]
    assert values_of(Domain(365, maximum=365.0), "03..12.0") == [*range(3, 12)]


@pytest.mark.parametrize(
    ("domain", "value", "why"),
    [
        (MINUTES, "0..65", "between buckets, which are 10 wide"),
        (MINUTES, "300..370", "no part of 0..360"),
        (MINUTES, "60..60", "no part of 0..360"),
        (MINUTES, "5", "no part of the domain"),
        (YEARS, "90..101", "does not lie in 0..100"),
        (YEARS, "9..3", "does not lie in 0..100"),
        (PLACES, "x", "no part of the domain"),
        (PLACES, "-1", "does not lie in 0..9"),
    ],
)
def test_parts_that_are_none(tmp_path: Path, domain: Domain, value: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        read_groups(written(tmp_path, f"group,value\na,{value}\n"), domain)


def test_groups_that_overlap_are_named() -> None:
    assert shared_values({"a": [1, 2], "b": [3, 2]}) == ("a", "b")
    assert shared_values({"a": [1, 1], "b": [3]}) is None
