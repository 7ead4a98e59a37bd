"""Whose an output directory is, what a run may replace in it, and how new results take the place of old."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from ldpbeam.durable.document import document
from ldpbeam.durable.folder import sync_folder
from ldpbeam.errors import LdpError, UsageError
from ldpbeam.records import output as module
from ldpbeam.records.output import exchange, prepare
from ldpbeam.records.run_output import run_record
from tests.conftest import REPOSITORY
from tests.pipelines.running import collection, copied, execute, fleet, write

ONE = collection("grr", name="one")
TWO = collection("olh", name="two")


def tree(folder: Path) -> dict[str, bytes | None]:
    return {
        p.relative_to(folder).as_posix(): p.read_bytes() if p.is_file() else None for p in folder.rglob("*")
    }


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Reports of two collections in ``in`` and ``in2``, and in ``out`` a finished run of the first."""
    folder = tmp_path_factory.mktemp("finished")
    write(folder / "in", ONE, fleet(ONE, 120, 2), prefix="one-")
    write(folder / "in2", TWO, fleet(TWO, 120, 2), prefix="two-")
    execute(ONE, folder / "in", folder / "out")
    return folder


@pytest.fixture
def done(finished: Path, tmp_path: Path) -> Path:
    """A finished run of one collection: a copy, since each test spoils it in its own way."""
    return copied(finished, tmp_path) / "out"


# --- whose results


def test_results_of_an_unfinished_run_have_an_owner_too(done: Path, tmp_path: Path) -> None:
    """Without a record the names of the files say whose they are."""
    (done / "run.json").unlink()
    with pytest.raises(UsageError, match=rf"results of one \({ONE.digest_hex}\)"):
        execute(TWO, tmp_path / "in2", done)


@pytest.mark.cases(3)
@pytest.mark.parametrize(
    "name",
    [
        "estimates/year=2024.parquet/part-0.parquet",
        "estimates/mine.parquet",
        f"estimates/one-{ONE.digest_hex}-epoch-000000.parquet",
        "accounting/ledger2024.json",
        "rejects/rejects.parquet",
        "latest/notes.tmp",
    ],
)
def test_what_no_run_has_written_is_never_deleted(done: Path, tmp_path: Path, name: str) -> None:
    (done / name).parent.mkdir(parents=True, exist_ok=True)
    (done / name).write_text("precious")
    before = tree(done)
    with pytest.raises(UsageError, match=r"which no run has written.*\[E-USAGE-OUTPUT\]"):
        execute(ONE, tmp_path / "in", done, overwrite=True)
    assert tree(done) == before


@pytest.mark.thorough
def test_what_the_record_names_is_the_runs_own(done: Path, tmp_path: Path) -> None:
    """Files of a version that called them otherwise go by the record."""
    record = json.loads((done / "run.json").read_text())
    (done / "estimates" / "named-otherwise.parquet").write_text("old")
    record["files"].append({"path": "estimates/named-otherwise.parquet", "bytes": 3, "sha256": "", "rows": 0})
    (done / "run.json").write_bytes(document(record))
    execute(ONE, tmp_path / "in", done)
    assert not (done / "estimates" / "named-otherwise.parquet").exists()


# --- one at a time


