"""Tiny fleets, runs of the pipeline over them, and a slow reading of the same files.

The slow reading shares nothing with the pipeline: messages are read one by one with the protobuf
library, tables with pyarrow, duplicates by a dictionary, counts by asking every report about every
value.
"""

from __future__ import annotations

import gzip
import json
import logging
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from ldpbeam.admission import ReportColumns
from ldpbeam.collection.collection import Collection
from ldpbeam.collection.domain import Domain
from ldpbeam.collection.epochs import Epochs
from ldpbeam.collection.values import Index
from ldpbeam.hashing import FAMILIES, UniversalFamily
from ldpbeam.job.config import RunConfig
from ldpbeam.protocols import PROTOCOLS, FrequencyProtocol, Parameters
from ldpbeam.records.run_record import read_record
from ldpbeam.simulators.deliver.files import Compression, Format, report_file, write_reports
from ldpbeam.simulators.fleet import Fleet
from ldpbeam.wire import report_pb2
from tests.narrow import frequencies, present
from tests.reference.counting import count_support

DEVICES, EPOCHS, SIZE = 300, 3, 11

Report = tuple[int, int, int, bytes]
"""Digest, epoch, report id, payload."""


def collection(
    protocol: str = "loloha",
    size: int = SIZE,
    name: str = "minutes",
    count: int = 100,
    **changes: Any,
) -> Collection:
    two_rounds = Parameters(epsilon_longitudinal=2.0, epsilon_first=1.0)
    plain = Parameters(epsilon=1.0)
    parameters = two_rounds if protocol.startswith("l") else plain
    fields: dict[str, Any] = {"version": 1, "parameters": parameters, "epochs": Epochs(3600, 0, count)}
    return Collection(name=name, domain=Domain(size), protocol_name=protocol, **{**fields, **changes})


def counting_collections() -> list[Collection]:
    values: dict[str, Any] = {"epsilon": 1.0, "epsilon_longitudinal": 2.0, "epsilon_first": 1.0, "d": 3}
    counting = [name for name, family in FAMILIES.items() if issubclass(family, UniversalFamily)]
    found = []
    for name, kind in PROTOCOLS.items():
        if not issubclass(kind, FrequencyProtocol):
            continue  # means: tests/pipelines counts values
        takes = {p: v for p, v in values.items() if p in (*kind.PARAMETERS, *kind.OPTIONAL)}
        for family in counting if "hash_family" in kind.OPTIONAL else ("",):
            chosen = Parameters(**takes, hash_family=family) if family else Parameters(**takes)
            label = f"{name}_{family}" if family else name
            found.append(collection(name, SIZE, label, parameters=chosen))
    return found


def fleet(agreed: Collection, devices: int = DEVICES, epochs: int = EPOCHS) -> list[ReportColumns]:
    draw = np.random.default_rng(5)
    crowd = Fleet(agreed, devices, agreed.digest % 1000, rows_per_batch=128)
    found: list[ReportColumns] = []
    for epoch in range(epochs):
        values = draw.integers(0, present(agreed.domain).size, devices).astype(np.int32)
        found.extend(crowd.batches(Index(values), epoch)[1])
    return found


def with_duplicates(batches: Sequence[ReportColumns]) -> list[ReportColumns]:
    again = []
    for batch in batches[::2]:
        some = slice(0, 20)
        again.append(ReportColumns(batch.digest, batch.epoch, batch.report_ids[some], batch.payloads[some]))
        swapped = batch.payloads[some][::-1].copy()
        again.append(ReportColumns(batch.digest, batch.epoch, batch.report_ids[some], swapped))
    return [*batches, *again]


