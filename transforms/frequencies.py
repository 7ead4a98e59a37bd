"""All stages as one public transform: messages in, frequencies of every epoch out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple, Self

import apache_beam as beam

from ldpbeam.accounting import Account, Entry
from ldpbeam.errors import UsageError

from .admit import AdmitReports, refuse_other_elements
from .arguments import Collections, OfCollections, late_seconds
from .count import CountSupport
from .estimate import EstimateFrequencies
from .rows import AccountRow, account_rows
from .stages.entries import entries_without_epoch
from .stateful.sum_unattributed import UnattributedRecords, sum_unattributed


class Results(NamedTuple):
    """All outputs of :class:`FrequenciesPerEpoch`.

    Attributes:
        frequencies: :class:`~ldpbeam.transforms.FrequencyRow`, one for each value of an epoch and revision.
        rejected: :class:`~ldpbeam.transforms.RejectedRow`, of the rejected records without conflicting ones.
        accounts: :class:`~ldpbeam.transforms.AccountRow`, how many records were read, counted, late,
            duplicate and rejected.
        summaries: :class:`~ldpbeam.transforms.SummaryRow`, means and quantiles of collections that give a
            distribution (``hash_family: interval``); none of others.
    """

    frequencies: Any
    rejected: Any
    accounts: Any
    summaries: Any


class FrequenciesPerEpoch(OfCollections):
    """Turns messages of devices into frequencies: ``messages | FrequenciesPerEpoch("c.yaml")``.

    Takes ``bytes``, ``PubsubMessage``, pairs of a key and ``bytes``, rows or dictionaries with ``field``, or
    the output of :class:`~ldpbeam.transforms.ReadReports`. Gives one
    :class:`~ldpbeam.transforms.FrequencyRow` per value, in the global window. Over bounded input every epoch
    has one result, with the last millisecond of the epoch as its time. Over unbounded input an epoch may have
    several, each with the next ``revision`` and the time at which it was due: the newest one counts.

    A report has the digest of its collection. Give all collections to one transform: it rejects reports of
    others as those of an unknown collection.

    By default only Beam's counters ``reports_rejected_REASON`` show rejected records. :meth:`with_outputs`
    gives them as rows, with the accounts; :meth:`with_error_handler` hands the rows to Beam's error handler;
    ``error_handling={"output": NAME}`` gives them to Beam YAML.
    """

    def __init__(  # noqa: PLR0913 - the options of a whole pipeline, by name
        self,
        collections: Collections,
        *,
        source: str = "messages",
        field: str = "",
        arrival: bool = True,
        deduplicate: bool = True,
        shards: int = 8,
        early_every: str | float = "0s",
        late_every: str | float | None = None,
        max_error_fraction: float = 0.1,
        max_epochs: int = 10_000,
        error_handling: Mapping[str, str] | None = None,
    ) -> None:
        """Say which reports are counted, and how; the pieces explain their parameters.

        Args:
            collections: a collection, the path of its file or its definition, or several.
            source: the name of the input in rejected rows.
            field: which field of a row or a dictionary holds the message; empty where elements are messages.
            arrival: whether the timestamp of an element says when its message arrived.
            deduplicate: whether one report per report id counts, or every report.
            shards: into how many parts the reports of an epoch are split: a power of two up to 256.
            early_every: streams: seconds, or a duration like ``10m``, between results while an epoch lasts;
                0 for none.
            late_every: streams: at most one more result in so long when late reports come; None for ``1m``.
            max_error_fraction: an epoch has no result if a larger part of its records was rejected.
            max_epochs: of a collection, over bounded input; those with the fewest records are left out.
            error_handling: ``{"output": NAME}`` gives two outputs by name, ``frequencies`` and the rejected
                rows.

        Raises:
            CollectionError, UsageError, TypeError: no collections, or unsound ones.
            UsageError: another argument has a value that is not allowed.
        """
        super().__init__(collections)
        known = self.collections
        self._admit, self._field = AdmitReports(known, source=source, field=field, arrival=arrival), field
        self._count = CountSupport(
            known,
            deduplicate=deduplicate,
            shards=shards,
            early_every=early_every,
            late_every=late_every,
            max_epochs=max_epochs,
        )
        self._estimate = EstimateFrequencies(known, max_error_fraction=max_error_fraction)
        self._late = late_seconds(late_every)
        self._rejected_name = _output_name(error_handling)
        self._all = False
        self._handler: Any = None

    def with_outputs(self, *names: Any, **more: Any) -> Self:
        """Give :class:`Results`: frequencies, rejected rows, accounts and summaries, always all of them.

        Raises:
            UsageError: with names, which Beam's method of this name takes.
        """
        if names or more:
            raise UsageError(
                "E-USAGE-TRANSFORM",
                f"with_outputs() takes no names: it always gives {', '.join(Results._fields)}",
                remedy="Take one by its name, for example .rejected.",
            )
        self._all = True
        return self

    def with_error_handler(self, handler: Any) -> Self:
        """Hand rejected rows to a handler of ``apache_beam.transforms.error_handling``; None for none."""
        self._handler = handler
        return self

    def expand(self, messages: Any) -> Any:
        """Join the stages.

        Raises:
            UsageError: rejected rows are asked for in several ways.
            TypeError: the elements are no messages, or have no such field of bytes.
        """
        if (self._handler is not None) + self._all + bool(self._rejected_name) > 1:
            raise UsageError(
                "E-USAGE-TRANSFORM",
                "rejected rows go to one place: to an output, to a handler, or to the name in error_handling",
                remedy="Choose one of with_outputs(), with_error_handler() and error_handling. For a handler "
                "beside all outputs, take with_outputs() and handler.add_error_pcollection(found.rejected).",
            )
        # AdmitReports checks the type too, but its error would name AdmitReports.
        refuse_other_elements(type(self).__name__, messages.element_type, self._field)
        counted = messages | "Admit" >> self._admit | "Count" >> self._count
        estimated = counted | "Frequencies" >> self._estimate
        if self._handler is not None:
            self._handler.add_error_pcollection(counted.rejected)
        if self._rejected_name:
            return {"frequencies": estimated.frequencies, self._rejected_name: counted.rejected}
        if not self._all:
            return estimated.frequencies
        of_no_epoch = self._accounts_of_no_epoch(counted.entries, bounded=counted.counted.is_bounded)
        accounts = (estimated.accounts, of_no_epoch) | "Accounts" >> beam.Flatten().with_output_types(
            AccountRow
        )
        return Results(estimated.frequencies, counted.rejected, accounts, estimated.summaries)

    def _accounts_of_no_epoch(
        self, entries: beam.PCollection[Entry], *, bounded: bool
    ) -> beam.PCollection[AccountRow]:
        """What became of records that belong to no epoch: once at the end, or again whenever it changes."""
        names = {digest: one.name for digest, one in self.by_digest.items()}
        if not bounded:
            rows = beam.FlatMap(partial(_of_no_epoch, names)).with_output_types(AccountRow)
            return entries | "Unattributed" >> sum_unattributed(self._late) | "UnattributedRows" >> rows
        keyed = beam.Map(_by_digest_and_what).with_output_types(tuple[tuple[str, str], int])
        own = entries | "WithoutEpoch" >> entries_without_epoch() | "ByDigest" >> keyed
        total = own | "Unattributed" >> beam.CombinePerKey(sum)
        rows = beam.FlatMap(partial(_total_of_no_epoch, names)).with_output_types(AccountRow)
        return total | "UnattributedRows" >> rows


def _output_name(error_handling: Any) -> str:
    """The name of the output of rejected rows; empty for none."""
    if error_handling is None:
        return ""
    if hasattr(error_handling, "_asdict"):
        error_handling = error_handling._asdict()
    name = error_handling.get("output") if isinstance(error_handling, Mapping) else None
    if not isinstance(name, str) or len(error_handling) > 1 or name in {"", "frequencies"}:
        raise UsageError(
            "E-USAGE-TRANSFORM",
            f"error_handling names the output of rejected rows, and nothing else: {error_handling!r}",
            remedy='Write error_handling={"output": "rejected"}; "frequencies" is the other output.',
        )
    return name


def _by_digest_and_what(entry: Entry) -> tuple[tuple[str, str], int]:
    ((digest, _), what), count = entry
    return (digest, what), count


def _total_of_no_epoch(names: dict[str, str], total: tuple[tuple[str, str], int]) -> Iterable[AccountRow]:
    (digest, what), count = total
    account = Account()
    account.add(what, count)
    return account_rows(names.get(digest, ""), digest, None, 0, 0, account)


def _of_no_epoch(names: dict[str, str], one: UnattributedRecords) -> Iterable[AccountRow]:
    return account_rows(names.get(one.digest, ""), one.digest, None, 0, one.sequence, one.account)
