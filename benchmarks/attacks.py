"""What an observer of one device's reports can do with them, against our clients and published libraries'.

    python benchmarks/attacks.py [--devices N] [--reports T] [--seed S] [--no-peers]
    python benchmarks/attacks.py --bounds DRAWS

Three attacks on every longitudinal protocol: averaging the reports about a value that never changes, seeing
when a value changed, and averaging over the answers that a device draws again after it has lost its state.
docs/audit.md has the tables. ``--bounds`` draws the lower bounds of a few settings instead, in full.

The libraries are the extra ``bench``; of those that are not installed, the table says so.
"""

from __future__ import annotations

import argparse
import random
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpbeam.audit.audit import FALSE_ALARM
from ldpbeam.audit.checks.evidence import bounds_of
from ldpbeam.audit.checks.outcome import Check, Evidence, judge
from ldpbeam.audit.client.clients import Memoised, PythonClient
from ldpbeam.audit.client.draws import DrawPlan, ReportLog, Subject, read_histories
from ldpbeam.audit.law.pairs import model_of
from ldpbeam.audit.standard_collections import one_collection
from ldpbeam.client import Device
from ldpbeam.collection.collection import Collection
from ldpbeam.wire import report_pb2

SIZE = 24
LONGITUDINAL, FIRST = 2.0, 1.0
CHANGE = 0.25
"""Probability that a value changes from an epoch to the next."""

Scores = NDArray[np.float64]


@dataclass(frozen=True)
class Seen:
    """One report as an observer reads it."""

    scores: Scores


class Watched(ABC):
    """A device whose reports are watched."""

    @abstractmethod
    def report(self, value: int, epoch: int) -> Seen:
        """One report."""

    @abstractmethod
    def lose(self) -> None:
        """Lose the state, where there is any."""


class Ours(Watched):
    """This project's device."""

    def __init__(self, collection: Collection) -> None:
        self._collection = collection
        self.lose()

    def lose(self) -> None:
        self._device = Device.ephemeral(self._collection)

    def report(self, value: int, epoch: int) -> Seen:
        protocol: Any = self._collection.protocol
        message = self._device.report(value, epoch)
        assert message is not None
        response = protocol.device.decode(report_pb2.Report.FromString(message).payload)
        support = np.array([protocol.law.supports(response, v) for v in range(SIZE)], np.float64)
        asked = np.ones(SIZE, np.bool_)
        if hasattr(response, "indices"):
            asked = np.isin(np.arange(SIZE), response.indices)
        return Seen(np.where(asked, support - float(protocol.estimator.support.other), 0.0))


class Theirs(Watched):
    """A published client: a function that is called for every report, and keeps nothing."""

    def __init__(self, call: Callable[[int], Any], read: Callable[[Any], Scores]) -> None:
        self._call, self._read = call, read

    def lose(self) -> None:
        pass

    def report(self, value: int, epoch: int) -> Seen:
        return Seen(self._read(self._call(value)))


def ours() -> Iterator[tuple[str, Callable[[], Watched]]]:
    """Every longitudinal protocol that counts values."""
    levels: dict[str, Any] = {"epsilon_longitudinal": LONGITUDINAL, "epsilon_first": FIRST}
    for name, more in (
        ("l_grr", {}),
        ("l_sue", {}),
        ("l_osue", {}),
        ("l_oue", {}),
        ("l_soue", {}),
        ("rappor", {}),
        ("loloha", {"g": 2}),
        ("loloha", {}),
        ("dbitflip_pm", {"d": 1}),
        ("dbitflip_pm", {"d": 4}),
        ("dbitflip_pm", {"d": SIZE}),
    ):
        label = ", ".join([f"`{name}`", *(f"{key} = {value}" for key, value in more.items())])
        yield label, partial(Ours, one_collection(name, SIZE, **levels, **more))


def peers() -> Iterator[tuple[str, Callable[[], Watched]]]:
    """The clients of multi-freq-ldpy and pure-ldp that answer the same questions."""
    import xxhash
    from multi_freq_ldpy.long_freq_est.dBitFlipPM import dBitFlipPM_Client
    from multi_freq_ldpy.long_freq_est.L_GRR import L_GRR_Client
    from multi_freq_ldpy.long_freq_est.L_LH import L_LH_Client
    from multi_freq_ldpy.long_freq_est.L_OSUE import L_OSUE_Client
    from multi_freq_ldpy.long_freq_est.L_OUE import L_OUE_Client
    from multi_freq_ldpy.long_freq_est.L_SOUE import L_SOUE_Client
    from multi_freq_ldpy.long_freq_est.L_SUE import L_SUE_Client
    from pure_ldp.frequency_oracles.unary_encoding import UEClient

    def bits(report: Any) -> Scores:
        return np.asarray(report, np.float64)

    def sampled(report: Any) -> Scores:
        # −1 stands for a bucket that was not sampled.
        return np.where(np.asarray(report) < 0, 0.5, np.asarray(report, np.float64))

    def hashed(report: Any) -> Scores:
        symbol, seed = report
        found = [xxhash.xxh32(str(v), seed=seed).intdigest() % 2 == symbol for v in range(SIZE)]
        return np.array(found, np.float64)

    def one(report: int) -> Scores:
        found: Scores = np.eye(SIZE)[report]
        return found

    levels = (SIZE, LONGITUDINAL, FIRST)
    known: list[tuple[str, Callable[[int], Any], Callable[[Any], Scores]]] = [
        ("L_GRR", lambda v: L_GRR_Client(v, *levels), one),
        ("L_SUE", lambda v: L_SUE_Client(v, *levels), bits),
        ("L_OSUE", lambda v: L_OSUE_Client(v, *levels), bits),
        ("L_OUE", lambda v: L_OUE_Client(v, *levels), bits),
        ("L_SOUE", lambda v: L_SOUE_Client(v, *levels), bits),
        ("L_LH, g = 2", lambda v: L_LH_Client(v, *levels, optimal=False), hashed),
        ("dBitFlipPM, d = 4", lambda v: dBitFlipPM_Client(v, SIZE, SIZE, 4, LONGITUDINAL), sampled),
    ]
    for name, call, read in known:
        yield f"multi-freq-ldpy {name}", partial(Theirs, call, read)
    # Its longitudinal promise is none: it draws anew for every report, and says so.
    unary = UEClient(LONGITUDINAL, SIZE, use_oue=False, index_mapper=lambda v: v)
    yield "pure-ldp UE (RAPPOR's first round)", partial(Theirs, unary.privatise, bits)


