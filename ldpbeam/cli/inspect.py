"""The command ``inspect``: what a file or folder is."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ldpbeam.cli.shared.console import PrintingCommand, deliver, say
from ldpbeam.cli.shared.options import collections_option
from ldpbeam.errors import InvalidPayload, UsageError
from ldpbeam.text import clean

if TYPE_CHECKING:
    from ldpbeam.collection.collection import Collection


@click.command(cls=PrintingCommand)
@click.argument("file", type=click.Path(path_type=Path))
@collections_option
@click.option(
    "--limit",
    type=click.IntRange(1),
    default=5,
    show_default=True,
    help="How many reports, rejects or epochs to show.",
)
def inspect(file: Path, collection_files: tuple[Path, ...], limit: int) -> None:
    """Show what a file or folder is, and the first records in it: reports, rejects or a run.

    ldpbeam export shows estimates, ldpbeam check collections.
    """
    from ldpbeam.records.file_views import View, view_of

    if not file.exists():
        raise UsageError("E-USAGE-INPUT", f"{file} does not exist", remedy="Check the path.")
    view = view_of(file, limit)
    if view is None:
        lines = []
        for line in inspect_lines(file, collection_files, limit):
            say(line)
            lines.append(line)
        view = View("records", (), lines)
    say(*view.lines)
    deliver({"kind": view.kind, "content": view.document})


# --- a few reports of a file, or a few rejects


def inspect_lines(path: Path, collection_files: Sequence[Path], limit: int) -> Iterator[str]:
    from ldpbeam.collection.distinct_collections import by_wire_digest
    from ldpbeam.collection.file import load_collection
    from ldpbeam.job.matching import match_path

    files = [path]
    if path.is_dir():
        files = list(map(Path, match_path(str(path)).files))
    if not files:
        nothing = ": nothing was rejected" if path.name == "rejects" else ""
        yield f"{path} holds no file{nothing}."
        return
    if _is_rejects(files[0]):
        yield from _rejects(files, limit)
        return
    collections = by_wire_digest(map(load_collection, collection_files))
    yield from islice(_records(files, collections), limit)


def _is_rejects(path: Path) -> bool:
    import pyarrow.parquet as pq

    if path.suffix != ".parquet":
        return False
    # What is no table is read as reports, and says there what is wrong with it.
    try:
        return "reason" in pq.read_schema(path).names
    except (OSError, ValueError):
        return path.parent.name == "rejects"


def _rejects(paths: list[Path], limit: int) -> Iterator[str]:
    import pyarrow as pa

    from ldpbeam.table_file import published_table
    from ldpbeam.text import plural

    tables = []
    for path in paths:
        try:
            tables.append(published_table(path).read())
        except (OSError, ValueError) as error:
            raise UsageError(
                "E-USAGE-INPUT",
                f"{path} is cut short or damaged, or no table at all ({type(error).__name__})",
                remedy="Fetch it again, or run again.",
            ) from None
    table = pa.concat_tables(tables)
    totals = table.group_by("reason").aggregate([("count", "sum")]).sort_by("reason")
    explained = dict(zip(*(table.column(c).to_pylist() for c in ("reason", "explanation")), strict=True))
    for row in totals.to_pylist():
        yield f"{row['count_sum']:>8,}  {row['reason']}: {explained[row['reason']]}"
    yield ""
    for row in table.slice(0, limit).to_pylist():
        place = "the whole file" if row["place"] < 0 else f"position {row['place']}"
        inside = f", report {row['index']} in the batch" if row["index"] >= 0 else ""
        about = f", digest {row['digest']}, epoch {row['epoch']}" if row["digest"] else ""
        lacks = "" if row["missing"] is None else f", {plural(row['missing'], 'byte')} missing"
        yield f"{row['reason']} x {row['count']} at {place}{inside} of {row['source']}{about}{lacks}"


def _records(paths: list[Path], collections: dict[int, Collection]) -> Iterator[str]:
    from ldpbeam.records.file_views import unknown
    from ldpbeam.text import plural

    logging.basicConfig(level=logging.ERROR)
    from ldpbeam.transforms.sources.chunks import BadSource, ReportTable
    from ldpbeam.transforms.sources.files import ReadFiles
    from ldpbeam.wire.codec import Batch, parse

    for path in paths:
        click.echo(clean(f"{path}:"), err=True)
        for element in ReadFiles().process(str(path)):
            if isinstance(element, BadSource):
                if element.detail and len(paths) == 1:
                    raise unknown(path, f"holds no reports: {element.detail.rstrip('.')}")
                lacks = "" if element.missing is None else f", {plural(element.missing, 'byte')} missing"
                yield f"{element.reason.value} at position {element.place}{lacks}: {element.explanation}"
                continue
            if isinstance(element, ReportTable):
                rows, batches = element.each(), iter(list[Batch]())
            else:
                rows, many, malformed = parse(element.frames, element.base)
                batches = iter(many)
                for place in malformed:
                    yield f"malformed record at position {place}"
            for batch in batches:
                text = _about(batch.digest, batch.epoch, collections)
                yield f"batch at position {batch.place}: {batch.count:,} reports, {text}"
                known = collections.get(batch.digest)
                width = known.protocol.device.payload_size if known else 0
                if known and batch.report_ids.size * width == batch.payloads.size:
                    for i, row in enumerate(batch.payloads.reshape(-1, width)):
                        one = _decoded(int(batch.report_ids[i]), row.tobytes(), known)
                        yield f"  {one}"
            for i in range(rows.digest.size):
                at, size = int(rows.payload_at[i]), int(rows.payload_length[i])
                payload = rows.buffer[at : at + size].tobytes()
                digest = int(rows.digest[i])
                text = _about(digest, int(rows.epoch[i]), collections)
                one = _decoded(int(rows.report_id[i]), payload, collections.get(digest))
                yield f"report at position {rows.place[i]}: {text}, {one}"


def _about(digest: int, epoch: int, collections: dict[int, Collection]) -> str:
    from ldpbeam.collection.collection import digest_hex
    from ldpbeam.collection.slices import slice_text

    known = collections.get(digest)
    name = known.name if known else "unknown collection"
    slice_ = known.said_digests.get(digest) if known else None
    said = f", {slice_text(slice_)}" if slice_ else ""
    return f"{name} ({digest_hex(digest)}), epoch {epoch}{said}"


def _decoded(report_id: int, payload: bytes, collection: Collection | None) -> str:
    """A randomised response: safe to show, it is what the device chose to send."""
    text = f"id {report_id:016x}"
    if collection is None:
        return f"{text}, {len(payload)} payload bytes (give --collection to decode them)"
    try:
        response = collection.protocol.device.decode(payload)
    except InvalidPayload as error:
        return f"{text}, refused: {error.reason.value}"
    return ", ".join([text, *_about_values(response, collection)])


def _about_values(response: Any, collection: Collection) -> Iterator[str]:
    from ldpbeam.collection.string_domain import StringDomain
    from ldpbeam.protocols.contract import SupportProtocol

    protocol = collection.protocol
    for index, one in protocol.device.responses_by_attribute(response).items():
        if isinstance(collection.domain, StringDomain):
            yield f"prefix of {collection.domain.strings.lengths[index]} symbols: {one}"
            continue
        name, domain = collection.histograms[index]
        part = protocol.parts[index]
        about = f"{name}: {one}" if name else f"{one}"
        if not isinstance(part, SupportProtocol):
            yield about
            continue
        size = domain.size
        supported = [v for v in range(min(size, 4096)) if part.law.supports(one, v)]
        names = ", ".join(domain.label(v) for v in supported[:4])
        more = f" and {len(supported) - 4} more" if len(supported) > 4 else ""
        yield f"{about}, supports {len(supported)} of {size} values: {names}{more}"
