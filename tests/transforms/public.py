"""What the tests of the public transforms have in common: two collections, their messages, kept outputs."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.metrics import MetricsFilter

import ldpbeam
from ldpbeam.admission import ReportColumns, batch_message
from ldpbeam.collection.collection import Collection
from ldpbeam.collection.epochs import Epochs
from ldpbeam.tables import CUMULATIVE
from ldpbeam.transforms import AccountRow
from tests.pipelines.running import collection, fleet, with_duplicates

HOURS = collection("grr", 7, "hours", epochs=Epochs(3600, 0, 50), min_reports=1, allowed_lateness=7200)
OTHERS = collection("sue", 5, "others", epochs=Epochs(5400, 600, 50), min_reports=1)
"""Epochs of 90 minutes that begin ten minutes past: no epoch of the one ends where one of the other does."""
BOTH = [HOURS, OTHERS]
SENT: dict[str, list[ReportColumns]] = {
    one.digest_hex: with_duplicates(fleet(one, 150, epochs)) for one, epochs in ((HOURS, 3), (OTHERS, 2))
}
"""Reports of each, some of them sent again, some with another payload under an id that is taken."""
MESSAGES: list[bytes] = [batch_message(batch) for sent in SENT.values() for batch in sent]
JUNK = [b"\xff\xff", b"junk"]


class Keep(beam.DoFn):
    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = str(path)

    def process(
        self, element: Any, when: Any = beam.DoFn.TimestampParam, window: Any = beam.DoFn.WindowParam
    ) -> None:
        with Path(self._path).open("ab") as file:
            pickle.dump((element, when.micros, type(window).__name__), file)


def keep(found: beam.PCollection[Any], path: Path, label: str) -> None:
    path.touch()
    _ = found | f"Keep{label}" >> beam.ParDo(Keep(path))


def kept(path: Path) -> list[tuple[Any, int, str]]:
    found = []
    with path.open("rb") as file:
        while file.peek(1):
            found.append(pickle.load(file))
    return found


def elements(path: Path) -> list[Any]:
    return [element for element, _, _ in kept(path)]


def expected(collections: Sequence[Collection] = BOTH, *, deduplicate: bool = True) -> list[dict[str, Any]]:
    return in_order(
        row | dict.fromkeys(CUMULATIVE) | {"slice": {}}
        for one in collections
        for row in ldpbeam.estimate(one, SENT[one.digest_hex], deduplicate=deduplicate).to_pylist()
    )


def in_order(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row["collection"], row["epoch"], row["revision"], row["value"]))


def newest(rows: Iterable[AccountRow]) -> dict[tuple[str, int | None], Counter[str]]:
    found: dict[tuple[str, int | None], tuple[int, Counter[str]]] = {}
    for row in rows:
        key = row.digest, row.epoch
        if key not in found or found[key][0] < row.sequence:
            found[key] = row.sequence, Counter()
        if found[key][0] == row.sequence:
            assert row.what not in found[key][1]
            found[key][1][row.what] += row.records
    return {key: account for key, (_, account) in found.items()}


def pending(account: Counter[str]) -> int:
    return account["read"] - sum(count for what, count in account.items() if what != "read")


def total(accounts: Iterable[Counter[str]]) -> Counter[str]:
    found: Counter[str] = Counter()
    for account in accounts:
        found.update(account)
    return found


def counters(result: Any) -> dict[str, int]:
    found = result.metrics().query(MetricsFilter().with_namespace("ldpbeam"))
    total: Counter[str] = Counter()
    for one in found["counters"]:  # one for each step that has it
        total[one.key.metric.name] += one.committed
    return dict(total)


def distribution(result: Any) -> Any:
    found = result.metrics().query(MetricsFilter().with_namespace("ldpbeam"))
    (one,) = found["distributions"]
    assert one.key.metric.name == "reports_per_result"
    return one.committed
