"""Paths and patterns: what exists is no pattern, and the rest matches as the slow reference says."""

# Paths are text here.
# ruff: noqa: PTH100, PTH119

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from ldpbeam.errors import UsageError
from ldpbeam.job.inputs import find_inputs, match_inputs
from ldpbeam.job.matching import is_passed_over, match_path
from tests.reference import paths as slow

SIGNS = [*"ab11[]*?!{} \n#~%é-._="]
WHOLE = [
    "_SUCCESS",
    "_metadata",
    "epoch=3",
    "_x=1",
    "a.pb",
    "b.pb.tmp",
    ".a.pb.crc",
    "#a#",
    "a1",
    "a[1]",
    "[x].pb",
]
VARIATIONS = 240


def name(draw: random.Random) -> str:
    if draw.random() < 0.4:
        return draw.choice(WHOLE)
    made = "".join(draw.choice(SIGNS) for _ in range(draw.randrange(1, 4)))
    return "a" if made in {".", ".."} else made


def tree(base: Path, draw: random.Random) -> None:
    """Some files, in folders in folders."""
    for _ in range(draw.randrange(4, 16)):
        *folders, file = (name(draw) for _ in range(draw.randrange(1, 4)))
        place = base
        for folder in folders:
            place = place / folder
            if place.is_file():
                break
            place.mkdir(exist_ok=True)
        if place.is_dir() and not (place / file).exists():
            (place / file).write_bytes(b"x")


def asked(base: Path, draw: random.Random) -> str:
    """A path of something that is there, often with parts of it made into a pattern."""
    everything = [*base.rglob("*")]
    parts = list(draw.choice(everything).relative_to(base).parts)
    if draw.random() < 0.6:
        at = draw.randrange(len(parts))
        part = parts[at]
        i = draw.randrange(len(part))
        parts[at] = draw.choice(
            [
                "*",
                "**",
                f"{part[:i]}*",
                f"{part[:i]}?{part[i + 1 :]}",
                f"{part[:i]}[{part[i]}b]{part[i + 1 :]}",
                f"{part[:i]}[!{part[i]}]{part[i + 1 :]}",
                f"*{part[i:]}",
            ]
        )
    text = "/".join(parts).replace("***", "*")
    return draw.choice([text, text, f"./{text}", f"{base}/{text}"])


@pytest.mark.parametrize("seed", range(VARIATIONS // 8))
def test_files_are_those_of_the_reference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    draw = random.Random(f"paths {seed}")
    while len(slow.all_files(str(tmp_path))) < 2:
        tree(tmp_path, draw)
    monkeypatch.chdir(tmp_path)
    there = slow.all_files(str(tmp_path))
    for _ in range(8):
        text = asked(tmp_path, draw)
        if any("**" in part and part != "**" for part in text.split("/")) and not os.path.lexists(text):
            text = text.replace("**", "*")
        found = match_path(text)
        assert {os.path.abspath(path) for path in found.files} == slow.named(text, there), repr(text)
        assert found.size == len(found.files)
        noted = {os.path.abspath(path) for path in found.passed_over}
        assert all(is_passed_over(os.path.basename(path)) for path in noted)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, in which relative paths begin."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def put(here: Path, *names: str) -> None:
    for one in names:
        (here / one).parent.mkdir(parents=True, exist_ok=True)
        (here / one).write_bytes(b"x")


def test_quoted_relative_patterns_match_from_here(here: Path) -> None:
    put(here, "day-1/a.pb", "day-2/a.pb", "day-2/b.pb", "a.pb", "x/day-1/a.pb")
    for pattern in ("day-*/a.pb", "./day-*/a.pb", "day-?/a.pb", "day-[12]/a.pb", f"{here}/day-*/a.pb"):
        found = [os.path.relpath(path) for path in match_inputs(pattern).files]
        assert found == ["day-1/a.pb", "day-2/a.pb"], pattern
    assert match_inputs("*/a.pb").files == ("day-1/a.pb", "day-2/a.pb")
    assert match_inputs("**/a.pb").files == ("a.pb", "day-1/a.pb", "day-2/a.pb", "x/day-1/a.pb")
    assert match_inputs("day-*/").files == ("day-1/a.pb", "day-2/a.pb", "day-2/b.pb")
    assert match_inputs("**").files == match_inputs("**/*").files
    assert len(match_inputs("**").files) == 5


def test_a_folder_that_exists_is_no_pattern_in_front_of_one(here: Path) -> None:
    put(here, "runs[1]/a.pb", "runs1/b.pb")
    assert match_inputs("runs[1]/*.pb").files == ("runs[1]/a.pb",)
    (here / "runs[1]" / "a.pb").unlink()
    (here / "runs[1]").rmdir()
    assert match_inputs("runs[1]/*.pb").files == ("runs1/b.pb",)


def test_sidecars_are_passed_over_and_said(here: Path) -> None:
    left = [
        "_SUCCESS",
        "_metadata",
        "_common_metadata",
        ".part-0.crc",
        "part-0.crc",
        "a.pb~",
        "#a.pb#",
        "b.tmp",
    ]
    left += ["_temporary/0/part-0", "_delta_log/0.json", "_spark_metadata/0", ".hidden/a.pb", "c.pb.part"]
    put(here, *(f"in/{one}" for one in left), "in/part-0", "in/epoch=3/part-0", "in/other/part-0")
    found = find_inputs(["in"])
    assert found.paths == ("in/epoch=3/part-0", "in/part-0")
    said = {one.split("/")[1] for one in found.passed_over}
    assert said == {one.split("/")[0] for one in left} | {"other"}
    assert all(part in found.note for part in ("passed over 14", "in/#a.pb#", "more"))
    assert find_inputs(["in/**"]).paths == ("in/epoch=3/part-0", "in/other/part-0", "in/part-0")
    for one in left:
        assert find_inputs([f"in/{one}"]).paths == (f"in/{one}",)
    # Named by one argument and passed over by another: it is read, and not said to be passed over.
    # A file is nothing that a folder's place in a pattern passes over.
    put(here, "x.tmp", "y/part-0")
    assert find_inputs(["*/part-0"]).passed_over == ()
    both = find_inputs(["in", "in/_SUCCESS"])
    assert "in/_SUCCESS" in both.paths
    assert "in/_SUCCESS" not in both.passed_over


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("only/*.tmp", "names no file, but only/a.tmp"),
        ("only", "names no file, but only/_SUCCESS, only/a.tmp"),
        ("folders", "names no file, but folders/a/"),
        ("folders/*", "names no file, but folders/a/"),
        ("empty", "'empty' names no file"),
        ("nowhere/a.pb", "names no file"),
        ("", "names no file"),
    ],
)
def test_what_names_no_file_is_said(here: Path, pattern: str, why: str) -> None:
    put(here, "only/a.tmp", "only/_SUCCESS", "folders/a/b.pb")
    (here / "empty").mkdir()
    with pytest.raises(UsageError) as caught:
        match_inputs(pattern)
    assert why in str(caught.value)
    assert caught.value.code == "E-USAGE-INPUT"
    if "folders" in pattern:
        remedy = str(caught.value).split("; '")[1].split("'")[0]
        assert match_inputs(remedy).files == ("folders/a/b.pb",)
