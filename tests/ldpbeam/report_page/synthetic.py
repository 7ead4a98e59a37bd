"""Synthetic runs for the page: what a run would write, without running one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ldpbeam.collection.file import parse_collection
from ldpbeam.durable.document import document
from ldpbeam.records.collection_record import collection_entry

DIGEST = "0123456789abcdef"
ORIGIN = datetime(2026, 1, 1, tzinfo=UTC)


def guarantee(protocol: str, **levels: float) -> dict[str, Any]:
    """What run.json says of a collection of 40 values."""
    given = "".join(f"{name}: {level}\n" for name, level in levels.items())
    text = f"name: a\ndomain: {{size: 40}}\nepoch: {{length: 1h}}\nprotocol: {protocol}\n{given}"
    found = parse_collection(text).as_record()["guarantee"]
    assert isinstance(found, dict)
    return found


TWO_ROUNDS = guarantee("loloha", g=2, epsilon_longitudinal=2.0, epsilon_first=1.0)
ONE_ROUND = guarantee("olh", epsilon=1.0)


@dataclass
class Fake:
    """What to write; every field has a convincing default."""

    name: str = "minutes_in_app"
    digest: str = DIGEST
    protocol: str = "loloha"
    k: int = 40
    epochs: int = 12
    n: int = 60_000
    labels: Sequence[str] | None = None
    guarantee: Mapping[str, Any] | None = field(default_factory=lambda: dict(TWO_ROUNDS))
    insufficient: Sequence[int] = ()
    first: int = 0
    seed: int = 7

    def frequencies(self, epoch: int) -> np.ndarray:
        """A drifting, peaked shape over the domain."""
        place = np.arange(self.k) / self.k
        drift = 0.12 * epoch / max(1, self.epochs)
        bumps = 0.15 / self.k + np.exp(-(((place - 0.25 - drift) / 0.07) ** 2))
        bumps += 0.55 * np.exp(-(((place - 0.7) / 0.03) ** 2)) * (1 + epoch / self.epochs)
        return np.asarray(bumps / bumps.sum())


def write_run(
    root: Path,
    fakes: Sequence[Fake],
    *,
    late: int = 11,
    rejected: Mapping[str, int] | None = None,
    unbalanced: int = 0,
) -> tuple[Path, Path]:
    """Write run.json, estimates/ and truth.parquet; returns (output directory, truth file)."""
    output = root / "out"
    (output / "estimates").mkdir(parents=True)
    reasons = {"malformed": 3, "foreign_epoch": 5} if rejected is None else dict(rejected)
    own, other = 0.7310585, 0.4926
    collections, written, truths = [], [], []
    rows: list[dict[str, Any]] = []
    for fake in fakes:
        rng = np.random.default_rng(fake.seed)
        labels = list(fake.labels or [str(value) for value in range(fake.k)])
        collections.append(_config(fake, own, other))
        for epoch in range(fake.first, fake.first + fake.epochs):
            frequency = fake.frequencies(epoch - fake.first)
            low = epoch - fake.first in fake.insufficient
            n = int(rng.integers(5, 500)) if low else int(fake.n * rng.uniform(0.93, 1.0))
            start = ORIGIN + timedelta(hours=6 * epoch)
            table = _estimates(fake, (epoch, start, n, low), frequency, labels, (own, other), rng)
            path = output / "estimates" / f"{fake.digest}-{epoch:06d}-r0.parquet"
            pq.write_table(table, path)
            file = {"path": f"estimates/{path.name}", "bytes": path.stat().st_size}
            written.append({**file, "sha256": "ab" * 32, "rows": fake.k})
            truths.append(_truth(epoch, frequency, labels, n))
            gone = {key: int(rng.poisson(value)) for key, value in reasons.items()}
            tardy, twice = int(rng.poisson(late)), int(rng.poisson(4))
            rows.append(
                {
                    "collection": fake.name,
                    "digest": fake.digest,
                    "epoch": epoch,
                    "epoch_start": start.isoformat(),
                    "counted": n,
                    "late": tardy,
                    "duplicate": twice,
                    "rejected": gone,
                    "read": n + tardy + twice + sum(gone.values()),
                    "withheld": "",
                }
            )
    pq.write_table(pa.concat_tables(truths), root / "truth.parquet")
    rest: dict[str, Any] = {"read": 3, "counted": 0, "late": 0, "duplicate": 0}
    rest["rejected"] = {"unknown_digest": 3}
    if rows:
        rows[0]["read"] += unbalanced
    total: dict[str, Any] = {"rejected": {}}
    for row in [*rows, rest]:
        for key in ("read", "counted", "late", "duplicate"):
            total[key] = total.get(key, 0) + row[key]
        for key, value in row["rejected"].items():
            total["rejected"][key] = total["rejected"].get(key, 0) + value
    record = {
        "schema": "ldpbeam.run/1",
        "status": "ok_with_rejects",
        "exit_code": 4,
        "versions": {"ldpbeam": "0.1.0", "python": "3.11.7"},
        "runner": "FnApiRunner",
        "deduplicate": True,
        "max_error_fraction": 0.1,
        "limits": {"max_expansion": 100, "max_epochs": 10000, "not_after": None, "read_attempts": 3},
        "collections": collections,
        "accounting": {"total": total, "epochs": rows, "unattributed": rest},
        "timings": {"total_seconds": 3.2, "reports_per_second": 400000.0},
        "folder": "",
        "inputs": [{"path": "demo/reports/*.pb"}],
        "files": written,
    }
    (output / "run.json").write_bytes(document(record))
    return output, root / "truth.parquet"


def _config(fake: Fake, own: float, other: float) -> dict[str, Any]:
    """The entry of a real collection, but for what is made up here."""
    two = fake.protocol in ("loloha", "l_grr", "l_osue")
    levels = "epsilon_longitudinal: 2.0\nepsilon_first: 1.0\n" if two else "epsilon: 1.0\n"
    entry = collection_entry(
        parse_collection(
            f"name: a\ndomain: {{size: {fake.k}}}\nprotocol: {fake.protocol}\n{levels}min_reports: 1000\n"
            "epoch: {length: 6h, origin: 2026-01-01T00:00:00Z}\n"
        )
    )
    return {
        **entry,
        "name": fake.name,
        "digest": fake.digest,
        "support": {"own": own, "other": other, "sampled": 1.0},
        "lasting": {"own": 0.88, "other": 0.49, "sampled": 1.0} if two else None,
        "guarantee": fake.guarantee,
        "leverage": [],
    }


def _estimates(
    fake: Fake,
    when: tuple[int, datetime, int, bool],
    frequency: np.ndarray,
    labels: Sequence[str],
    chances: tuple[float, float],
    rng: np.random.Generator,
) -> pa.Table:
    epoch, start, n, low = when
    own, other = chances
    k = fake.k
    support = rng.binomial(n, frequency * own + (1 - frequency) * other)
    estimate = (support / n - other) / (own - other)
    share = np.clip(estimate, 0, 1)
    variance = (share * own * (1 - own) + (1 - share) * other * (1 - other)) / (n * (own - other) ** 2)
    error = np.sqrt(variance)
    gone = np.full(k, low)

    def numbers(values: np.ndarray) -> pa.Array:
        return pa.array(values, pa.float64(), mask=gone)

    return pa.table(
        {
            "collection": [fake.name] * k,
            "digest": [fake.digest] * k,
            "epoch": pa.array([epoch] * k, pa.int64()),
            "epoch_start": pa.array([start] * k, pa.timestamp("us", tz="UTC")),
            "revision": pa.array([0] * k, pa.int32()),
            "value": pa.array(range(k), pa.int64()),
            "label": list(labels),
            "n": pa.array([n] * k, pa.int64()),
            "support": pa.array(support, pa.int64()),
            "estimate": numbers(estimate),
            "std_error": numbers(error),
            "ci_low": numbers(estimate - 1.96 * error),
            "ci_high": numbers(estimate + 1.96 * error),
            "consistent": numbers(_simplex(estimate)),
            "method": ["norm_sub"] * k,
            "status": ["insufficient_reports" if low else "ok"] * k,
        }
    )


def _truth(epoch: int, frequency: np.ndarray, labels: Sequence[str], n: int) -> pa.Table:
    k = len(frequency)
    return pa.table(
        {
            "epoch": pa.array([epoch] * k, pa.int64()),
            "value": pa.array(range(k), pa.int64()),
            "label": list(labels),
            "count": pa.array(np.round(frequency * n), pa.int64()),
            "frequency": frequency,
            "n": pa.array([n] * k, pa.int64()),
        }
    )


def _simplex(estimate: np.ndarray) -> np.ndarray:
    ordered = np.sort(estimate)[::-1]
    excess = (np.cumsum(ordered) - 1) / np.arange(1, len(ordered) + 1)
    last = np.nonzero(ordered - excess > 0)[0][-1]
    return np.maximum(estimate - excess[last], 0)
