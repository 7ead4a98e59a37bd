"""Transcripts: what reached an unbounded job and when, and what it must have told; read, played, compared.

A transcript is a text file of blocks, with an empty line between two. First what it shows, then how the job
is set up, then tables, whose columns are separated by ``|``::

    Late reports make one more revision.

    collection c: lateness 30m
    settings: shard_bits 1, early_every 10m

    at    | arrives | what
          | 00:10   | c/0: 0-9
    01:00 |         |

    told  | epoch | revision | pane    | n  | closed | status | books               | reports
    01:00 | c/0   | 0        | on_time | 10 | no     | ok     | read 10, counted 10 | 0-9

Times count from the start of epoch 0; an epoch lasts an hour, unless a collection says otherwise.

``at``
    to where the watermark goes before the messages of the row are processed; empty: it stays; ``drain``: to
    the end of time. The messages of a row come in one bundle.
``arrives``
    when they reached the broker.
``what``
    messages, separated by ``;``. ``c/0: 0-9`` is a batch with reports 0 to 9 of collection c in epoch 0;
    ``3 as highest`` has report 3's id and another payload (``lowest``, ``highest``, or a report's number).
    Before it may stand ``singly`` (a message each), ``short`` (payloads without their last byte), ``broken``
    (payloads that no device sends) or ``miscounted`` (a batch that claims one report more); after it ``x3``
    (three times). ``junk`` is no message at all.
``told``
    every result in the order it was told: without a revision, only the books were. Where those of an epoch
    were told several times for one moment, the last time.
``reports``
    which reports the published support counts are of. Nothing is left out here as a repeat.
``elsewhere``
    books of what belongs to no epoch, by collection; ``unknown`` for none.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow.parquet as pq
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Timestamp

from ldpbeam.accounting import CountedEpoch
from ldpbeam.collection.collection import Collection
from ldpbeam.collection.epochs import Epochs, parse_duration
from ldpbeam.collection.values import Index
from ldpbeam.job.config import RunConfig
from ldpbeam.pipelines.unbounded import collect_stream
from ldpbeam.simulators.fleet import Fleet
from ldpbeam.wire import report_pb2
from tests.narrow import frequencies
from tests.pipelines.running import SIZE, collection
from tests.reference.counting import count_support

ORIGIN = 1767225600  # 2026-01-01
HOUR = 3600
POOL = 64
JOB = "job"

Row = dict[str, str]


@dataclass
class Transcript:
    """A file, read."""

    title: str
    collections: dict[str, Collection] = field(default_factory=dict)
    absent: set[str] = field(default_factory=set)
    settings: dict[str, Any] = field(default_factory=dict)
    sent: list[Row] = field(default_factory=list)
    told: list[Row] = field(default_factory=list)
    elsewhere: list[Row] = field(default_factory=list)

    def name(self, digest: str) -> str:
        """What the transcript calls a collection."""
        return next((n for n, c in self.collections.items() if c.digest_hex == digest), "unknown")


@dataclass
class Played:
    """What became of a transcript."""

    output: Path
    told: list[dict[str, Any]]


# --- reading


def read_transcript(path: Path) -> Transcript:
    """A transcript file; anything unexpected in it is an error."""
    title, *blocks = re.split(r"\n\s*\n", path.read_text().strip())
    found = Transcript(title)
    for block in blocks:
        lines = block.splitlines()
        first = lines[0].split("|")[0].strip()
        if "|" in lines[0]:
            table = {"at": found.sent, "told": found.told, "elsewhere": found.elsewhere}[first]
            assert not table, f"{path.name}: two tables {first!r}"
            table.extend(_rows(lines))
            continue
        for line in lines:
            _setting(found, line)
    return found


def _rows(lines: list[str]) -> Iterator[Row]:
    names = [name.strip() for name in lines[0].split("|")]
    for line in lines[1:]:
        cells = [cell.strip() for cell in line.split("|")]
        assert len(cells) == len(names), line
        yield dict(zip(names, cells, strict=True))


def _setting(found: Transcript, line: str) -> None:
    what, _, rest = line.partition(": ")
    words = dict(part.split(" ", 1) for part in rest.split(", ") if " " in part)
    if what == "settings":
        kinds: dict[str, Callable[[str], Any]] = {
            "early_every": parse_duration,
            "late_every": parse_duration,
            "shard_bits": int,
        }
        kinds |= {"max_error_fraction": float, "deduplicate": lambda text: text == "yes"}
        found.settings = {name: kinds[name](value) for name, value in words.items()}
    else:
        kind, name = what.split(" ")
        assert kind == "collection", line
        if rest == "absent":
            found.absent.add(name)
        changes: dict[str, Any] = {}
        for key, value in words.items():
            if key == "lateness":
                changes["allowed_lateness"] = parse_duration(value)
            elif key == "tolerance":
                changes["future_tolerance"] = parse_duration(value)
            elif key == "retired":
                changes["retired"] = ORIGIN + int(time_of(value)) // 1_000_000
            elif key == "min_reports":
                changes["min_reports"] = int(value)
            else:
                assert key in {"protocol", "epochs"}, line
        epochs = Epochs(HOUR, ORIGIN, int(words.get("epochs", 100)))
        protocol = words.get("protocol", "grr")
        found.collections[name] = collection(protocol, SIZE, name, epochs=epochs, **changes)


_TIME = re.compile(r"(-)?(?:(\d+)d )?(\d\d):(\d\d)(?::(\d\d(?:\.\d+)?))?")


def time_of(text: str) -> int:
    """Microseconds since the start of epoch 0, of ``01:30``, ``00:59:59.999`` or ``-3d 00:05``."""
    parts = _TIME.fullmatch(text)
    assert parts, text
    sign, days, hours, minutes, seconds = parts.groups()
    whole = (int(days or 0) * 24 + int(hours)) * 3600 + int(minutes) * 60
    total = whole * 1_000_000 + round(float(seconds or 0) * 1_000_000)
    return -total if sign else total


def told_at(micros: int) -> str:
    seconds, rest = divmod(micros, 1_000_000)
    sign = ""
    if seconds < 0:
        seconds, sign = -seconds, "-"
    days, seconds = divmod(seconds, 86400)
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}"
    if seconds % 60 or rest != 1000:
        text += f":{seconds % 60:02d}"
    if rest != 1000:
        text += f".{rest:06d}"
    return f"{sign}{days}d {text}" if days else sign + text


# --- reports


@cache
def _pool(protocol: str) -> tuple[tuple[int, ...], tuple[bytes, ...]]:
    """Ids and payloads of a fleet."""
    crowd = Fleet(collection(protocol), POOL, 7)
    values = np.random.default_rng(5).integers(0, SIZE, POOL).astype(np.int32)
    batch = crowd.report(Index(values))
    return tuple(batch.report_ids.tolist()), tuple(row.tobytes() for row in batch.payloads)


def reports_of(agreed: Collection, epoch: int, text: str) -> list[tuple[int, bytes]]:
    """(id, payload) of reports such as ``0-9, 12 as highest``."""
    names, payloads = _pool(agreed.protocol_name)
    width = agreed.protocol.device.payload_size
    found = []
    for item in filter(None, text.replace(" ", "").split(",")):
        span, _, other = item.partition("as")
        low, _, high = span.partition("-")
        for i in range(int(low), int(high or low) + 1):
            named = {"": payloads[i], "lowest": b"\0" * width, "highest": bytes([SIZE - 1])}
            payload = named[other] if other in named else payloads[int(other)]
            found.append((names[i] ^ (epoch + 1) * 0x9E3779B97F4A7C15 % 2**64, payload))
    return found


def messages_of(transcript: Transcript, text: str) -> list[bytes]:
    """What a cell of the column ``what`` stands for."""
    found = []
    for part in text.split(";"):
        parts = re.fullmatch(r"(.*?)(?: x(\d+))?", part.strip())
        assert parts
        found += _messages(transcript, parts[1]) * int(parts[2] or 1)
    return found


def _messages(transcript: Transcript, what: str) -> list[bytes]:
    if what == "junk":
        return [b"\xffjunk"]
    head, _, numbers = what.partition(":")
    *how, place = head.split(" ")
    name, epoch = place.rsplit("/", 1)
    agreed, e = transcript.collections[name], int(epoch)
    reports = reports_of(agreed, e, numbers)
    if "short" in how:
        reports = [(i, payload[:-1]) for i, payload in reports]
    if "broken" in how:
        reports = [(i, b"\xff" * len(payload)) for i, payload in reports]
    if "singly" in how:
        return [
            report_pb2.Report(digest=agreed.digest, epoch=e, report_id=i, payload=payload).SerializeToString()
            for i, payload in reports
        ]
    many = report_pb2.ReportBatch(digest=agreed.digest, epoch=e, count=len(reports))
    many.report_ids.extend(i for i, _ in reports)
    many.count += "miscounted" in how
    many.payloads = b"".join(payload for _, payload in reports)
    return [many.SerializeToString()]


# --- playing


class _Note(beam.DoFn):
    """Every result, as a line of a file."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def process(self, pair: tuple[str, CountedEpoch], when: Any = beam.DoFn.TimestampParam) -> None:
        digest, counted = pair
        record = {
            "told": when.micros - ORIGIN * 1_000_000,
            "digest": digest,
            "epoch": counted.epoch,
            "revision": None if counted.support is None else counted.revision,
            "pane": counted.pane,
            "n": None if counted.support is None else counted.support.reports,
            "closed": counted.closed,
            "line": {**counted.account.as_record(), "pending": counted.account.pending},
        }
        with self._path.open("a") as file:
            file.write(json.dumps(record) + "\n")