def averaged(
    made: Callable[[], Watched], devices: int, reports: int, chance: random.Random, losses: int = 0
) -> float:
    """Share of devices whose constant value scores highest in the sum of their reports."""
    found = 0
    for _ in range(devices):
        device, value = made(), chance.randrange(SIZE)
        total = np.zeros(SIZE)
        for epoch in range(reports):
            if losses and epoch and epoch % max(1, reports // (losses + 1)) == 0:
                device.lose()
            total += device.report(value, epoch).scores
        best = np.flatnonzero(total >= total.max() - 1e-9)
        found += chance.choice(best.tolist()) == value
    return found / devices


def changes(
    made: Callable[[], Watched], devices: int, reports: int, chance: random.Random
) -> tuple[float, float]:
    """How far apart reports before and after a change are from those of an unchanged value."""
    moved: list[float] = []
    stayed: list[float] = []
    complete = counted = 0
    for _ in range(devices):
        device, value = made(), chance.randrange(SIZE)
        before = device.report(value, 0).scores
        right, changed_once = True, False
        for epoch in range(1, reports):
            changed = chance.random() < CHANGE
            if changed:
                value = (value + chance.randrange(1, SIZE)) % SIZE
            now = device.report(value, epoch).scores
            distance = float(np.abs(now - before).sum())
            (moved if changed else stayed).append(distance)
            right &= (distance > 1e-9) == changed
            changed_once |= changed
            before = now
        counted += changed_once
        complete += right and changed_once
    limits = sorted({*moved, *stayed})
    hit, alarm = np.array(moved), np.array(stayed)
    best = max(float((hit > limit - 1e-9).mean() - (alarm > limit - 1e-9).mean()) for limit in limits)
    return best, complete / max(1, counted)


def attacks(devices: int, reports: int, seed: int, *, with_peers: bool) -> None:
    """Print the table."""
    clients = list(ours())
    try:
        clients += list(peers()) if with_peers else []
    except ImportError as error:
        print(f"\n(no published clients: {error.name} is not installed; pip install '.[bench]')")
    few = max(10, reports // 26)
    print("| client | value found by averaging | change seen | all changes seen | 10 states lost |")
    print("| --- | --- | --- | --- | --- |")
    for label, made in clients:
        chance = random.Random(f"{seed} {label}")
        mean = averaged(made, devices, reports, chance)
        seen, complete = changes(made, devices, few, chance)
        lost = averaged(made, devices, reports, chance, losses=10)
        print(f"| {label} | {mean:.2f} | {seen:.2f} | {complete:.2f} | {lost:.2f} |", flush=True)


def bounds(draws: int) -> None:
    """Print the bounds of a few settings, as one call of ``ldpbeam audit`` that has 100 of them would."""
    print("| setting | draws | exact | lower bound | share |")
    print("| --- | --- | --- | --- | --- |")
    settings: tuple[tuple[str, int, dict[str, Any]], ...] = (
        ("grr", 2, {"epsilon": 2.0}),
        ("oue", 3, {"epsilon": 2.0}),
        ("grr", 2, {"epsilon": 1.0}),
        ("grr", 2, {"epsilon": 0.5}),
    )
    for name, size, levels in settings:
        collection = one_collection(name, size, **levels)
        model = model_of(collection.protocol)
        with TemporaryDirectory() as folder:
            client = PythonClient(collection, Memoised("stored"), Path(folder))
            plan, read = DrawPlan(draws), ReportLog(collection)
            counts = read_histories(Subject(client, collection, model, plan, read))
        found = [one for one in bounds_of(collection.protocol, model, counts) if one.check is Check.BOUND]
        for bound, level in zip(
            found, judge(Evidence(bounds=found), FALSE_ALARM * len(found) / 100)[1], strict=True
        ):
            assert level.holds
            print(
                f"| `{name}`, k = {size}, ε = {levels['epsilon']:g} | {bound.trials:,} | {level.exact:.4f} "
                f"| {level.bound:.4f} | {level.share:.3f} |",
                flush=True,
            )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--devices", type=int, default=100)
    parser.add_argument("--reports", type=int, default=260)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--bounds", type=int, metavar="DRAWS")
    asked = parser.parse_args(arguments)
    if asked.bounds:
        bounds(asked.bounds)
    else:
        attacks(asked.devices, asked.reports, asked.seed, with_peers=not asked.no_peers)
    return 0


if __name__ == "__main__":
    sys.exit(main())
