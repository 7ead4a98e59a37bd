"""State of a job in the middle of things, written by the code as it is: run it for a format that is new.

    python -m tests.transcripts.state.generate

The files that are there are not written again for a change that still reads them: they are what running jobs
hold. A format that is new gets further files beside the old ones, under another prefix.
"""

from __future__ import annotations

import struct
from pathlib import Path

from ldpbeam.collection.collection import Collection
from ldpbeam.collection.epochs import Epochs
from tests.pipelines.running import collection, fleet, with_duplicates
from tests.transcripts.machine import Cells, FakeBag, FakeCell, Machine, Sent

HERE = Path(__file__).parent
AGREED: Collection = collection("grr", name="kept", epochs=Epochs(3600, 0, 100), allowed_lateness=1800)
MINUTE = 60_000_000


def sent() -> list[Sent]:
    """Everything that reaches the job, before the moment and after it."""
    batches = with_duplicates(fleet(AGREED, 200, 1))
    return [(AGREED.digest, batch, (10 + 20 * i) * MINUTE) for i, batch in enumerate(batches)]


SENT = sent()
NOW = {"v2-last": True, "v2-last-no-dedup": False}
"""What the code writes now; those with and without de-duplication."""
BEFORE = 3
"""How many of them had come when state was written; the epoch had ended, with one result."""


def machine(deduplicate: bool) -> Machine:
    """A job, as it was and as it is."""
    return Machine([AGREED], bits=1, early=600, deduplicate=deduplicate)


def until_the_moment(job: Machine) -> None:
    """What happened before."""
    for i, one in enumerate(SENT[:BEFORE]):
        job.advance(one[2])
        if i == BEFORE - 1:
            job.advance(60 * MINUTE)
        job.arrive(*one)


def name_of(prefix: str, step: str, key: tuple[object, ...], cell: str) -> str:
    """A file's name."""
    return f"{prefix}.{step}.{'-'.join(map(str, key[1:]))}.{cell}.bin"


def write_state(folder: Path, prefix: str, job: Machine) -> None:
    """One file per key and cell; a bag's items each after its length."""
    for step, table in (("CountShard", job.shards), ("SumShards", job.epochs)):
        for key, cells in table.items():
            timers = (timer.at if timer.at is not None else -1 for timer in cells.timers.values())
            due = struct.pack("<qq", *timers)
            bag = b"".join(struct.pack("<I", len(item)) + item for item in cells.bag.items)
            content = {"bag": bag, "state": cells.state.value or b"", "due": due}
            if cells.last.value is not None:
                content["last"] = cells.last.value
            for cell, held in content.items():
                (folder / name_of(prefix, step, key, cell)).write_bytes(held)


def read_state(folder: Path, prefix: str, job: Machine) -> None:
    """Give a job the state in the files."""
    for path in sorted(folder.glob(f"{prefix}.*.state.bin")):
        _, step, place, _, _ = path.name.split(".")
        names = {c: path.name.replace("state.bin", f"{c}.bin") for c in ("bag", "due")}
        content = {c: path.with_name(name).read_bytes() for c, name in names.items()}
        items, bag = [], content["bag"]
        while bag:
            (size,) = struct.unpack_from("<I", bag)
            items.append(bag[4 : 4 + size])
            bag = bag[4 + size :]
        last = path.with_name(path.name.replace("state.bin", "last.bin"))
        cells = Cells(FakeBag(items), FakeCell(path.read_bytes()))
        if last.exists():
            cells.last.write(last.read_bytes())
        for timer, at in zip(cells.timers.values(), struct.unpack("<qq", content["due"]), strict=True):
            timer.at = None if at == -1 else at
        table = job.shards if step == "CountShard" else job.epochs
        table[(AGREED.digest_hex, *map(int, place.split("-")))] = cells  # type: ignore[index]


def main() -> None:
    """Write the files."""
    for prefix, deduplicate in NOW.items():
        job = machine(deduplicate)
        until_the_moment(job)
        write_state(HERE, prefix, job)


if __name__ == "__main__":
    main()