def config_of(transcript: Transcript, output: Path) -> RunConfig:
    """How the job is set up."""
    taken = tuple(c for n, c in transcript.collections.items() if n not in transcript.absent)
    return RunConfig.parsed(taken, output=str(output), job=JOB, **transcript.settings)


def play(transcript: Transcript, folder: Path) -> Played:
    """Run the graph of streams over a transcript."""
    stream = TestStream()
    for row in transcript.sent:
        if row["at"] == "drain":
            stream.advance_watermark_to_infinity()
        elif row["at"]:
            stream.advance_watermark_to(_instant(row["at"]))
        if row["what"]:
            arrived = _instant(row["arrives"])
            stream.add_elements([TimestampedValue(m, arrived) for m in messages_of(transcript, row["what"])])
    config, notes = config_of(transcript, folder / "output"), folder / "told.jsonl"
    notes.touch()
    options = PipelineOptions(["--streaming"])
    with beam.Pipeline(runner="BundleBasedDirectRunner", options=options) as pipeline:
        counted = pipeline | stream | "Collect" >> collect_stream(config)
        _ = counted | "Note" >> beam.ParDo(_Note(notes))
    return Played(folder / "output", [json.loads(line) for line in notes.read_text().splitlines()])


def _instant(text: str) -> Timestamp:
    return Timestamp(micros=ORIGIN * 1_000_000 + time_of(text))


