"""What a run has published, as its accounting and its record (run.json) say it."""

from __future__ import annotations

import platform
from collections.abc import Iterable
from functools import cache, lru_cache
from importlib.metadata import version
from pathlib import Path

from ldpbeam.accounting import Account, Accounting
from ldpbeam.collection.collection import Collection
from ldpbeam.collection.epochs import instant
from ldpbeam.errors import LdpError
from ldpbeam.histogram import TOO_MANY_ERRORS
from ldpbeam.job.config import RunConfig
from ldpbeam.records.collection_record import CollectionRecord, collection_entry
from ldpbeam.records.outcome import RunOutcome, indicators_record
from ldpbeam.records.run_record import (
    DETACHED,
    NOTHING_COUNTED,
    RUN_RECORD,
    STATUS,
    Archived,
    EpochRecord,
    InputRecord,
    RunAccounting,
    RunRecord,
    StreamRecord,
    Timings,
)
from ldpbeam.transforms.sinks.accounting import EpochAccounting, read_all_accounting
from ldpbeam.transforms.sinks.atomic import publish
from ldpbeam.transforms.sinks.estimates import PublishedIndicators
from ldpbeam.transforms.sinks.file_record import FileRecord


def read_output(output: str) -> RunOutcome:
    """Accounting, files, and indicators of the newest results, of all that is published below ``output``."""
    total, files, indicators = Accounting(), list[FileRecord](), list[PublishedIndicators]()
    for record in read_all_accounting(output):
        total.accounts.setdefault(record.key, Account()).merge(record.account)
        if isinstance(record, EpochAccounting):
            files += record.tables
            indicators.append(PublishedIndicators(*record.key, record.indicators))
    return RunOutcome(total, files, indicators_record(indicators))


def write_record(output: str, record: RunRecord) -> None:
    publish(output, RUN_RECORD, record.content())


def run_record(
    config: RunConfig,
    outcome: RunOutcome,
    seconds: float,
    *,
    archived: Archived | None = None,
    status: str | None = None,
    stream: StreamRecord | None = None,
) -> RunRecord:
    total = outcome.accounting.total
    if archived is not None:
        total.merge(archived.account)
    accounts = outcome.accounting.accounts
    # Only a run that has not finished may have read reports that are in no other entry of its accounting.
    unbalanced = [key for key, account in accounts.items() if not account.balanced] if status is None else []
    if unbalanced:
        raise LdpError(
            "E-RUN-ACCOUNTING",
            f"the accounting of {len(unbalanced)} epochs does not balance: reports were lost or "
            "counted twice",
            where=config.outputs.output,
            remedy="Nothing was published as finished; please report this with the files beside it.",
        )
    names = {c.digest_hex: c for c in config.collections}
    epochs = tuple(
        _epoch_record(
            digest, names.get(digest), epoch, accounts[digest, epoch], config.counting.max_error_fraction
        )
        for digest, epoch in sorted((digest, epoch) for digest, epoch in accounts if epoch is not None)
    )
    unattributed = Account()
    for (_, epoch), account in accounts.items():
        if epoch is None:
            unattributed.read += account.read
            unattributed.rejected.update(account.rejected)
    withheld = any(epoch.withheld for epoch in epochs) or bool(archived and archived.withheld)
    exit_code = 5 if withheld or not total.counted else 4 if sum(total.rejected.values()) else 0
    if status is None:
        status = STATUS[exit_code] if total.counted else NOTHING_COUNTED
    rate = round(total.read / seconds, 1) if seconds else None
    return RunRecord(
        status=status,
        exit_code=0 if status == DETACHED else exit_code,
        versions=_versions(),
        runner=config.job.runner,
        deduplicate=config.counting.deduplicate,
        max_error_fraction=config.counting.max_error_fraction,
        limits=config.input.limits,
        collections=tuple(map(_collection_record, config.collections)),
        accounting=RunAccounting(total, epochs, unattributed, archived),
        timings=Timings(round(seconds, 3), rate),
        folder=_started_in(config.input.files),
        inputs=tuple(map(InputRecord, config.input.files)),
        passed_over=tuple(map(InputRecord, config.input.passed_over)),
        files=tuple(sorted(outcome.files, key=lambda file: file.path)),
        indicators=outcome.indicators,
        stream=stream,
    )


def _started_in(inputs: Iterable[str]) -> str:
    """The folder that the paths of the inputs start from; empty where they all say it themselves."""
    relative = any("://" not in path and not Path(path).is_absolute() for path in inputs)
    return str(Path.cwd()) if relative else ""


@cache
def _versions() -> dict[str, str]:
    """Looked up once: a stream writes its record again and again."""
    named = ("apache-beam", "numpy", "numba", "pyarrow", "protobuf")
    return {
        "ldpbeam": version("ldpbeam"),
        "python": platform.python_version(),
        **{name.replace("-", "_"): version(name) for name in named},
    }


def _collection_record(collection: Collection) -> CollectionRecord:
    return _record_once(
        collection, tuple((domain.ordered, domain.atoms) for _, domain in collection.histograms)
    )


@lru_cache(maxsize=256)
def _record_once(collection: Collection, _differences: object) -> CollectionRecord:
    """Made once for the same reason; collections that differ in order or atoms alone are equal."""
    return CollectionRecord.from_record(collection_entry(collection))


def _epoch_record(
    digest: str, collection: Collection | None, epoch: int, account: Account, max_error_fraction: float
) -> EpochRecord:
    """One line; an epoch of a collection that is no longer given has no name."""
    own = Account()
    own.merge(account)  # an engine goes on booking in its own
    return EpochRecord(
        collection.name if collection else "",
        digest,
        epoch,
        instant(collection.epochs.start(epoch)) if collection else None,
        own,
        TOO_MANY_ERRORS if account.counted and account.error_fraction > max_error_fraction else "",
    )
