"""A client in another language or process, asked line by line on its standard input and output.

The lines are documented in docs/audit.md. ``DEVICE VALUE EPOCH`` asks for a report and is answered by its
bytes in hexadecimal, or by ``error`` and a text where the device refuses; ``reopen DEVICE`` is answered by
``ok``. A value of a size is the number itself; one of labels or of a range is ``index:`` and its index; a
text is ``text:`` and its UTF-8 in hexadecimal. Where the collection has slices, the line ends with what the
device says, as JSON.
"""

from __future__ import annotations

import json
import os
import select
import shlex
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from ldpbeam.audit.client.clients import Client, ClientHistory, LastingDevice, slice_in
from ldpbeam.audit.law.pairs import Text
from ldpbeam.collection.collection import Collection
from ldpbeam.errors import UsageError

_PIECE = 16_000
"""Bytes asked before answers are read: less than any pipe holds, so that neither side waits for the other."""

_PATIENCE = 60.0
"""Seconds that a client may take for an answer."""


class ExternalClient(Client):
    """A command, started once; a context manager that ends it."""

    def __init__(self, command: str, collection: Collection, patience: float = _PATIENCE) -> None:
        self.name = command
        self._patience = patience
        domains = [domain for _, domain in collection.histograms]
        self._marks = ["" if one.labels is None and one.maximum is None else "index:" for one in domains]
        self._collection = collection
        self._devices = 0
        self._unread = b""
        try:
            self._process = subprocess.Popen(  # noqa: S603 - the person who audits names the command
                shlex.split(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
            )
        except (OSError, ValueError, IndexError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise _trouble(command, f"cannot be started ({reason})") from None

    def __enter__(self) -> ExternalClient:
        return self

    def __exit__(self, *_: object) -> None:
        """End its input, and the command if that is not enough."""
        assert self._process.stdin is not None  # noqa: S101 - as it was started
        assert self._process.stdout is not None  # noqa: S101 - likewise
        with suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def reports(self, histories: Sequence[ClientHistory]) -> list[list[bytes | None]]:
        lines = []
        for values, epochs in histories:
            self._devices += 1
            lines += [self.line(self._devices, value, e) for value, e in zip(values, epochs, strict=True)]
        answers = iter(self.ask(lines))
        return [[self.message(next(answers)) for _ in history.values] for history in histories]

    def device(self) -> LastingDevice:
        self._devices += 1
        return _LastingProcess(self, self._devices)

    def line(self, number: int, value: Any, epoch: int, step: int = 0) -> str:
        """The question for a report; several attributes' values are joined by commas."""
        if isinstance(value, Text):
            text = f"text:{value.text.encode().hex()}"
        else:
            indices = value if isinstance(value, tuple) else (value,)
            text = ",".join(f"{mark}{index}" for mark, index in zip(self._marks, indices, strict=True))
        slice_ = slice_in(self._collection, epoch, step)
        return f"{number} {text} {epoch}" + (f" {json.dumps(dict(slice_))}" if slice_ else "")

    def message(self, answer: str) -> bytes | None:
        """The bytes in an answer; None for a refusal."""
        if answer.startswith("error"):
            return None
        try:
            return bytes.fromhex(answer)
        except ValueError:
            # Not the text itself: it may be a report.
            raise _trouble(self.name, "answered with something that is not hexadecimal") from None

    def ask(self, lines: Sequence[str]) -> list[str]:
        answers: list[str] = []
        first = 0
        while first < len(lines):
            last, size = first, 0
            while last < len(lines) and (last == first or size + len(lines[last]) < _PIECE):
                size += len(lines[last]) + 1
                last += 1
            self._write("".join(f"{line}\n" for line in lines[first:last]).encode())
            answers += [self._read_line() for _ in range(first, last)]
            first = last
        return answers

    def _write(self, data: bytes) -> None:
        assert self._process.stdin is not None  # noqa: S101 - as it was started
        try:
            while data:
                data = data[self._process.stdin.write(data) or 0 :]
        except OSError:
            raise self._ended() from None

    def _read_line(self) -> str:
        assert self._process.stdout is not None  # noqa: S101 - as it was started
        while b"\n" not in self._unread:
            ready, _, _ = select.select([self._process.stdout], [], [], self._patience)
            if not ready:
                raise _trouble(self.name, f"has not answered for {self._patience:g} s")
            more = os.read(self._process.stdout.fileno(), 1 << 16)
            if not more:
                raise self._ended()
            self._unread += more
        line, _, self._unread = self._unread.partition(b"\n")
        return line.decode("ascii", "replace").strip()

    def _ended(self) -> UsageError:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(1)
        return _trouble(self.name, f"ended with exit code {self._process.poll()} before it had answered")


class _LastingProcess(LastingDevice):
    def __init__(self, client: ExternalClient, number: int) -> None:
        self._client, self._number = client, number

    def report(self, value: Any, epoch: int, step: int = 0) -> bytes | None:
        (answer,) = self._client.ask([self._client.line(self._number, value, epoch, step)])
        return self._client.message(answer)

    def reopen(self) -> None:
        (answer,) = self._client.ask([f"reopen {self._number}"])
        if answer != "ok":
            raise _trouble(self._client.name, "did not answer ok when a device was to be opened again")


def _trouble(command: str, what: str) -> UsageError:
    return UsageError(
        "E-AUDIT-CLIENT",
        f"the client '{command}' {what}",
        remedy="Run it by hand with a line such as '1 0 0' on its input; ldpbeam docs audit has the lines.",
    )
