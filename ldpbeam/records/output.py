"""The output directory of a run over files: whose it is, and how new results take the place of old ones.

A run writes into a folder of its own inside the output, and exchanges it for what is there once it is
complete: first the record of the old run goes, last the record of the new one comes. So at every moment the
directory holds the old results, the new ones, or no ``run.json``; an exchange that was cut short is finished
by the next run before it does anything else.

Object stores have neither folders that can be renamed nor locks. There the objects are written in place,
between the removal of the old record and the writing of the new one.
"""

from __future__ import annotations

import re
import secrets
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from apache_beam.io.filesystems import FileSystems

from ldpbeam.collection.collection import Collection
from ldpbeam.durable.errors import HeldError
from ldpbeam.durable.folder import make_lasting_folder, sync_folder
from ldpbeam.durable.lock import Lock
from ldpbeam.errors import LdpError, UsageError, disk_error, disk_errors
from ldpbeam.host.signals import not_interrupted, removed_on_interrupt
from ldpbeam.records.outcome import OUTCOME
from ldpbeam.records.run_record import RUN_RECORD, RunRecord
from ldpbeam.transforms.sinks.atomic import listed, remove
from ldpbeam.transforms.sinks.file_record import FileRecord

OF_SOME = ("counts", "summaries", "slices", "slice_counts", "slice_summaries")
PARTS = ("accounting", "estimates", "latest", "rejects", *OF_SOME)
"""Folders that a run over files writes, the last ones only for collections of distributions or slices."""

LOCK = ".lock"
_SCRATCH = re.compile(r"\.run-[0-9a-f]{8}\.tmp")
_REPLAY = re.compile(r"\.replay-\w+\.tmp")
_PAGE = "index.html"

_NAME = r"[A-Za-z0-9][A-Za-z0-9_.-]*"
_EPOCH = rf"(?P<name>{_NAME})-(?P<digest>[0-9a-f]{{16}})-epoch-\d{{6,}}"
_OURS = {
    **dict.fromkeys(PARTS, re.compile(rf"{_EPOCH}\.parquet")),
    **dict.fromkeys(("estimates", "counts"), re.compile(rf"{_EPOCH}-r\d{{3,}}\.parquet")),
    "accounting": re.compile(rf"{_EPOCH}\.json|other-([0-9a-f]{{16}}|unknown)(-[\w.-]+)?\.json"),
    "rejects": re.compile(r"rejects-([0-9a-f]{16}|segment-\d{10,}|-?\d{11,}-\d{3,}(-[\w.-]+)?)\.parquet"),
}
"""What the files are called that runs write, by folder."""
_UNFINISHED = re.compile(r"\.[0-9a-f]{8}\.tmp$")


# --- one run at a time


@contextmanager
def locked(output: str) -> Iterator[None]:
    """Keep other runs and replays away from a local output for a block."""
    if "://" in output:
        yield
        return
    folder = Path(output)
    path = folder / LOCK
    lock = Lock(path)
    try:
        make_lasting_folder(folder, 0o777)  # else it could go with all results
        lock.acquire()
    except OSError as error:
        full = disk_error(error)
        if full is not None and full.code in ("E-DISK-FULL", "E-DISK-LINK", "E-DISK-LOCKS"):
            raise full from None
        raise unusable(output, error) from None
    except HeldError:
        raise LdpError(
            "E-OUTPUT-BUSY",
            "another run or replay works on this output",
            where=output,
            remedy="Wait until it has ended, or choose another --output.",
        ) from None
    try:
        with removed_on_interrupt(path):
            yield
    finally:
        lock.release(remove=True)


def unusable(output: str, error: OSError) -> UsageError:
    """The error about an output that can be no directory."""
    return UsageError(
        "E-USAGE-OUTPUT",
        f"{output} cannot be used as a directory: {error.strerror}",
        remedy="Give an empty or new directory, in a place that you may write to, to --output.",
    )


# --- what is there


def prepare(output: str, collections: Sequence[Collection], *, overwrite: bool) -> None:
    """Make sure that a run may replace what is there; nothing of a finished run is touched."""
    if "://" not in output:
        refuse_foreign(Path(output))
        for left in _scratch_folders(Path(output)):
            if (left / RUN_RECORD).is_file() and _SCRATCH.fullmatch(left.name):
                exchange(output, left)
            shutil.rmtree(left)
        for name in (RUN_RECORD, OUTCOME):
            for path in Path(output).glob(f"{name}.*.tmp"):
                path.unlink()
    if not overwrite:
        _refuse_others(output, collections)


def _scratch_folders(folder: Path) -> list[Path]:
    patterns = (_SCRATCH, _REPLAY)
    return sorted(p for p in folder.iterdir() if p.is_dir() and any(x.fullmatch(p.name) for x in patterns))


def refuse_foreign(folder: Path) -> None:
    """Nothing that no run has written is ever deleted."""
    for part in PARTS:
        if (folder / part).is_symlink():
            raise UsageError(
                "E-USAGE-OUTPUT",
                f"{folder / part} is a symbolic link, which a run would replace",
                remedy="Remove it, and let --output itself be the link.",
            )
    foreign = _foreign(folder)
    if foreign:
        raise UsageError(
            "E-USAGE-OUTPUT",
            f"{folder} holds {foreign[0]!r}, which no run has written",
            remedy="Give an empty or new directory to --output.",
        )


def _foreign(folder: Path) -> list[str]:
    """What lies in an output directory and neither has a run's name for it nor is in the run's record."""
    record = _record(str(folder))
    recorded = {file.path for file in record.files} if record else set()
    ours = {RUN_RECORD, OUTCOME, _PAGE, LOCK}
    foreign = []
    for path in folder.iterdir():
        if path.name in PARTS:
            foreign += _foreign_in(path, recorded)
        elif path.name not in ours and not path.name.endswith(".tmp"):
            foreign.append(path.name)
    return sorted(foreign)


