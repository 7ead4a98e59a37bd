"""Links that somebody lays where a command will write: the target stays as it is, whatever the command.

Two kinds of names: those that a file has until it is whole, which nobody can foretell; and those of locks and
reserves, which everybody knows.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ldpbeam.collector.store import FileStore
from ldpbeam.durable import lock
from ldpbeam.engine.storage.landing import Landing
from ldpbeam.errors import LdpError
from ldpbeam.records.output import locked
from tests.ldpbeam.cli.calling import call
from tests.ldpbeam.collector.test_store import columns
from tests.pipelines.running import collection, execute, fleet, write

ONE = collection("grr", name="one")
CONTENT = b"somebody's"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run."""
    folder = tmp_path_factory.mktemp("results")
    write(folder / "in", ONE, fleet(ONE, 120, 2), prefix="one-")
    execute(ONE, folder / "in", folder / "out")
    return folder / "out"


def collected(folder: Path) -> None:
    store = FileStore(folder, 10.0, 1 << 20, lambda: 1000.5, lambda: 0.0)
    store.open()
    store.commit(columns(range(5)))
    store.close()


def called(*arguments: object) -> None:
    done = call(*arguments)
    assert done.exit_code == 0, done.output


WRITERS: dict[str, Callable[[Path, Path], object]] = {
    "report": lambda results, folder: called("report", results, "--page", folder / "index.html"),
    "export as Parquet": lambda results, folder: called(
        "export", results, "--output", folder / "all.parquet"
    ),
    "collect": lambda _, folder: collected(folder),
    "run": lambda results, folder: execute(ONE, results.parent / "in", folder, overwrite=True),
}


@pytest.mark.thorough
@pytest.mark.parametrize("writer", WRITERS)
def test_nobody_can_foretell_the_name_of_an_unfinished_file(
    writer: str, results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twice the same command: each file comes under its name from another one, of eight random digits."""
    real = os.replace
    for pid in range(os.getpid(), os.getpid() + 50):  # where they once were
        for name in (f".index.html.{pid}.part", f".all.csv.{pid}.tmp", f".a.parquet.{pid}.tmp"):
            (tmp_path / name).symlink_to(tmp_path / "victim")
    (tmp_path / "victim").write_bytes(CONTENT)
    names: list[set[str]] = []
    for attempt in ("first", "second"):
        seen: set[str] = set()

        def noted(source: Any, target: Any, seen: set[str] = seen) -> None:
            seen.add(str(source).removeprefix(str(target)))
            real(source, target)

        folder = tmp_path / attempt if writer in ("run", "collect") else tmp_path
        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", noted)
            WRITERS[writer](results, folder)
        assert seen
        assert all(re.fullmatch(r"\.[0-9a-f]{8}\.tmp", name) for name in seen), seen
        names.append(seen)
        assert not list(folder.rglob("*.tmp")) or folder == tmp_path
    assert not names[0] & names[1]
    assert (tmp_path / "victim").read_bytes() == CONTENT


def take_run_lock(folder: Path) -> None:
    with locked(str(folder)):
        pass


def take_stream_lock(folder: Path) -> None:
    with Landing(str(folder)).locked():
        pass


HOLDERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "run": (".lock", take_run_lock),
    "collect": (".lock", collected),
    "a collector's reserve": (".reserve", collected),
    "stream": ("landing/lock", take_stream_lock),
}


@pytest.mark.parametrize(
    ("holder", "kind"),
    [(name, "link") for name in HOLDERS] + [("run", "dangling link"), ("stream", "folder")],
)
def test_what_lies_at_a_known_name_is_neither_followed_nor_emptied(
    holder: str, kind: str, tmp_path: Path
) -> None:
    """One line with the place, and nothing is done."""
    name, act = HOLDERS[holder]
    place, victim = tmp_path / "out" / name, tmp_path / "victim"
    place.parent.mkdir(parents=True)
    victim.write_bytes(CONTENT)
    if kind == "folder":
        place.mkdir()
    else:
        place.symlink_to(victim if kind == "link" else tmp_path / "nothing")
    with pytest.raises((LdpError, OSError)) as error:
        act(tmp_path / "out")
    assert name.rpartition("/")[2] in str(error.value)
    if isinstance(error.value, LdpError):
        assert error.value.code == "E-DISK-LINK"
    assert victim.read_bytes() == CONTENT
    assert not (tmp_path / "nothing").exists()


def test_the_locks_are_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them goes through the one lock: where that is held, none lets anybody in."""
    monkeypatch.setattr(lock, "_lock", lambda _: False)
    for name, (_, act) in HOLDERS.items():
        with pytest.raises(LdpError, match=r"BUSY"):
            act(tmp_path / name)
