"""What a stream prints for people: a line for every epoch of which something has changed, with the time."""

from __future__ import annotations

import time
from collections.abc import Iterator

from ldpbeam.accounting import Account
from ldpbeam.collection.epochs import instant

from ...run_record import RunRecord

_Key = tuple[str, int | None]


class StreamLines:
    """Lines about what has changed since the last record.

    Args:
        before: the record that the stream begins with; None for none.
    """

    def __init__(self, before: RunRecord | None) -> None:
        self._held = {} if before is None else {key: account for key, _, account in _accounts(before)}

    def changed(self, record: RunRecord) -> Iterator[str]:
        """A line per epoch whose account has changed: what changed of it, and by how much.

        An epoch that has gone into the archive is not mentioned again.
        """
        now = instant(int(time.time()))
        there: dict[_Key, Account] = {}
        for key, name, account in _accounts(record):
            there[key] = account.copy()
            parts = list(_differences(self._held.get(key, Account()), account))
            if parts:
                yield f"{now} {name}: {', '.join(parts)}"
        self._held = there


def _accounts(record: RunRecord) -> Iterator[tuple[_Key, str, Account]]:
    for epoch in record.accounting.epochs:
        begins = "" if epoch.epoch_start is None else f" ({epoch.epoch_start})"
        yield (epoch.digest, epoch.epoch), f"{epoch.collection} epoch {epoch.epoch}{begins}", epoch.account
    yield ("", None), "records of no epoch", record.accounting.unattributed


def _differences(before: Account, after: Account) -> Iterator[str]:
    names = ("read", "counted", "late", "duplicate")
    numbers = [(name, getattr(before, name), getattr(after, name)) for name in names]
    reasons = sorted({*before.rejected, *after.rejected})
    numbers += [(f"rejected as {one}", before.rejected[one], after.rejected[one]) for one in reasons]
    for name, old, new in numbers:
        if old != new:
            yield f"{name} {new:,} ({new - old:+,})" if old else f"{name} {new:,}"
