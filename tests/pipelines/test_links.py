"""Links that somebody lays where a command will write: the target stays as it is, whatever the command.

Two kinds of names: those that a file has until it is whole, which nobody can foretell; and those of locks and
reserves, which everybody knows.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ldpbeam.collector.store import FileStore
from ldpbeam.durable import lock
from ldpbeam.engine.storage.landing import Landing
from ldpbeam.errors import LdpError
from ldpbeam.records.output import locked
from tests.ldpbeam.collector.test_store import columns
from tests.pipelines.running import collection

ONE = collection("grr", name="one")
CONTENT = b"somebody's"


def collected(folder: Path) -> None:
    store = FileStore(folder, 10.0, 1 << 20, lambda: 1000.5, lambda: 0.0)
    store.open()
    store.commit(columns(range(5)))
    store.close()


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
