"""The rows that the public transforms give: named, typed, with coders that every language of Beam reads.

No ``from __future__ import annotations`` here: Beam makes schemas of these annotations. It knows
``Optional[float]`` as a number that may be null, and takes ``float | None`` for any object of Python.
"""

# ruff: noqa: UP045 - see above

import datetime
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Optional, get_args

import pyarrow as pa
from apache_beam import coders
from apache_beam.portability import common_urns
from apache_beam.typehints.schemas import SCHEMA_REGISTRY, named_tuple_to_schema, typing_to_runner_api
from apache_beam.utils.timestamp import Timestamp

from ldpbeam.accounting import Account
from ldpbeam.admission import Rejection
from ldpbeam.collection.slices import COLUMN
from ldpbeam.errors import Reason


class FrequencyRow(NamedTuple):
    """The frequency of one value in one epoch; docs/outputs.md explains the columns.

    The cumulative ones are None unless the collection's result is a distribution. ``slice`` holds the label
    of each dimension that the row is about: none in rows over all reports.
    """

    collection: str
    version: int
    digest: str
    epoch: int
    epoch_start: Timestamp
    epoch_end: Timestamp
    revision: int
    attribute: str
    value: int
    label: str
    n: int
    support: int
    estimate: Optional[float]
    std_error: Optional[float]
    std_error_floor: Optional[float]
    ci_low: Optional[float]
    ci_high: Optional[float]
    ci_low_all: Optional[float]
    ci_high_all: Optional[float]
    consistent: Optional[float]
    method: str
    pane: str
    status: str
    cumulative: Optional[float]
    cumulative_ci_low: Optional[float]
    cumulative_ci_high: Optional[float]
    slice: Mapping[str, str]


class SummaryRow(NamedTuple):
    """A mean or a quantile of collections that give a distribution, or how strings were searched.

    Attributes:
        collection, version, digest, epoch, epoch_start, epoch_end, revision, attribute, n: as in
            :class:`FrequencyRow`.
        statistic: ``mean``, ``quantile``, or for strings one of those in docs/outputs.md.
        share: of a quantile, the share of the devices at or below it; None for a mean.
        estimate: the mean, or the quantile as a number; None where values are labels.
        std_error: of a mean; None for a quantile.
        ci_low, ci_high: ends of its 95 % interval.
        label, label_low, label_high: of a quantile, the value and the ends of its interval as people read
            them.
        pane, status, slice: as in :class:`FrequencyRow`.
    """

    collection: str
    version: int
    digest: str
    epoch: int
    epoch_start: Timestamp
    epoch_end: Timestamp
    revision: int
    attribute: str
    n: int
    statistic: str
    share: Optional[float]
    estimate: Optional[float]
    std_error: Optional[float]
    ci_low: Optional[float]
    ci_high: Optional[float]
    label: Optional[str]
    label_low: Optional[str]
    label_high: Optional[str]
    pane: str
    status: str
    slice: Mapping[str, str]


class RejectedRow(NamedTuple):
    """Records that were rejected for one reason in one place: the columns of ``rejects/``, no payload.

    The ``place`` of a message without a name is where it lay among those that came with it: it identifies
    nothing.
    """

    reason: str
    explanation: str
    source: str
    place: int
    index: int  # type: ignore[assignment] # a column; nobody looks rows up in a row
    count: int  # type: ignore[assignment]
    digest: str
    epoch: Optional[int]
    missing: Optional[int]


class AccountRow(NamedTuple):
    """One number of an account: how many records of an epoch were read, or counted, and so on.

    Attributes:
        collection: name; empty where no known collection has the digest.
        digest: 16 hexadecimal digits; empty for records that name no known collection.
        epoch: index; None for records of no epoch of the collection.
        revision: of the newest result of the epoch.
        sequence: 0 at first, one more for each time that the account is published again. All rows of an
            account have the same number. Take the rows with the highest; rows may arrive in any order. A
            runner that goes back to a checkpoint gives numbers again: there take the largest ``records`` of
            each ``what``, since all of them only grow.
        what: what became of the records: ``read``, ``counted``, ``late``, ``duplicate`` or
            ``rejected.REASON``.
        records: number of records; read = counted + late + duplicate + rejected whenever a result of the
            epoch is out; between results ``read`` runs ahead.
    """

    collection: str
    digest: str
    epoch: Optional[int]
    revision: int
    sequence: int
    what: str
    records: int


ROWS = (FrequencyRow, SummaryRow, RejectedRow, AccountRow)


def register_rows() -> None:
    """Encode rows by their schemas; needed in every process that sends or receives rows."""
    for row in ROWS:
        coders.registry.register_coder(row, coders.RowCoder)
        SCHEMA_REGISTRY.add(row, _schema(row))