def _foreign_in(folder: Path, recorded: set[str]) -> list[str]:
    if not folder.is_dir():
        return [folder.name]
    pattern = _OURS[folder.name]
    foreign = []
    for path in folder.iterdir():
        name = f"{folder.name}/{path.name}"
        ours = pattern.fullmatch(_UNFINISHED.sub("", path.name)) is not None or name in recorded
        if not ours or (path.is_dir() and not path.is_symlink()):
            foreign.append(name)
    return foreign


def _refuse_others(output: str, collections: Sequence[Collection]) -> None:
    """Raise UsageError for results of other collections: they are given up by name or not at all."""
    given = {collection.digest_hex for collection in collections}
    others = {digest: name for digest, name in _whose(output).items() if digest not in given}
    if not others:
        return
    record = _record(output)
    versions = {c.digest: c.version for c in record.collections} if record else {}
    named = [
        f"{name} version {versions[digest]}" if digest in versions else f"{name} ({digest})"
        for digest, name in sorted(others.items(), key=lambda item: (item[1], item[0]))
    ]
    more = f" and {len(named) - 3} more" if len(named) > 3 else ""
    raise UsageError(
        "E-USAGE-OVERWRITE",
        f"{output} holds results of {', '.join(named[:3])}{more}, which this run does not count",
        remedy="Give another directory to --output, add the collection, or add --overwrite to replace them.",
    )


def _whose(output: str) -> dict[str, str]:
    names: dict[str, str] = {}
    for part in ("accounting", "estimates"):
        for file in listed(output, part):
            match = _OURS[part].fullmatch(file.path.rpartition("/")[2])
            if match is not None and match["digest"]:
                names[match["digest"]] = match["name"]
    return names


def _record(output: str) -> RunRecord | None:
    """The record of the run before; None where there is none that can be read."""
    path = FileSystems.join(output, RUN_RECORD)
    try:
        if not FileSystems.exists(path):
            return None
        with FileSystems.open(path) as handle:
            return RunRecord.parse(handle.read(), path)
    except (OSError, UsageError):
        return None


# --- what takes its place


@contextmanager
def scratch_of(output: str) -> Iterator[str]:
    """Where a run writes until it is complete: a new folder inside the output; gone after the block."""
    if "://" in output:
        remove(output, RUN_RECORD)
        yield output
        return
    folder = Path(output, f".run-{secrets.token_hex(4)}.tmp")
    with removed_on_interrupt(folder):
        try:
            with disk_errors():
                for part in PARTS:
                    (folder / part).mkdir(parents=True)
                yield str(folder)
        finally:
            # Only a failing disk ends an exchange that has begun; then the next run finishes it.
            if not (folder / RUN_RECORD).exists():
                shutil.rmtree(folder, ignore_errors=True)


def verify_files(folder: str, files: Iterable[FileRecord], output: str) -> None:
    """Before a record vouches for files in a folder: each is there, and as long as it was."""
    expected = {file.path: file.size for file in files}
    if "://" in folder:
        start = len(FileSystems.join(folder, "x")) - 1
        sizes = {m.path[start:]: m.size_in_bytes for part in PARTS for m in listed(folder, part)}
    else:
        sizes = {name: _size(Path(folder, name)) for name in expected}
    wrong = sorted(name for name, size in expected.items() if sizes.get(name) != size)
    if wrong:
        raise LdpError(
            "E-RUN-FILES",
            f"{len(wrong)} of {len(expected)} files are gone or were changed while the run was under way, "
            f"the first of them {wrong[0]}",
            where=output,
            remedy="Nothing was published as finished; keep others away from the directory and run again.",
        )


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return -1


def exchange(output: str, scratch: Path) -> None:
    """Put complete results, whose record is among them, in the place of what is there."""
    folder = Path(output)
    for part in PARTS:
        if (scratch / part).exists():
            sync_folder(str(scratch / part))
    with not_interrupted():
        for name in (RUN_RECORD, _PAGE, OUTCOME):
            (folder / name).unlink(missing_ok=True)
        # Before anything else goes: after a power cut the old record must not come back without its files.
        sync_folder(output)
        accounting, *others = PARTS
        _put_aside(folder, scratch, accounting)
        for part in others:
            _put_aside(folder, scratch, part)
            _put_in_place(folder, scratch, part)
        _put_in_place(folder, scratch, accounting)
        for part in OF_SOME:
            with suppress(OSError):  # it has something in it, or is not there
                (folder / part).rmdir()
        sync_folder(str(scratch))
        sync_folder(output)
        (scratch / RUN_RECORD).rename(folder / RUN_RECORD)
        sync_folder(output)


def _put_aside(folder: Path, scratch: Path, part: str) -> None:
    if (scratch / part).exists() and (folder / part).exists():
        (folder / part).rename(scratch / f"old-{part}")


def _put_in_place(folder: Path, scratch: Path, part: str) -> None:
    if (scratch / part).exists():
        (scratch / part).rename(folder / part)


def remove_other_objects(output: str, files: Iterable[FileRecord]) -> None:
    """Delete the objects of earlier runs whose names this run did not write; for object stores."""
    names = {file.path.rpartition("/")[2] for file in files}
    names |= {re.sub(r"-r\d{3,}\.parquet$", ".parquet", name) for name in names}
    gone = []
    for part in PARTS:
        for file in listed(output, part):
            name = file.path.rpartition("/")[2]
            if name not in names and _OURS[part].fullmatch(name):
                gone.append(file.path)
    if gone:
        FileSystems.delete(gone)
