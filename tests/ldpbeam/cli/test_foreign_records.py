"""run.json of somebody else: whatever stands in it, a command ends at once, in one line, and never hangs."""

from __future__ import annotations

import copy
import json
import os
import random
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import ldpbeam
from ldpbeam.cli.main import cli
from ldpbeam.cli.shared.failures import outside_error
from ldpbeam.collection.record import collection_of, definition
from ldpbeam.durable.document import document
from ldpbeam.errors import CollectionError, LdpError, UsageError
from ldpbeam.records.run_record import RunRecord, read_record

ODD: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    1,
    2**63,
    10**400,
    1e308,
    float("inf"),
    float("nan"),
    3.5,
    "",
    "x",
    "\ud800",
    [],
    {},
    [[]],
    {"a": 1},
    ["a", "a"],
)
"""What takes the place of each part of a record; besides it is left out."""
SECONDS = 1.0
"""A foreign record is answered within that."""

EXAMPLES = sorted(Path("examples").glob("*.yaml"))


def places(tree: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Of every part of a JSON document; of long lists of the first three."""
    if place:
        yield place
    if isinstance(tree, dict):
        for key in tree:
            yield from places(tree[key], (*place, key))
    elif isinstance(tree, list):
        for index in range(min(3, len(tree))):
            yield from places(tree[index], (*place, index))


def changed(tree: Any, place: tuple[Any, ...], odd: Any, *, without: bool = False) -> Any:
    """A document with something else in one place."""
    made = copy.deepcopy(tree)
    at = made
    for key in place[:-1]:
        at = at[key]
    if without:
        del at[place[-1]]
    else:
        at[place[-1]] = odd
    return made


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_a_definition_is_read_or_refused_whatever_stands_in_it(path: Path) -> None:
    sound = json.loads(json.dumps(definition(ldpbeam.load_collection(path))))
    assert collection_of(sound) == ldpbeam.load_collection(path)
    refused = 0
    for place in places(sound):
        for number, odd in enumerate((*ODD, None)):
            mutant = changed(sound, place, odd, without=number == len(ODD))
            begin = time.process_time()
            try:
                collection_of(mutant)
            except CollectionError as error:
                assert "\n" not in str(error)
                refused += 1
            assert time.process_time() - begin < SECONDS, (place, odd)
    assert refused > 100


def test_a_table_of_hashing_that_would_never_end_is_refused() -> None:
    sound = definition(ldpbeam.load_collection(Path("examples/minutes_in_app.yaml")))
    for g in (2**63, 2**61 - 1, (1 << 16) + 1, 1):
        with pytest.raises(CollectionError, match=r"g is outside its limits|digest"):
            collection_of(changed(sound, ("parameters", "g"), g))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two epochs."""
    folder = tmp_path_factory.mktemp("run")
    common = ["--collection", "examples/first_choice.yaml", "--output"]
    sizes = ["--population", "zipf:1.1", "--devices", "900", "--epochs", "2", "--seed", "1"]
    for command in (
        ["simulate", *common, str(folder / "sim"), *sizes],
        ["run", *common, str(folder / "out"), "--input", str(folder / "sim" / "reports")],
    ):
        done = CliRunner().invoke(cli, command, catch_exceptions=False)
        assert done.exit_code == 0, done.output
    return folder / "out"


COMMANDS = (["report"], ["export", "--every", "2"], ["compare"], ["inspect"])


def answered(run: Path, record: bytes) -> list[str]:
    """What the commands say of the run with another record: empty where one is content."""
    place, said = run / "run.json", []
    sound = place.read_bytes()
    place.write_bytes(record)
    try:
        for command in COMMANDS:
            begin = time.process_time()
            done = CliRunner().invoke(cli, [command[0], str(run), *command[1:]])
            assert time.process_time() - begin < 3 * SECONDS, command
            error = done.exception
            if error is None or isinstance(error, SystemExit):
                said.append("")
                continue
            known = error if isinstance(error, LdpError) else outside_error(error)
            assert known is not None, (command, type(error), error)
            assert "\n" not in str(known)
            said.append(str(known))
    finally:
        place.write_bytes(sound)
    return said


@pytest.mark.parametrize(
    ("read", "asked"), [(300, 2), pytest.param(None, 60, marks=pytest.mark.thorough)], ids=["some", "all"]
)
@pytest.mark.thorough
def test_a_record_is_read_or_refused_whatever_stands_in_it(run: Path, read: int | None, asked: int) -> None:
    """Whatever takes the place of each part: as it is read, and of drawn ones through the commands."""
    sound = json.loads((run / "run.json").read_text())
    mutants = [
        (place, odd, number == len(ODD)) for place in places(sound) for number, odd in enumerate((*ODD, None))
    ]
    draw = random.Random(33)
    for place, odd, without in mutants if read is None else draw.sample(mutants, read):
        mutant = document(changed(sound, place, odd, without=without))
        begin = time.process_time()
        with suppress(UsageError):
            RunRecord.parse(mutant, "run.json")
        assert time.process_time() - begin < SECONDS, place
    assert answered(run, document(sound)) == [""] * len(COMMANDS)
    for place, odd, without in draw.sample(mutants, asked):
        answered(run, document(changed(sound, place, odd, without=without)))


DAMAGED = (b"", b"[" * 200_000, b"{}", b"\xff", b'{"schema": "ldpbeam.run/1"}', b"null")


@pytest.mark.parametrize("content", DAMAGED, ids=range(len(DAMAGED)))
@pytest.mark.thorough
def test_a_record_that_is_none_is_said_to_be_damaged(run: Path, content: bytes) -> None:
    said = answered(run, content)
    assert any("run.json" in one for one in said)


def test_a_record_that_would_wait_for_a_writer_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "run.json")
    with pytest.raises(UsageError, match=r"run\.json"):
        read_record(tmp_path / "run.json")


@pytest.mark.thorough
def test_a_page_of_damaged_files_says_so_on_the_terminal_too(run: Path, tmp_path: Path) -> None:
    table = sorted((run / "estimates").glob("*.parquet"))[0]
    for path, named in ((run / "run.json", "run.json"), (table, table.name)):
        sound = path.read_bytes()
        path.write_bytes(sound[: len(sound) // 2])
        try:
            done = CliRunner().invoke(cli, ["report", str(run), "--page", str(tmp_path / "page.html")])
        finally:
            path.write_bytes(sound)
        assert done.exit_code == 0
        lines = done.stderr.splitlines()
        assert any(line.startswith(f"ldpbeam: {run}: {named} could not be read") for line in lines), lines
        assert all(line.endswith("[W-RUN-DAMAGED]") for line in lines)
    done = CliRunner().invoke(cli, ["report", str(run), "--page", str(tmp_path / "page.html")])
    assert done.stderr == ""
