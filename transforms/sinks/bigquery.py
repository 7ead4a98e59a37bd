"""After stage 5, a sink for rows: every published revision of an epoch into one BigQuery table.

Rows are those of the Parquet files. They are streamed in through tabledata.insertAll, which works on every
runner and needs no bucket; a row that is sent again has the same insertId.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any

import pyarrow as pa

from ldpbeam.collection.collection import Collection
from ldpbeam.collection.epochs import instant
from ldpbeam.errors import LdpError, UsageError, optional_module
from ldpbeam.histogram import EpochHistogram
from ldpbeam.tables import DESCRIPTIONS, epoch_table

from .confirmed_sink import ConfirmedSink

EMULATOR = "BIGQUERY_EMULATOR_HOST"
"""Environment variable with the address of a stand-in, honoured by google-cloud-bigquery itself."""

_ROWS = 10_000
_BYTES = 9_000_000
"""Of a request at most. BigQuery takes 50,000 rows and 10 MB."""
_AT_ONCE = 1000
"""Rows turned from columns at a time."""
_SECONDS = 300.0
"""How long a request is tried again."""
_PAUSE = 0.5
"""Before the second attempt, on average; each further pause is twice as long."""
_REQUEST_SECONDS = 60.0

_PROJECT = r"(?:[a-z0-9.-]+\.[a-z]+:)?[a-z][-a-z0-9]{4,28}[a-z0-9]"
_TABLE = re.compile(rf"({_PROJECT})[:.]([A-Za-z0-9_]{{1,1024}})\.([\w-]{{1,1024}})")

_PASSING = frozenset({"backendError", "internalError", "rateLimitExceeded", "timeout"})
"""Reasons to refuse a row that may be gone the next time."""
_STOPPED = "stopped"
"""The reason given for sound rows in the company of a bad one."""


def require_table(name: str) -> tuple[str, str, str]:
    """Project, dataset and table of ``project:dataset.table`` or ``project.dataset.table``."""
    match = _TABLE.fullmatch(name)
    if match is None:
        raise UsageError(
            "E-USAGE-OPTION",
            f"{name!r} is not the name of a BigQuery table",
            remedy="Write PROJECT:DATASET.TABLE or PROJECT.DATASET.TABLE.",
        )
    return match[1], match[2], match[3]


def bigquery_schema(schema: Any) -> list[dict[str, str]]:
    """The columns of an Arrow schema of estimates as BigQuery's JSON: name, type, mode, description."""
    types = {
        pa.string(): "STRING",
        pa.int32(): "INTEGER",
        pa.int64(): "INTEGER",
        pa.float64(): "FLOAT",
        pa.timestamp("us", "UTC"): "TIMESTAMP",
    }
    return [
        {
            "name": column.name,
            "type": types[column.type],
            "mode": "NULLABLE" if column.nullable else "REQUIRED",
            "description": DESCRIPTIONS[column.name],
        }
        for column in schema
    ]


def insert_id(row: Mapping[str, Any]) -> str:
    """By what BigQuery knows a row again: the hash of what says which row of which revision it is."""
    keys = ("collection", "digest", "epoch", "revision", "attribute", "value")
    key = "/".join(str(row[name]) for name in keys)  # no slash in a name, so no two keys are equal
    return hashlib.blake2b(key.encode(), digest_size=16).hexdigest()


def bigquery_client(project: str) -> Any:
    """A client with the credentials of this machine; without any for a stand-in (:data:`EMULATOR`)."""
    bigquery = optional_module("google.cloud.bigquery")
    from google.auth.exceptions import GoogleAuthError

    credentials: dict[str, Any] = {}
    if os.environ.get(EMULATOR):
        credentials["credentials"] = import_module("google.auth.credentials").AnonymousCredentials()
    try:
        return bigquery.Client(project=project, **credentials)
    except GoogleAuthError:
        raise UsageError(
            "E-USAGE-CREDENTIALS",
            "Google's libraries find no valid credentials",
            remedy="Run gcloud auth application-default login, or set GOOGLE_APPLICATION_CREDENTIALS.",
        ) from None