def _schema(row: type[Any]) -> Any:
    """Beam's schema of a kind of row, with times in milliseconds."""
    schema = named_tuple_to_schema(row)
    for field in schema.fields:
        logical = field.type.logical_type
        if logical.urn == common_urns.micros_instant.urn:
            logical.urn = common_urns.millis_instant.urn
            logical.representation.CopyFrom(typing_to_runner_api(int))
    return schema


def arrow_schema(row: type[Any]) -> Any:
    """The ``pyarrow.Schema`` of a kind of row, for sinks that take it and what :func:`as_dict` gives.

    Columns and types are those of the files of a run (docs/outputs.md).

    Args:
        row: :class:`FrequencyRow`, :class:`SummaryRow`, :class:`RejectedRow` or :class:`AccountRow`.

    Raises:
        TypeError: another type.

    >>> arrow_schema(AccountRow).names
    ['collection', 'digest', 'epoch', 'revision', 'sequence', 'what', 'records']
    """
    if row not in ROWS:
        named = ", ".join(one.__name__ for one in ROWS)
        raise TypeError(f"arrow_schema takes one of {named}, not {getattr(row, '__name__', row)}")
    return pa.schema(pa.field(name, *_arrow_type(name, kind)) for name, kind in row.__annotations__.items())


def _arrow_type(name: str, annotated: Any) -> tuple[pa.DataType, bool]:
    """Of a column: its type, and whether it may be null."""
    kinds = {str: pa.string(), int: pa.int64(), float: pa.float64(), Timestamp: pa.timestamp("us", "UTC")}
    if annotated == Mapping[str, str]:
        return pa.map_(pa.string(), pa.string()), False
    nullable = annotated not in kinds
    kind = kinds[get_args(annotated)[0] if nullable else annotated]
    return (pa.int32() if name == "revision" else kind), nullable


def as_dict(row: Any) -> dict[str, Any]:
    """A row as a dictionary, for sinks that take dictionaries; times as ``datetime`` in UTC.

    >>> as_dict(AccountRow("minutes", "d763b721438b2148", 5, 0, 0, "read", 7))["records"]
    7
    """
    return {name: _plain(value) for name, value in zip(row._fields, row, strict=True)}


def _plain(value: Any) -> Any:
    if isinstance(value, Timestamp):
        return value.to_utc_datetime().replace(tzinfo=datetime.UTC)
    return value


def frequency_rows(table: Any) -> Iterable[FrequencyRow]:
    """The rows of an epoch's table, see :func:`ldpbeam.tables.epoch_table`."""
    return _rows(FrequencyRow, table)


def summary_rows(table: Any) -> Iterable[SummaryRow]:
    """The rows of an epoch's summaries, see :func:`ldpbeam.summaries.summary_table`."""
    return _rows(SummaryRow, table)


def _rows(kind: Any, table: Any) -> Iterable[Any]:
    """Rows with the fields of their kind, None for those that the table lacks."""
    columns = [
        _slices(table)
        if name == "slice"
        else [None] * table.num_rows
        if name not in table.column_names
        else _timestamps(table[name])
        if name.startswith("epoch_")
        else table[name].to_pylist()
        for name in kind._fields
    ]
    return map(kind._make, zip(*columns, strict=True))


def _slices(table: Any) -> list[dict[str, str]]:
    """The labels of each row by dimension."""
    columns = {
        n.removeprefix(COLUMN): table[n].to_pylist() for n in table.column_names if n.startswith(COLUMN)
    }
    labels: list[dict[str, str]] = [{} for _ in range(table.num_rows)]
    for name, column in columns.items():
        for of_row, label in zip(labels, column, strict=True):
            if label is not None:
                of_row[name] = label
    return labels


def _timestamps(column: Any) -> list[Timestamp]:
    first = Timestamp(micros=column[0].value) if len(column) else None
    return [first] * len(column)


def rejected_row(rejection: Rejection) -> RejectedRow:
    one = rejection
    where = (one.source, one.place, one.index, one.count, one.digest, one.epoch, one.missing)
    return RejectedRow(one.reason.value, one.explanation, *where)


def rejection_of(row: RejectedRow) -> Rejection:
    reason = Reason(row.reason)
    detail = "" if row.explanation == reason.explanation else row.explanation
    return Rejection(reason, *row[2:], detail)


def account_rows(
    collection: str, digest: str, epoch: int | None, revision: int, sequence: int, account: Account
) -> Iterable[AccountRow]:
    """The rows of an account, one for each number that is not 0."""
    for what, count in account.entries():
        if what != "repeated":
            yield AccountRow(collection, digest, epoch, revision, sequence, what, count)


register_rows()