def write(
    folder: Path,
    agreed: Collection,
    batches: Iterable[ReportColumns],
    kind: Format = "batch",
    compression: Compression = "none",
    prefix: str = "",
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    by_epoch: dict[int, list[ReportColumns]] = {}
    for batch in batches:
        by_epoch.setdefault(batch.epoch, []).append(batch)
    for epoch, some in by_epoch.items():
        path = report_file(folder, epoch, kind, compression)
        path = path.with_name(f"{prefix}{path.name}")
        write_reports(kind, path, some, compression=compression)
    return folder


@dataclass(frozen=True)
class Done:
    output: Path
    record: dict[str, Any]
    exit_code: int

    @property
    def total(self) -> dict[str, Any]:
        return self.record["accounting"]["total"]

    def tables(self) -> dict[tuple[str, int], pa.Table]:
        found = {}
        for path in sorted((self.output / "estimates").iterdir()):
            table = pq.read_table(path)
            first = table.slice(0, 1).to_pylist()[0]
            found[first["digest"], first["epoch"]] = table
        return found

    def files(self) -> dict[str, bytes]:
        return {p.name: p.read_bytes() for p in sorted((self.output / "estimates").iterdir())}

    def rejects(self) -> list[dict[str, Any]]:
        return [
            row
            for path in sorted((self.output / "rejects").iterdir())
            for row in pq.read_table(path).to_pylist()
        ]


def execute(
    collections: Collection | Sequence[Collection], inputs: Path | Iterable[Path], output: Path, **more: Any
) -> Done:
    logging.basicConfig(level=logging.ERROR)
    from ldpbeam.pipelines.run import run

    agreed = (collections,) if isinstance(collections, Collection) else tuple(collections)
    paths = sorted(inputs.iterdir()) if isinstance(inputs, Path) else list(inputs)
    config = RunConfig.parsed(agreed, files=tuple(map(str, paths)), output=str(output), **more)
    result = run(config)
    content = (output / "run.json").read_bytes()
    assert content == result.content()
    assert read_record(output / "run.json").content() == content
    written = json.loads(content)
    check_books(written)
    return Done(output, written, result.exit_code)


def copied(folder: Path, target: Path) -> Path:
    known: dict[int, str] = {}

    def copy(source: str, place: str) -> None:
        number = Path(source).lstat().st_ino
        if number in known:
            os.link(known[number], place)
        else:
            known[number] = place
            shutil.copy2(source, place, follow_symlinks=False)

    shutil.copytree(folder, target, copy_function=copy, dirs_exist_ok=True)
    return target


def check_books(record: dict[str, Any]) -> None:
    books = record["accounting"]
    lines = [
        *books["epochs"],
        *filter(None, [books.get("archived")]),
        {"counted": 0, "late": 0, "duplicate": 0, **books["unattributed"]},
    ]
    for line in [books["total"], *lines]:
        counted = line["counted"] + line["late"] + line["duplicate"]
        assert line["read"] == counted + sum(line["rejected"].values())
    for what in ("read", "counted", "late", "duplicate"):
        assert books["total"][what] == sum(line[what] for line in lines)
    reasons: dict[str, int] = {}
    for line in lines:
        for reason, count in line["rejected"].items():
            reasons[reason] = reasons.get(reason, 0) + count
    assert reasons == books["total"]["rejected"]


# --- the slow reading


def frame(message: bytes) -> bytes:
    return varint(len(message)) + message


def varint(number: int) -> bytes:
    out = []
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def messages(data: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        length = shift = 0
        while True:
            byte = data[at]
            at += 1
            length |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        yield data[at : at + length]
        at += length


def read_slowly(path: Path) -> list[Report]:
    data = path.read_bytes()
    if data[:4] == b"PAR1":
        rows = pq.read_table(BytesIO(data)).to_pylist()
        return [(r["digest"], r["epoch"], r["report_id"], r["payload"]) for r in rows]
    if path.suffix == ".gz":
        data = gzip.decompress(data)
    elif path.suffix == ".zst":
        data = zstandard.ZstdDecompressor().stream_reader(BytesIO(data)).read()
    found: list[Report] = []
    for message in messages(data):
        many = report_pb2.ReportBatch.FromString(message)
        if many.count:
            assert len(many.payloads) % many.count == 0
            width = len(many.payloads) // many.count
            found.extend(
                (many.digest, many.epoch, name, many.payloads[i * width : (i + 1) * width])
                for i, name in enumerate(many.report_ids)
            )
        else:
            one = report_pb2.Report.FromString(message)
            found.append((one.digest, one.epoch, one.report_id, one.payload))
    return found


def once(reports: Iterable[Report]) -> dict[tuple[int, int], dict[int, bytes]]:
    kept: dict[tuple[int, int], dict[int, bytes]] = {}
    for digest, epoch, name, payload in reports:
        group = kept.setdefault((digest, epoch), {})
        if name not in group or payload < group[name]:
            group[name] = payload
    return kept


def expected_support(
    collections: Sequence[Collection], paths: Iterable[Path]
) -> dict[tuple[str, int], tuple[int, list[int]]]:
    by_digest = {c.digest: c for c in collections}
    reports = [report for path in paths for report in read_slowly(path)]
    return {
        (by_digest[digest].digest_hex, epoch): (
            len(group),
            count_support(frequencies(by_digest[digest].protocol), group.values()),
        )
        for (digest, epoch), group in once(reports).items()
    }


def found_support(done: Done) -> dict[tuple[str, int], tuple[int, list[int]]]:
    lines = {(e["digest"], e["epoch"]): e["counted"] for e in done.record["accounting"]["epochs"]}
    return {key: (lines[key], table.column("support").to_pylist()) for key, table in done.tables().items()}
