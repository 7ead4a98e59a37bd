"""The power is lost anywhere: no answered report is lost, and no file comes back that was taken away."""

from __future__ import annotations

import errno
import hashlib
import shutil
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from ldpbeam.collector.store import FileStore
from ldpbeam.durable.folder import sync_folder
from ldpbeam.errors import LdpError
from ldpbeam.records.journal import JOURNALS, read_entries
from tests.crash.power import final, forcing_only, losses
from tests.crash.recorder import Kind, Log, Recorder, Said, mark, restore
from tests.ldpbeam.collector.serving import names
from tests.ldpbeam.collector.test_store import Time, columns

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(sys.platform != "linux", reason="the recorder is loaded as Linux does it"),
]

PLAN = ((0, 5), (5, 8), (), (8, 20), (20, 90), (90, 93), (), (93, 95))
"""Report ids from and to of each commit; empty: time passes, and files are published."""
SENT = range(95)
BYTES = 400
"""Size at which a journal becomes a file."""


def opened(folder: Path, time: Time, heard: list[LdpError] | None = None) -> FileStore:
    told: list[LdpError] = [] if heard is None else heard
    store = FileStore(folder / "reports", 10.0, BYTES, time, time, told.append)
    store.open()
    return store


def files(folder: Path) -> dict[str, str]:
    """Digests of the finished files, by name."""
    found = sorted((folder / "reports").glob("*.pb"))
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in found}


def warm() -> None:
    """Compile what reads messages."""
    with TemporaryDirectory() as folder:
        store = opened(Path(folder), Time())
        store.commit(columns(range(2)))
        store.close()
        names(Path(folder) / "reports")


def collect(folder: Path) -> None:
    """A life of a collector: what may fail is sent or tried again once."""
    time, made = Time(), list[FileStore]()

    def trying(step: Any, *given: Any) -> None:
        try:
            step(*given)
        except (OSError, LdpError) as error:
            mark(failed=str(error))
            step(*given)

    trying(lambda: made.append(opened(folder, time)))
    for commit in PLAN:
        if commit:
            trying(made[0].commit, columns(range(*commit)))
            mark(answered=commit)
        else:
            time.now += 11
            trying(made[0].publish)
        mark(files=files(folder))
    taken = sorted((folder / "reports").glob("*.pb"))[0]
    ids = names_in(taken)
    mark(taking=ids)
    trying(take, taken)
    mark(taken=ids)
    trying(made[0].close)
    mark(closed=True)


def take(path: Path) -> None:
    """What somebody does who has read a file, and needs it no more."""
    path.unlink(missing_ok=True)
    sync_folder(path.parent)


def names_in(path: Path) -> list[int]:
    """Report ids of one finished file."""
    with TemporaryDirectory() as alone:
        shutil.copy(path, alone)
        return names(Path(alone))


def complaints(folder: Path, said: Said) -> list[str]:
    """What is wrong once the next collector has looked at what a machine left."""
    answered = {i for words in said for i in range(*words.get("answered", (0, 0)))}
    taking = {i for words in said for i in words.get("taking", ())}
    taken = {i for words in said for i in words.get("taken", ())}
    shown: Mapping[str, str] = {name: is_ for words in said for name, is_ in words.get("files", {}).items()}
    time = Time()
    time.now = 5000.5
    (folder / "reports").mkdir(exist_ok=True)
    heard: list[LdpError] = []
    journals = (folder / "reports").glob(JOURNALS)
    damaged = sum(read_entries(path.read_bytes()).damaged > 0 for path in journals)
    store = opened(folder, time, heard)
    store.commit(columns(range(200, 201)))
    store.close()
    try:
        found = names(folder / "reports")
    except (AssertionError, ValueError, ArithmeticError):
        return ["a finished file is torn"]
    # Zeros at the end of a commit that was not answered look like damage; `.committed-…` must add no warning.
    wrong = ["a loss is told where there is none"] if len(heard) > damaged else []
    # What was sent again since a call failed may be there twice, and is counted once, by its id.
    once = not any("failed" in words for words in said)
    if once and len(set(found)) < len(found):
        wrong.append("a report is there twice")
    if not answered - taking <= set(found):
        wrong.append("an answered report is lost")
    if not set(found) - {200} <= set(SENT):
        wrong.append("a report was never sent")
    if once and taken & set(found):
        wrong.append("a report comes back that was taken away")
    if any(shown.get(name, is_) != is_ for name, is_ in files(folder).items()):
        wrong.append("a file has another content than readers saw")
    if 200 not in found:
        wrong.append("the collector takes no reports")
    if [
        path
        for path in (folder / "reports").glob(".*")
        if path.name != ".lock" and ".damaged-" not in path.name
    ]:
        wrong.append("something unfinished stays")
    return wrong


def enumerated(log: Log, home: Path) -> Counter[str]:
    found: Counter[str] = Counter()
    for loss in losses(log, 64):
        found.update(complaints(restore(loss.state, home / "left"), loss.said))
    return found


def test_whatever_a_lost_disk_holds_no_answered_report_is_lost(recorder: Recorder, home: Path) -> None:
    log = recorder.run(collect, restore({}, home / "recorded"))
    assert enumerated(log, home) == {}


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_nor_after_the_disk_has_refused_a_call(error: int, recorder: Recorder, home: Path) -> None:
    found: Counter[str] = Counter()
    for call in range(1000):
        log = recorder.run(collect, restore({}, home / "recorded"), refuse=(call, error))
        if not log.count(Kind.REFUSED):
            break
        for state in final(log, 8):
            found.update(complaints(restore(state, home / "left"), log.marks()))
    assert found == {}
    assert call > 40


@pytest.mark.parametrize("forced", ["files", "folders"])
def test_a_collector_that_forces_only_the_one_to_disk_fails(
    forced: str, recorder: Recorder, home: Path
) -> None:
    """Otherwise the tests above could not fail of the collector: whatever it keeps its reports in."""
    log = recorder.run(collect, restore({}, home / "recorded"))
    found = enumerated(forcing_only(forced, log), home)
    assert {"an answered report is lost", "a finished file is torn"} & set(found)
