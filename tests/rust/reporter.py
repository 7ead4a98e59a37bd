"""Devices in Rust: ``examples/reporter.rs`` in a process of its own, asked as a device in Python is."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from ldpbeam.collection.collection import Collection
from ldpbeam.collection.device_definition import device_definition_text
from ldpbeam.collection.values import Index
from ldpbeam.errors import DeviceError
from tests.rust.programs import program


def request(call: str, **given: Any) -> str:
    """A line for the reporter."""
    return json.dumps([call, given]) + "\n"


def opening(collection: Collection, folder: Path | None, **options: Any) -> dict[str, Any]:
    """Arguments of ``open``."""
    paths = {"folder": folder, "sentinel": options.pop("sentinel", None)}
    text = device_definition_text(collection)
    return {"definition": text, **{name: str(path) for name, path in paths.items() if path}, **options}


class Reporter:
    """A process that has one device open at a time."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [program("reporter")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )

    def ask(self, call: str, **given: Any) -> Any:
        """The answer, or the DeviceError that it is."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(request(call, **given))
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        if "error" in answer:
            error = DeviceError(answer["error"], answer["text"])
            raise error
        return answer["ok"]

    def close(self) -> None:
        """End the process; states last."""
        self.process.communicate()


class RustDevice:
    """As :class:`ldpbeam.client.Device`, with the time that the clock shows for an argument."""

    def __init__(
        self, reporter: Reporter, collection: Collection, folder: Path | None, **options: Any
    ) -> None:
        self._ask = reporter.ask
        self._ask("open", **opening(collection, folder, **options))

    def report(
        self,
        value: Any,
        epoch: int | None = None,
        *,
        slice: Mapping[str, str] | None = None,
        clock: float | None = None,
    ) -> bytes | None:
        """A report, or nothing to send."""
        report = self._ask("report", value=_json(value), epoch=epoch, slice=slice, clock=clock)
        return None if report is None else bytes.fromhex(report)

    def waiting(self) -> list[tuple[int, str, int, bytes | None]]:
        """When each report is due, its digest, epoch and bytes."""
        found = self._ask("waiting")
        return [(due, digest, epoch, one and bytes.fromhex(one)) for due, digest, epoch, one in found]

    def acknowledge(self, *epochs: int) -> None:
        """Forget the reports of epochs."""
        self._ask("acknowledge", epochs=epochs)

    def dropped(self) -> list[int]:
        """Reports that were never sent: too many, damaged."""
        found: list[int] = self._ask("dropped")
        return found

    def spent(self) -> Any:
        """Collections, the sum of their ε, and the budget."""
        return self._ask("spent")

    def withdraw(self) -> None:
        """The person opts out."""
        self._ask("withdraw")


def _json(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [*map(_json, value)]
    return {"index": value.index} if isinstance(value, Index) else value


@cache
def shared_reporter() -> Reporter:
    """One for all devices of this process; it ends with it."""
    return Reporter()