# --- comparing


def complaints(transcript: Transcript, played: Played) -> list[str]:
    """In what a job did not do what its transcript says."""
    found: list[str] = []
    # Epochs do not wait for each other, so only what is told of one has an order.
    places = dict.fromkeys(row["epoch"] for row in transcript.told)
    places.update(dict.fromkeys(_place(transcript, note) for note in played.told))
    for place in places:
        rows = [row for row in transcript.told if row["epoch"] == place]
        notes = _last_words([note for note in played.told if _place(transcript, note) == place])
        found += _compare_epoch(transcript, played, place, rows, notes)
    found += _compare_elsewhere(transcript, played)
    found += _unsound(played)
    return found


def _last_words(notes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without books that were told and replaced at one and the same moment, a runner's own affair."""
    followed = zip(notes, [*notes[1:], None], strict=False)
    return [n for n, after in followed if n["revision"] is not None or not after or after["told"] > n["told"]]


def _place(transcript: Transcript, note: dict[str, Any]) -> str:
    return f"{transcript.name(note['digest'])}/{note['epoch']}"


def _books(text: str) -> Counter[str]:
    found: Counter[str] = Counter()
    for item in filter(None, text.split(", ")):
        what, count = item.split(" ")
        found[what] += int(count)
    return found


def _line(record: dict[str, Any]) -> Counter[str]:
    plain = {k: v for k, v in record.items() if k not in {"rejected", "repeated"} and v}
    return Counter({**plain, **record["rejected"]})


def _told(books: Counter[str]) -> str:
    return ", ".join(f"{what} {count}" for what, count in books.items())


def _compare_epoch(
    transcript: Transcript, played: Played, place: str, rows: list[Row], notes: list[dict[str, Any]]
) -> Iterator[str]:
    name, epoch = place.rsplit("/", 1)
    agreed = transcript.collections[name]
    published = _published(played, agreed, int(epoch))
    revisions = {r["revision"]: r for r in (published or {"revisions": []})["revisions"]}
    for row, note in zip(rows, notes, strict=False):
        at = f"{place} told at {row['told']}"
        yield from (f"{at}: {one}" for one in _compare_books(row, note))
        found = _compare_revision(played, agreed, row, note, revisions.pop(note["revision"], None))
        yield from (f"{at}: {one}" for one in found)
    for row in rows[len(notes) :]:
        yield f"{place} told at {row['told']}: never told"
    for note in notes[len(rows) :]:
        yield f"{place} told at {told_at(note['told'])}: not in the transcript, {_told(_line(note['line']))}"
    if len(rows) == len(notes):
        yield from (f"{place}: revision {number} was published and never told" for number in revisions)
    if published is None:
        yield f"{place}: no books were published"
    elif notes and (published["accounting"], published["closed"]) != (notes[-1]["line"], notes[-1]["closed"]):
        yield f"{place}: the published books are not those told last"


def _compare_books(row: Row, note: dict[str, Any]) -> Iterator[str]:
    new = note["revision"] is not None
    seen = {
        "told": told_at(note["told"]),
        "revision": str(note["revision"]) if new else "",
        "pane": note["pane"] if new else "",
        "n": str(note["n"]) if new else "",
        "closed": "yes" if note["closed"] else "no",
    }
    for what, value in seen.items():
        if row[what] != value:
            yield f"{what} is {value or 'empty'}, not {row[what] or 'empty'}"
    if _books(row["books"]) != _line(note["line"]):
        yield f"the books are {_told(_line(note['line']))}, not {row['books']}"


def _compare_revision(
    played: Played, agreed: Collection, row: Row, note: dict[str, Any], revision: dict[str, Any] | None
) -> Iterator[str]:
    if note["revision"] is None:
        if row["status"] or row["reports"]:
            yield "nothing was published"
        return
    if revision is None:
        yield f"revision {note['revision']} is not in the published books"
        return
    if (revision["pane"], revision["n"], revision["job"]) != (note["pane"], note["n"], JOB):
        yield f"published as {revision['pane']} of {revision['n']} by {revision['job']!r}"
    status, support = _support(played, revision)
    if row["status"] != status:
        yield f"status is {status}, not {row['status']}"
    payloads = [payload for _, payload in reports_of(agreed, note["epoch"], row["reports"])]
    if support is None and payloads:
        yield f"nothing was published of reports {row['reports']}"
    if support is not None and support != count_support(frequencies(agreed.protocol), payloads):
        yield f"support is not that of reports {row['reports'] or 'none'}"


def _published(played: Played, agreed: Collection, epoch: int) -> dict[str, Any] | None:
    path = played.output / "accounting" / f"{agreed.name}-{agreed.digest_hex}-epoch-{epoch:06d}.json"
    return json.loads(path.read_text()) if path.exists() else None


def _support(played: Played, revision: dict[str, Any]) -> tuple[str, list[int] | None]:
    """(status, support) of a revision; no support where it was withheld."""
    if revision["file"] is None:
        return revision["withheld"], None
    content = (played.output / revision["file"]).read_bytes()
    assert (len(content), hashlib.sha256(content).hexdigest()) == (revision["bytes"], revision["sha256"])
    table = pq.read_table(played.output / revision["file"])
    rows = table.to_pylist()
    assert len(rows) == revision["rows"]
    assert {(r["revision"], r["pane"], r["n"]) for r in rows} == {
        (revision["revision"], revision["pane"], revision["n"])
    }
    (status,) = {r["status"] for r in rows}
    assert {r["estimate"] is None for r in rows} == {status != "ok"}
    return status, [r["support"] for r in rows]


def _compare_elsewhere(transcript: Transcript, played: Played) -> Iterator[str]:
    expected = {row["elsewhere"]: _books(row["books"]) for row in transcript.elsewhere}
    found = {}
    for path in sorted(played.output.glob("accounting/other-*.json")):
        record = json.loads(path.read_text())
        assert path.stem == f"other-{record['digest'] or 'unknown'}-{JOB}"
        found[transcript.name(record["digest"])] = _line(record["accounting"])
    for name in {**expected, **found}:
        if expected.get(name) != found.get(name):
            books, asked = (_told(some.get(name, Counter())) or "empty" for some in (found, expected))
            yield f"elsewhere, {name}: the books are {books}, not {asked}"


def _unsound(played: Played) -> Iterator[str]:
    """What holds for every transcript, whatever it says."""
    books = [json.loads(p.read_text()) for p in sorted(played.output.glob("accounting/*.json"))]
    refused: Counter[str] = Counter()
    for book in books:
        line = book["accounting"]
        refused.update(line["rejected"])
        if book["schema"] == "ldpbeam.other/1":
            if line["read"] != sum(line["rejected"].values()):
                yield f"other books of {book['digest'] or 'unknown'} do not balance"
            continue
        place = f"{book['collection']}/{book['epoch']}"
        known = line["counted"] + line["late"] + line["duplicate"] + sum(line["rejected"].values())
        if line["read"] != known + line["pending"]:
            yield f"{place}: the books do not balance"
        if line["pending"] < 0 or (book["closed"] and line["pending"]):
            yield f"{place}: {line['pending']} pending"
    listed: Counter[str] = Counter()
    for path in sorted(played.output.glob("rejects/*.parquet")):
        for row in pq.read_table(path).to_pylist():
            listed[row["reason"]] += row["count"]
    # Found among the reports of an epoch, when it is no longer known where they came from.
    refused.pop("conflicting_report_id", None)
    if listed != refused:
        yield f"rejects list {_told(listed)}, the books {_told(refused)}"
    files = {p.relative_to(played.output).as_posix() for p in played.output.glob("estimates/*")}
    named = {r["file"] for book in books for r in book.get("revisions", ()) if r["file"]}
    if files != named:
        yield f"files and books differ: {sorted(files ^ named)}"