HOLD = """
import sys
from ldpbeam.records.output import locked
with locked(sys.argv[1]):
    print("held", flush=True)
    input()
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[Callable[[Path], subprocess.Popen[str]]]:
    """Another process that works on an output."""
    started = []

    def hold(folder: Path) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", HOLD, str(folder)],
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        return process

    yield hold
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.thorough
def test_two_runs_on_one_output_do_not_meet(
    done: Path, tmp_path: Path, holder: Callable[[Path], subprocess.Popen[str]]
) -> None:
    """The second one is refused and touches nothing; a killed one holds nobody up."""
    other = holder(done)
    before = tree(done)
    with pytest.raises(LdpError, match="E-OUTPUT-BUSY"):
        execute(ONE, tmp_path / "in", done)
    assert tree(done) == before
    other.kill()
    other.wait()
    execute(ONE, tmp_path / "in", done)
    assert not (done / ".lock").exists()


@pytest.mark.thorough
def test_a_replay_waits_for_a_run(done: Path, holder: Callable[[Path], subprocess.Popen[str]]) -> None:
    from ldpbeam.cli.replay import replay_rejects as replay

    holder(done)
    with pytest.raises(LdpError, match="E-OUTPUT-BUSY"):
        replay(done / "rejects")


# --- new results for old ones


def test_a_run_that_fails_leaves_the_earlier_results(
    done: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ldpbeam.transforms.stages.estimate import EstimateEpochs

    before = tree(done)

    def fail(self: object, element: Any) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr(EstimateEpochs, "process", fail)
    with pytest.raises(Exception, match="ZeroDivision"):
        execute(ONE, tmp_path / "in", done)
    assert tree(done) == before


@pytest.mark.parametrize("gone", [False, True], ids=["cut", "taken-away"])
@pytest.mark.thorough
def test_files_are_looked_at_before_a_record_vouches_for_them(
    done: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gone: bool
) -> None:
    """A table that somebody takes away or cuts meanwhile: no record, the earlier results stay."""
    import ldpbeam.pipelines.run as running

    before = tree(done)
    real = run_record

    def meddled(*given: Any, **more: Any) -> Any:
        (victim,) = done.glob(".run-*.tmp/estimates/*-epoch-000001-r000.parquet")
        if gone:
            victim.unlink()
        else:
            victim.write_bytes(victim.read_bytes()[:-1])
        return real(*given, **more)

    monkeypatch.setattr(running, "run_record", meddled)
    with pytest.raises(LdpError, match=r"1 of 4 files.*estimates/one-.*\[E-RUN-FILES\]"):
        execute(ONE, tmp_path / "in", done)
    assert tree(done) == before


def test_an_exchange_that_was_cut_short_is_finished(
    done: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever it stopped, no accounting names a missing table; the next run begins with the new results."""
    new = execute(ONE, [sorted((tmp_path / "in").iterdir())[0]], tmp_path / "new").output
    wanted = tree(new)
    old = tree(done)
    steps = 0
    while True:
        base = tmp_path / f"stop-{steps}"
        lay(base, old)
        lay(base / ".run-00000000.tmp", wanted)
        ended = stopped_after(steps, base, monkeypatch)
        if "run.json" in tree(base):
            seen = {n: c for n, c in tree(base).items() if not n.startswith(".run-")}
            assert seen in (old, wanted)
        for path in base.glob("accounting/*.json"):
            for revision in json.loads(path.read_text())["revisions"]:
                assert (base / revision["file"]).is_file()
        prepare(str(base), (ONE,), overwrite=False)
        assert tree(base) == wanted, steps
        if not ended:
            break
        steps += 1
    assert steps > 10


def lay(folder: Path, content: dict[str, bytes | None]) -> None:
    for name, data in content.items():
        if data is None:
            (folder / name).mkdir(parents=True, exist_ok=True)
    for name, data in content.items():
        if data is not None:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)


class _StopError(Exception):
    pass


def stopped_after(steps: int, base: Path, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Exchange, ended after so many changes of the directory; whether it did not come to its end."""
    left = [steps]

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def change(*args: Any, **kwargs: Any) -> Any:
            if not left[0]:
                raise _StopError
            left[0] -= 1
            return real(*args, **kwargs)

        return change

    with monkeypatch.context() as patched:
        for name in ("rename", "unlink"):
            patched.setattr(Path, name, counted(getattr(Path, name)))
        patched.setattr(module, "sync_folder", counted(sync_folder))
        try:
            exchange(str(base), base / ".run-00000000.tmp")
        except _StopError:
            return True
    return False


# --- latest


def test_latest_is_the_newest_revision_of_each_epoch(done: Path) -> None:
    """The same bytes under another name, which take no room."""
    found = sorted((done / "latest").iterdir())
    assert [p.name for p in found] == [f"one-{ONE.digest_hex}-epoch-00000{e}.parquet" for e in (0, 1)]
    for path in found:
        assert path.samefile(done / "estimates" / f"{path.stem}-r000.parquet")
    rows = pq.read_table(found[0]).slice(0, 1).to_pylist()[0]
    assert (rows["version"], (rows["epoch_end"] - rows["epoch_start"]).total_seconds()) == (1, 3600)


def test_refused_messages_are_private(tmp_path: Path) -> None:
    """Payloads and ids of reports: for the owner only, whatever the umask says."""
    from ldpbeam.engine.engine import LocalStream
    from tests.ldpbeam.engine.broker import Broker, Clock, free_landing

    before = os.umask(0)
    try:
        clock = Clock(10.0)
        broker = Broker(clock)
        from ldpbeam.job.config import RunConfig

        config = RunConfig.parsed(
            (ONE,), output=str(tmp_path / "out"), subscription="s", watermark_delay=1.0, land_every=0.5
        )
        engine = LocalStream(config, broker, free_landing(tmp_path / "out"), clock, clock)
        broker.publish(b"junk")
        engine.step()
        engine.stop()
    finally:
        os.umask(before)
    landing = tmp_path / "out" / "landing"
    assert stat.S_IMODE(landing.stat().st_mode) == 0o700
    kept = [p for p in landing.iterdir() if p.name != "lock"]
    assert {p.name for p in kept} == {"engine.sqlite", "sentinel"}
    assert {stat.S_IMODE(p.stat().st_mode) for p in kept} == {0o600}
