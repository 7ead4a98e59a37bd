"""Devices in Rust: a process of ``examples/reporter.rs`` for each, asked as a device in Python is."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ldpbeam.collection.collection import Collection
from ldpbeam.collection.device_definition import device_definition_text
from ldpbeam.collection.values import Index
from ldpbeam.errors import DeviceError
from tests.rust.programs import program


class RustDevice:
    """As :class:`ldpbeam.client.Device`; its clock shows what :attr:`now` is at each call."""

    def __init__(
        self, collection: Collection, folder: Path | None, *, now: float = 0.0, **options: Any
    ) -> None:
        self.process = subprocess.Popen(
            [program("reporter")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )
        self.now = now
        sentinel = options.pop("sentinel", None)
        where = {name: str(path) for name, path in (("folder", folder), ("sentinel", sentinel)) if path}
        try:
            self._ask("open", definition=device_definition_text(collection), **where, **options)
        except DeviceError:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: type | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End the process; the state lasts."""
        self.process.communicate()

    def report(
        self, value: Any, epoch: int | None = None, *, slice: Mapping[str, str] | None = None
    ) -> bytes | None:
        """A report, as :meth:`ldpbeam.client.Device.report` has it."""
        report = self._ask("report", value=_json(value), epoch=epoch, slice=slice)
        return None if report is None else bytes.fromhex(report)

    def waiting(self) -> list[tuple[int, str, int, bytes]]:
        """When each report is due, its digest, epoch and bytes."""
        return [(due, digest, epoch, bytes.fromhex(one)) for due, digest, epoch, one in self._ask("waiting")]

    def acknowledge(self, *epochs: int) -> None:
        """Forget the reports of epochs."""
        self._ask("acknowledge", epochs=epochs)

    def dropped(self) -> tuple[int, int]:
        """Reports that were never sent: too many, damaged."""
        full, damaged = self._ask("dropped")
        return full, damaged

    def spent(self) -> Any:
        """Collections, the sum of their ε, and the budget."""
        return self._ask("spent")

    def withdraw(self) -> None:
        """The person opts out."""
        self._ask("withdraw")

    def _ask(self, call: str, **given: Any) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps([call, {"clock": self.now, **given}]) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        if "error" in answer:
            raise DeviceError(answer["error"], answer["text"])
        return answer["ok"]


def _json(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [*map(_json, value)]
    return {"index": value.index} if isinstance(value, Index) else value
