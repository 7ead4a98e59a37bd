"""As much of BigQuery as streaming inserts see: tabledata.insertAll over HTTP, in this process.

Checks what the service documents: size and rows of a request, length of an insertId, names, types and modes
of columns; one bad row refuses all of them. Knows an insertId again until it is told to forget them all.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

Row = dict[str, Any]

TYPES: dict[str, Callable[[Any], bool]] = {
    "STRING": lambda v: isinstance(v, str),
    "INTEGER": lambda v: isinstance(v, int) and not isinstance(v, bool) and -(2**63) <= v < 2**63,
    "FLOAT": lambda v: isinstance(v, int | float) and not isinstance(v, bool),
    "TIMESTAMP": lambda v: isinstance(v, str) and datetime.fromisoformat(v).tzinfo is not None,
}


@dataclass
class Request:
    size: int
    rows: list[tuple[str, Row]]
    status: int


@dataclass
class FakeBigQuery:
    path: str
    schema: list[dict[str, str]]
    rows: list[Row] = field(default_factory=list)
    known: set[str] = field(default_factory=set)
    requests: list[Request] = field(default_factory=list)
    before: deque[tuple[int, str]] = field(default_factory=deque)
    after: deque[tuple[int, str]] = field(default_factory=deque)
    spoil: deque[dict[int, str]] = field(default_factory=deque)
    """Rows to refuse by index, with the reason, one mapping per request."""
    host: str = ""

    def forget(self) -> None:
        self.known.clear()

    def answer(self, path: str, body: bytes) -> tuple[int, dict[str, Any]]:
        status, content = self._answer(path, body)
        rows = [(r["insertId"], r["json"]) for r in json.loads(body)["rows"]]
        self.requests.append(Request(len(body), rows, status))
        return status, content

    def _answer(self, path: str, body: bytes) -> tuple[int, dict[str, Any]]:
        if self.before:
            return failed(*self.before.popleft())
        if path != self.path:
            return failed(404, "notFound")
        rows = json.loads(body, parse_constant=lambda name: f"JSON has no {name}")["rows"]
        if len(body) > 10_000_000 or len(rows) > 50_000 or any(len(r["insertId"]) > 128 for r in rows):
            return failed(413, "invalid")
        wrong = {i: found for i, row in enumerate(rows) if (found := self._wrong(row["json"]))}
        if self.spoil:
            wrong |= {i: (reason, "") for i, reason in self.spoil.popleft().items()}
        if wrong:
            stopped = {i: ("stopped", "") for i in range(len(rows)) if i not in wrong}
            return 200, {"insertErrors": [error(i, *why, rows[i]) for i, why in (wrong | stopped).items()]}
        for row in rows:
            if row["insertId"] not in self.known:
                self.known.add(row["insertId"])
                self.rows.append(row["json"])
        return failed(*self.after.popleft()) if self.after else (200, {})

    def _wrong(self, row: Row) -> tuple[str, str] | None:
        columns = {column["name"]: column for column in self.schema}
        for name in set(row) - set(columns):
            return "invalid", name
        for name, column in columns.items():
            value = row.get(name)
            if column["mode"] == "REQUIRED" if value is None else not TYPES[column["type"]](value):
                return "invalid", name
        return None


def failed(status: int, reason: str) -> tuple[int, dict[str, Any]]:
    problem = {"reason": reason, "message": "what happened", "domain": "global"}
    return status, {"error": {"code": status, "message": "what happened", "errors": [problem]}}


def error(index: int, reason: str, location: str, row: Row) -> dict[str, Any]:
    message = "" if reason == "stopped" else f"Cannot convert: {row['json'].get('estimate')!r}"
    return {
        "index": index,
        "errors": [{"reason": reason, "location": location, "debugInfo": "", "message": message}],
    }


@contextmanager
def fake_bigquery(table: str, schema: list[dict[str, str]]) -> Iterator[FakeBigQuery]:
    project, dataset, name = table.split(".")
    path = f"/bigquery/v2/projects/{project}/datasets/{dataset}/tables/{name}/insertAll"
    fake = FakeBigQuery(path, schema)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # an answer goes out whole: a client holds back its word that it has the first part

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status, content = fake.answer(self.path.partition("?")[0], body)
            data = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        fake.host = f"http://127.0.0.1:{server.server_port}"
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield fake
        finally:
            server.shutdown()
            thread.join()
