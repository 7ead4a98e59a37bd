"""Accounting of closed epochs, a thousand to a file: what a stream of years leaves behind stays small.

A file of ``accounting/`` per epoch is what a reader wants of the epochs of today, and too much for those of
last year. Their accounting moves, unchanged, into ``accounting/archive/``: gzip of JSON lines, one file per
collection and thousand epochs. Where an epoch has both, the file of its own is the newer one; it is there
because something was booked after it had moved, or because a crash came in between.

Files whose epochs have all been closed for longer than they are to be kept become one record of sums.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ldpbeam.accounting import Account
from ldpbeam.collection.epochs import parse_instant
from ldpbeam.engine.storage.landing import FOLDER
from ldpbeam.engine.storage.segment import EpochKey
from ldpbeam.records.run_record import Archived
from ldpbeam.transforms.sinks.accounting import EpochAccounting, whole_accounting, write_accounting
from ldpbeam.transforms.sinks.atomic import publish

FOLDED = "accounting/archive"
"""Where it is, below the output directory."""

_BLOCK = 1000
"""Epochs to a file."""
_NAME = re.compile(r".*-([0-9a-f]{16})-epochs-(\d+)-(\d+)\.jsonl\.gz")
_HELD = 4
"""Files that are kept in memory after they were read."""
_INDEX = f"{FOLDER}/archive.json"


@dataclass
class _File:
    """What is known of a file without reading it."""

    mark: list[int]  # size and time of change; with another one it has to be read
    epochs: int = 0  # how many
    withheld: int = 0  # how many of them have no estimates
    accounting: Account = field(default_factory=Account)  # the sum of their accounts
    segment: int = 0  # the highest number that they name
    closes: int = 0  # when the last of them closed, seconds since 1970


class Archive:
    """The archived accounting below an output directory."""

    def __init__(self, output: str) -> None:
        """Find out what there is; files that have not changed since the last time are not read."""
        self._output = output
        self._folder = Path(output, *FOLDED.split("/"))
        self._files: dict[str, _File] = {}
        self._held: dict[str, dict[int, dict[str, Any]]] = {}
        self._names: dict[tuple[str, int], str] = {}
        self._sums: dict[str, dict[str, Any]] = {}
        for path in self._folder.glob("forgotten-*.json"):
            with whole_accounting(str(path)):
                found = json.loads(path.read_text())
                self._sums[found["digest"]] = found
        self._shadowed: dict[EpochKey, Account] = {}
        """Epochs that have a file of their own again, with the account that is archived."""
        index = self._index()
        changed = False
        for path in sorted(self._folder.glob("*.jsonl.gz")):
            named = _NAME.fullmatch(path.name)
            if named is None:
                continue
            if self._forgotten_already(named[1], path):
                path.unlink()
                continue
            self._names[named[1], int(named[2]) // _BLOCK] = path.name
            known = index.get(path.name)
            if known is None or known.mark != _mark(path):
                known = self._summed(path.name, list(self._read(path.name).values()))
                changed = True
            self._files[path.name] = known
        if changed:
            self._write_index()

    # --- looking

    @property
    def epochs(self) -> int:
        """How many are archived and have no file of their own."""
        return sum(known.epochs for known in self._files.values()) - len(self._shadowed)

    @property
    def withheld(self) -> int:
        """How many of all that were ever archived and are not forgotten have no estimates."""
        return sum(known.withheld for known in self._files.values())

    @property
    def segment(self) -> int:
        """The highest number of a segment that the archive names."""
        named = [known.segment for known in self._files.values()]
        return max([*named, *(int(found["segment"]) for found in self._sums.values())], default=0)

    @property
    def account(self) -> Account:
        """The sum of accounts of epochs that have no file of their own, forgotten ones among them."""
        total = Account()
        for file in self._files.values():
            total.merge(file.accounting)
        for account in self._shadowed.values():
            total.subtract(account)
        for known in self._sums.values():
            total.merge(Account.from_record(known["accounting"]))
        total.rejected = +total.rejected
        return total

    def sums(self) -> Archived | None:
        """For the record of the run; None where nothing was ever archived."""
        account = self.account
        return Archived(self.epochs, self.withheld, account) if account.read or self._files else None

    def find(self, key: EpochKey) -> dict[str, Any] | None:
        """What is archived about an epoch."""
        name = self._names.get((key[0], key[1] // _BLOCK))
        return self._read(name).get(key[1]) if name else None

    def forgotten(self, key: EpochKey) -> int:
        """The last segment in the account of an epoch that is part of a sum; 0 of one that is not."""
        found = self._sums.get(key[0])
        return int(found["segment"]) if found and key[1] <= found["through"] else 0

    def shadow(self, key: EpochKey) -> bool:
        """Note that an epoch has a file of its own; gives whether it is archived too."""
        if key not in self._shadowed:
            record = self.find(key)
            if record is None:
                return False
            self._shadowed[key] = Account.from_record(record["accounting"])
        return True

    def records(self) -> Iterable[dict[str, Any]]:
        """All that is archived."""
        for name in list(self._files):
            yield from self._read(name).values()

    # --- changing

    def bring_back(self, key: EpochKey) -> None:
        """Give an epoch its own file again, so that something can be added to it."""
        record = self.find(key)
        if record is not None and key not in self._shadowed:
            write_accounting(self._output, EpochAccounting.from_record(record))
            self.shadow(key)

    def add(self, paths: Iterable[Path]) -> None:
        """Move accounting files; each is at any moment in one place or in both."""
        files: dict[str, dict[int, dict[str, Any]]] = {}
        done: list[Path] = []
        for path in paths:
            record = json.loads(path.read_text())
            digest, block = record["digest"], record["epoch"] // _BLOCK
            name = self._names.setdefault((digest, block), _name(record, block))
            files.setdefault(name, {})[record["epoch"]] = record
            done.append(path)
        for name, records in files.items():
            self._write(name, {**(self._read(name) if name in self._files else {}), **records})
            for record in records.values():
                self._shadowed.pop((record["digest"], record["epoch"]), None)
        self._write_index()
        for path in done:
            # Closed and published, an epoch has no number that its accounting does not name.
            path.with_suffix(".revision").unlink(missing_ok=True)
            path.unlink()

    def forget(self, before: int) -> None:
        """Make sums of files whose epochs have all been closed since then (seconds since 1970)."""
        for (digest, block), name in sorted(self._names.items()):
            if self._files[name].closes > before:
                continue
            records = self._read(name)
            if any((digest, epoch) in self._shadowed for epoch in records):
                continue
            known = self._sums.get(digest, {})
            account = Account.from_record(known["accounting"]) if known else Account()
            account.merge(self._files[name].accounting)
            found = {
                "schema": "ldpbeam.forgotten/1",
                "digest": digest,
                "epochs": known.get("epochs", 0) + len(records),
                "through": max(known.get("through", -1), *records),
                "segment": max(known.get("segment", 0), self._files[name].segment),
                "accounting": account.as_record(),
                "last": [name, _mark(self._folder / name)],
            }
            text = (json.dumps(found, indent=1) + "\n").encode()
            publish(self._output, f"{FOLDED}/forgotten-{digest}.json", text)
            self._sums[digest] = found
            (self._folder / name).unlink()
            del self._names[digest, block], self._files[name]
            self._held.pop(name, None)

    def _forgotten_already(self, digest: str, path: Path) -> bool:
        """Whether a file is in the sum, and a crash kept it from going."""
        return digest in self._sums and self._sums[digest]["last"] == [path.name, _mark(path)]

    def _read(self, name: str) -> dict[int, dict[str, Any]]:
        if name not in self._held:
            self._held = dict(list(self._held.items())[1 - _HELD :])
            path = self._folder / name
            with whole_accounting(str(path)):
                lines = gzip.decompress(path.read_bytes()).splitlines()
                self._held[name] = {record["epoch"]: record for record in map(json.loads, lines)}
        return self._held[name]

    def _write(self, name: str, records: dict[int, dict[str, Any]]) -> None:
        lines = "".join(f"{json.dumps(records[epoch])}\n" for epoch in sorted(records))
        publish(self._output, f"{FOLDED}/{name}", gzip.compress(lines.encode(), mtime=0))
        self._held.pop(name, None)
        self._files[name] = self._summed(name, list(records.values()))

    def _summed(self, name: str, records: list[dict[str, Any]]) -> _File:
        known = _File(_mark(self._folder / name), len(records))
        with whole_accounting(str(self._folder / name)):
            for record in records:
                known.accounting.merge(Account.from_record(record["accounting"]))
                known.withheld += bool(record["revisions"]) and bool(record["revisions"][-1]["withheld"])
                known.segment = max(known.segment, int(record.get("position", {}).get("segment", 0)))
                known.closes = max(known.closes, parse_instant(record["closes"]))
        return known

    def _index(self) -> dict[str, _File]:
        """Sums by file, from the last time; nothing is lost without them."""
        try:
            found = json.loads(Path(self._output, _INDEX).read_text())
            return {
                name: _File(**{**known, "accounting": Account.from_record(known["accounting"])})
                for name, known in found.items()
            }
        except (OSError, ValueError, LookupError, TypeError):
            return {}

    def _write_index(self) -> None:
        content = {
            name: {**vars(known), "accounting": known.accounting.as_record()}
            for name, known in sorted(self._files.items())
        }
        publish(self._output, _INDEX, json.dumps(content).encode())


def _name(record: dict[str, Any], block: int) -> str:
    first = block * _BLOCK
    return f"{record['collection']}-{record['digest']}-epochs-{first:06d}-{first + _BLOCK - 1:06d}.jsonl.gz"


def _mark(path: Path) -> list[int]:
    status = path.stat()
    return [status.st_size, status.st_mtime_ns]
