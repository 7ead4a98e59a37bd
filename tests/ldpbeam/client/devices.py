"""Collections and devices for tests of the client."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypedDict

import pytest

from ldpbeam.client import Device
from ldpbeam.client.folder import DeviceFolder
from ldpbeam.collection.collection import Attribute, Collection
from ldpbeam.collection.domain import Domain
from ldpbeam.collection.epochs import Epochs
from ldpbeam.collection.string_domain import StringDomain
from ldpbeam.durable import store
from ldpbeam.hashing.strings import Strings
from ldpbeam.protocols import Parameters
from ldpbeam.wire import device_state_pb2, report_pb2
from tests.reference.settings import Setting, settings


class Spread(TypedDict, total=False):
    """How long devices wait before they send, where a test does not leave it to the default."""

    spread: float


LEVELS = Parameters(epsilon_longitudinal=2.0, epsilon_first=1.0)
EPOCHS = Epochs(3600, 0, 1 << 20)


def collection(setting: Setting) -> Collection:
    """A collection with one attribute, whose values have an order: some hash families need one."""
    domain = Domain(setting.domain_size, ordered=True)
    return Collection("x", 1, domain, setting.name, setting.parameters, EPOCHS)


def loloha(size: int = 9, version: int = 1, **choices: Any) -> Collection:
    """LOLOHA with two hash symbols unless chosen otherwise: its cap is 4."""
    levels = Parameters(**{"epsilon_longitudinal": 2.0, "epsilon_first": 1.0, "g": 2} | choices)
    return Collection("x", version, Domain(size), "loloha", levels, EPOCHS)


def unary(size: int = 24) -> Collection:
    """L-OSUE, whose reports are long and whose memo grows."""
    return Collection("u", 1, Domain(size), "l_osue", LEVELS, EPOCHS)


def several(allocation: str, name: str, sizes: tuple[int, ...], parameters: Parameters) -> Collection:
    """Several attributes."""
    attributes = tuple(Attribute(f"a{i}", Domain(size)) for i, size in enumerate(sizes))
    return Collection("s", 1, None, name, parameters, EPOCHS, attributes=attributes, allocation=allocation)


def texts(name: str, lengths: tuple[int, ...], parameters: Parameters) -> Collection:
    """Texts of three letters; the longest prefix is drawn four times as often as each other one."""
    weights = (*(3,) * (len(lengths) - 1), 12)
    strings = Strings(lengths[-1], "abc", fold=True, drop=False, lengths=lengths, weights=weights)
    return Collection("t", 1, StringDomain(strings=strings), name, parameters, EPOCHS)


def composites() -> Iterator[Collection]:
    """One of each way to report several attributes, or prefixes of a text."""
    yield several("sample", "l_osue", (7, 11, 5), LEVELS)
    yield several("sample", "olh", (7, 11, 5), Parameters(epsilon=1.0))
    yield several("split", "loloha", (7, 11), LEVELS)
    yield several("split", "dbitflip_pm", (7, 11), Parameters(epsilon_longitudinal=1.0, d=2))
    yield several("allomfree", "", (7, 11), LEVELS)
    yield several("together", "one_bit_rrpm", (9, 9, 9), Parameters(epsilon_longitudinal=1.0, gamma=0.2))
    yield texts("loloha", (2, 4, 5), LEVELS)
    yield texts("olh", (5,), Parameters(epsilon=1.0))


def every_kind(size: int = 11) -> list[Collection]:
    """Each protocol with each choice, and the composites."""
    return [*map(collection, settings((size,))), *composites()]


def label(asked: Collection) -> str:
    """What a test of a collection is called."""
    return f"{asked.allocation}{asked.protocol_name}-{asked.digest_hex[:4]}"


def parsed(message: bytes | None) -> report_pb2.Report:
    """A report, which was made."""
    assert message is not None
    return report_pb2.Report.FromString(message)


def state_of(device: Device) -> device_state_pb2.DeviceState:
    """A copy of a device's state."""
    with device._storage.transaction() as records:
        return records.state


def set_state(device: Device, state: device_state_pb2.DeviceState) -> None:
    """Put a state in place of the one that a device has, as if it had never gone on."""
    with device._storage.transaction() as records:
        records.state.CopyFrom(state)
        records.save()


def rows_in(folder: Path) -> dict[str, dict[int, bytes]]:
    """The rows of a device's folder by table."""
    with DeviceFolder(folder)._newest.store.transaction() as rows:
        return {table: rows.rows(table).sound for table in ("state", "outbox")}


def quicken_disk(patch: pytest.MonkeyPatch) -> None:
    """Force nothing to disk, where a test is not about power that is lost."""
    patch.setattr(store, "_SETTINGS", (*store._SETTINGS, "PRAGMA synchronous = OFF"))
    patch.setattr(os, "fsync", lambda _: None)


@contextmanager
def interrupted_commits() -> Iterator[list[str]]:
    """A process ends just before it changes rows for good; the tables that it had changed."""
    changed: list[str] = []

    def interrupted(rows: store.Transaction) -> None:
        changed.extend(rows._summaries)
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store.Transaction, "commit", interrupted)
        yield changed


@contextmanager
def held_journal(folder: Path) -> Iterator[None]:
    """Another program is in the middle of a change of a device's file: its journal lies there."""
    with closing(sqlite3.connect(folder / "device.sqlite", isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("UPDATE rows SET content = zeroblob(9)")
        yield