class WriteEstimatesToBigQuery(ConfirmedSink):
    def __init__(self, collection: Collection, table: str) -> None:
        super().__init__(collection)
        if collection.is_discovery:
            raise UsageError(
                "E-USAGE-OPTION",
                f"revisions of {collection.name} have as many rows as they find strings, and the view of a "
                "BigQuery table takes the one with most rows",
                remedy="Leave out --bigquery-table, and take --publish-topic or the files of latest/.",
            )
        self._table = require_table(table)
        self._client: Any = None
        self._rows: list[dict[str, Any]] = []
        self._ids: list[str] = []
        self._bytes = 0

    @staticmethod
    def check(target: str) -> None:
        require_table(target)

    def connect(self) -> None:
        self._client = bigquery_client(self._table[0])

    def begin(self) -> None:
        self._rows, self._ids, self._bytes = [], [], 0

    def send(self, histogram: EpochHistogram) -> int:
        gathered = 0
        for row in self._rows_of(histogram):
            key = insert_id(row)
            # As the library writes it, and the comma.
            size = len(json.dumps({"json": row, "insertId": key})) + 2
            if self._rows and (len(self._rows) >= _ROWS or self._bytes + size > _BYTES):
                self._insert()
            self._rows.append(row)
            self._ids.append(key)
            self._bytes += size
            gathered += size
        return gathered

    def confirm(self) -> None:
        if self._rows:
            self._insert()

    def disconnect(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def _rows_of(self, histogram: EpochHistogram) -> Iterator[dict[str, Any]]:
        if not histogram.attributes:
            return
        table = epoch_table(self.collection, histogram, self.fixed)
        epochs = self.collection.epochs
        times = {
            "epoch_start": instant(epochs.start(histogram.epoch)),
            "epoch_end": instant(epochs.end(histogram.epoch)),
        }
        for first in range(0, table.num_rows, _AT_ONCE):
            for row in table.slice(first, _AT_ONCE).to_pylist():
                yield {**row, **times}

    def _insert(self) -> None:
        """Insert what was gathered, trying again as long as the reason may pass; LdpError if it does not."""
        from google.api_core import exceptions
        from google.api_core.retry import Retry, if_exception_type
        from google.auth.exceptions import GoogleAuthError
        from requests.exceptions import RequestException

        again = Retry(
            predicate=if_exception_type(_PassingRefusal), initial=_PAUSE, maximum=30.0, timeout=_SECONDS
        )
        try:
            again(self._request)()
        except exceptions.RetryError as error:
            raise self._failure(f"did not take the rows for {_SECONDS:.0f} s ({_why(error)})") from None
        except (RequestException, ConnectionError) as error:
            raise self._failure(f"cannot be reached ({_why(error)})") from None
        except (exceptions.GoogleAPIError, GoogleAuthError) as error:
            raise self._failure(f"refused a request ({_why(error)})") from None
        self.begin()

    def _request(self) -> None:
        retries = import_module("google.cloud.bigquery.retry")
        bigquery = import_module("google.cloud.bigquery")
        project, dataset, table = self._table
        errors = self._client.insert_rows_json(
            bigquery.TableReference(bigquery.DatasetReference(project, dataset), table),
            self._rows,
            row_ids=self._ids,
            retry=retries.DEFAULT_RETRY.with_delay(initial=_PAUSE, maximum=30.0).with_timeout(_SECONDS),
            timeout=_REQUEST_SECONDS,
        )
        if not errors:
            return
        if {e["reason"] for row in errors for e in row["errors"]} <= _PASSING | {_STOPPED}:
            raise _PassingRefusal(_refused(self._rows, errors))
        raise self._failure(f"refused rows: {_refused(self._rows, errors)}")

    def _failure(self, what: str) -> LdpError:
        project, dataset, table = self._table
        return LdpError(
            "E-RUN-SINK",
            f"BigQuery {what}",
            where=f"{project}:{dataset}.{table}",
            remedy="Check that the table exists with the columns of "
            "pipelines/deploy/bigquery/estimates.schema.json and that the worker may write to it "
            "(roles/bigquery.dataEditor); then start the run again.",
        )


class _PassingRefusal(Exception):  # noqa: N818 - not an error yet
    """Rows were refused for reasons that may be gone the next time."""


def _refused(rows: Sequence[Mapping[str, Any]], errors: Sequence[Mapping[str, Any]]) -> str:
    """Which rows, and why: never what is in them, which BigQuery's messages repeat."""
    refused = [
        (rows[error["index"]], one)
        for error in errors
        for one in error["errors"]
        if one.get("reason") != _STOPPED
    ]
    shown = [
        f"epoch {row['epoch']} revision {row['revision']} attribute {row['attribute']!r} "
        f"value {row['value']}: {_reason(one)}"
        for row, one in refused[:3]
    ]
    more = len({id(row) for row, _ in refused}) - len({id(row) for row, _ in refused[:3]})
    return "; ".join([*shown, *([f"and {more:,} more rows"] if more else [])])


def _reason(error: Mapping[str, Any]) -> str:
    reason = re.sub(r"[^A-Za-z-]", "", str(error.get("reason", "")))[:40] or "no reason given"
    column = error.get("location")
    return f"{reason} at {column}" if column in DESCRIPTIONS else reason


def _why(error: BaseException) -> str:
    """What a failed request says about itself; a RetryError tells what was the matter the last time."""
    cause = getattr(error, "cause", None) or error
    if isinstance(cause, _PassingRefusal):
        return str(cause)
    code, reasons = getattr(cause, "code", None), getattr(cause, "errors", None) or ()
    parts = [type(cause).__name__, *([str(int(code))] if code else [])]
    parts += [_reason(one) for one in reasons if isinstance(one, Mapping)][:1]
    return " ".join(parts)
