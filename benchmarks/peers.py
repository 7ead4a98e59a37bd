"""Speed beside what others publish, in one run: multi-freq-ldpy and pure-ldp.

    python benchmarks/peers.py [--quick] [--repeats 5] [--write]

For the shapes of three published data sets (n, k) and every protocol that a library has as well:

* count: seconds from reports in memory to support counts, reports being checked; and with estimates and both
  intervals. Theirs is their estimator, from the reports that their own clients made;
* fleet: seconds to simulate all devices in their first epoch and in a later one. Theirs keep no memory, so a
  later epoch costs what the first does.

Processor seconds of this process, everything compiled before. In each repetition every side runs once, the
fastest library counts, and the table has the least and the greatest median ratio of the three shapes.
Local hashing is counted on a tenth of the devices: theirs takes seconds, and grows with their number. All
devices are simulated.

``--write`` adds the run to benchmarks/peers.jsonl and puts the table into docs/performance.md.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from ldpbeam.estimates import tie_breakers
from ldpbeam.protocols import FrequencyProtocol, Parameters, protocol
from ldpbeam.simulators.protocol_fleet import ProtocolFleet
from ldpbeam.simulators.random_words import RandomWords

_SHAPES = {"Syn": (10_000, 360), "Adult": (45_222, 96), "DB_MT": (10_336, 1412)}
_PERMANENT, _FIRST = 3.0, 1.8
_LEAST = 0.02
"""Seconds that a measurement takes at least: what is faster is repeated."""

_HERE = Path(__file__).parent
_HISTORY = _HERE / "peers.jsonl"
_PAGE = _HERE.parent / "docs" / "performance.md"
_BEGIN, _END = "<!-- peers: written by benchmarks/peers.py -->", "<!-- end of peers -->"


@dataclass(frozen=True)
class Peer:
    """One library's side of a protocol."""

    library: str
    client: Callable[[int], Any]
    server: Callable[[list[Any]], Any]


def _pure(client: Any, server_of: Callable[[], Any], k: int) -> Peer:
    def estimated(reports: list[Any]) -> list[float]:
        server = server_of()
        for report in reports:
            server.aggregate(report)
        return [server.estimate(v + 1, suppress_warnings=True) for v in range(k)]

    return Peer("pure-ldp", lambda v: client.privatise(v + 1), estimated)


def peers(name: str, k: int) -> list[Peer]:
    """Every library that has the protocol."""
    from multi_freq_ldpy.long_freq_est import L_GRR, L_LH, L_OSUE, L_SUE, dBitFlipPM
    from multi_freq_ldpy.pure_frequency_oracles import GRR, LH, UE
    from pure_ldp.frequency_oracles.direct_encoding import DEClient, DEServer
    from pure_ldp.frequency_oracles.local_hashing import LHClient, LHServer
    from pure_ldp.frequency_oracles.unary_encoding import UEClient, UEServer

    e, both = _FIRST, (_PERMANENT, _FIRST)

    def theirs(
        client: Callable[..., Any], server: Callable[..., Any], *levels: float, flag: Any = None
    ) -> Peer:
        more = () if flag is None else (flag,)
        takes_k = () if "UE" in server.__name__ else (k,)
        return Peer(
            "multi-freq-ldpy",
            lambda v: client(v, k, *levels, *more),
            lambda reports: server(reports, *takes_k, *levels, *more),
        )

    def flip(v: int) -> Any:
        return dBitFlipPM.dBitFlipPM_Client(v, k, k, 1, _PERMANENT)

    flips = Peer("multi-freq-ldpy", flip, lambda r: dBitFlipPM.dBitFlipPM_Aggregator_MI(r, k, 1, _PERMANENT))
    de = _pure(DEClient(e, k), lambda: DEServer(e, k), k)
    sue, oue = (_pure(UEClient(e, k, o), lambda o=o: UEServer(e, k, o), k) for o in (False, True))  # type: ignore[misc]
    lh = _pure(LHClient(e, k, use_olh=True), lambda: LHServer(e, k, use_olh=True), k)
    return {
        "grr": [theirs(GRR.GRR_Client, GRR.GRR_Aggregator_MI, e), de],
        "sue": [theirs(UE.UE_Client, UE.UE_Aggregator_MI, e, flag=False), sue],
        "oue": [theirs(UE.UE_Client, UE.UE_Aggregator_MI, e, flag=True), oue],
        "olh": [theirs(LH.LH_Client, LH.LH_Aggregator_MI, e, flag=True), lh],
        "l_grr": [theirs(L_GRR.L_GRR_Client, L_GRR.L_GRR_Aggregator_MI, *both)],
        "l_sue": [theirs(L_SUE.L_SUE_Client, L_SUE.L_SUE_Aggregator_MI, *both)],
        "l_osue": [theirs(L_OSUE.L_OSUE_Client, L_OSUE.L_OSUE_Aggregator_MI, *both)],
        "loloha": [theirs(L_LH.L_LH_Client, L_LH.L_LH_Aggregator_MI, *both, flag=True)],
        "dbitflip_pm": [flips],
    }[name]


_PROTOCOLS = ("grr", "l_grr", "sue", "oue", "l_sue", "l_osue", "olh", "loloha", "dbitflip_pm")


def built(name: str, k: int) -> FrequencyProtocol[Any]:
    """Ours, at the same levels."""
    if name == "dbitflip_pm":
        levels = Parameters(epsilon_longitudinal=_PERMANENT, d=1)
    elif name in ("grr", "sue", "oue", "olh"):
        levels = Parameters(epsilon=_FIRST)
    else:
        levels = Parameters(epsilon_longitudinal=_PERMANENT, epsilon_first=_FIRST)
    found = protocol(name, k, levels)
    assert isinstance(found, FrequencyProtocol)
    return found


def seconds(work: Callable[[], Any]) -> float:
    """Processor seconds of one call, which is repeated where it is short."""
    calls, started = 0, time.process_time()
    while True:
        work()
        calls += 1
        spent = time.process_time() - started
        if spent >= _LEAST:
            return spent / calls


def measured(name: str, data: str, repeats: int, quick: bool) -> dict[str, Any]:
    """All figures of one protocol on one shape."""
    devices, k = _SHAPES[data]
    devices = devices // 20 if quick else devices
    n = devices // 10 if name in ("olh", "loloha") else devices
    kind = built(name, k)
    values = np.random.default_rng(1).integers(0, k, devices)
    ties = tie_breakers(1, 1, k)
    fleet = ProtocolFleet(kind, devices, RandomWords(1))
    payloads = np.concatenate([batch.payloads for batch in fleet.reports(0, values)])[:n]

    def count() -> Any:
        counts = np.zeros(kind.counter.counts_length, np.int64)
        assert not kind.counter.check(payloads).any()
        kind.counter.add(payloads, counts)
        kind.counter.support_counts(counts)
        return counts

    def whole() -> None:
        kind.estimator.estimate(count(), n, ties)

    def first() -> None:
        for _ in ProtocolFleet(kind, devices, RandomWords(2)).reports(0, values):
            pass

    epochs = iter(range(1, 1 << 30))

    def later() -> None:
        for _ in fleet.reports(next(epochs), values):
            pass

    asked = values.tolist()
    theirs = {}
    for peer in peers(name, k):
        reports = [peer.client(v) for v in asked[:n]]
        theirs[peer.library] = (peer, reports)
    for compiled in (whole, first, later):
        compiled()
    sides: dict[str, list[float]] = {"count": [], "intervals": [], "first": [], "later": []}
    spent: dict[str, dict[str, list[float]]] = {lib: {"server": [], "client": []} for lib in theirs}
    for _ in range(repeats):
        for side, work in (("count", count), ("intervals", whole), ("first", first), ("later", later)):
            sides[side].append(seconds(work))
        for library, (peer, reports) in theirs.items():
            spent[library]["server"].append(seconds(lambda p=peer, r=reports: p.server(r)))  # type: ignore[misc]
            spent[library]["client"].append(seconds(lambda p=peer: [p.client(v) for v in asked]))  # type: ignore[misc]

    def ratios(side: str, part: str) -> dict[str, Any]:
        library = min(spent, key=lambda lib: median(spent[lib][part]))
        each = [other / own for other, own in zip(spent[library][part], sides[side], strict=True)]
        return {
            "seconds": median(sides[side]),
            "library": library,
            "theirs": median(spent[library][part]),
            "ratio": median(each),
            "least": min(each),
            "greatest": max(each),
        }

    found = {side: ratios(side, "server") for side in ("count", "intervals")}
    found |= {side: ratios(side, "client") for side in ("first", "later")}
    return {"protocol": name, "data": data, "n": n, "devices": devices, "k": k, **found}


def _figure(number: float) -> str:
    return f"{number:,.0f}" if number >= 20 else f"{number:.1f}"


def tables(rows: list[dict[str, Any]]) -> list[str]:
    """A row of Markdown for each protocol: the least and the greatest ratio of the data sets."""
    sides = {
        "count": "counting",
        "intervals": "with intervals",
        "first": "first epoch",
        "later": "later epoch",
    }
    lines = [f"| protocol | {' | '.join(sides.values())} |", "| --- " * (1 + len(sides)) + "|"]
    for name in dict.fromkeys(row["protocol"] for row in rows):
        cells = []
        for side in sides:
            ratios = [row[side]["ratio"] for row in rows if row["protocol"] == name]
            cells.append(f"{_figure(min(ratios))} – {_figure(max(ratios))}")
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return lines


def write(record: dict[str, Any], lines: list[str]) -> None:
    """Add the run to the history, and put its tables where the page has the last ones."""
    with _HISTORY.open("a") as history:
        history.write(json.dumps(record, sort_keys=True) + "\n")
    page = _PAGE.read_text()
    before, rest = page.split(_BEGIN)
    _, after = rest.split(_END)
    _PAGE.write_text(before + _BEGIN + "\n\n" + "\n".join(lines).rstrip() + "\n\n" + _END + after)


def main() -> None:
    """Measure, print, and keep the figures if asked."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="a twentieth of the devices")
    parser.add_argument("--only", nargs="*", default=_PROTOCOLS, help="these protocols")
    parser.add_argument("--write", action="store_true", help="keep the figures and write the page's table")
    arguments = parser.parse_args()
    rows = []
    for data in _SHAPES:
        for name in arguments.only:
            print(f"{data} {name} …", file=sys.stderr, flush=True)
            rows.append(measured(name, data, arguments.repeats, arguments.quick))
    lines = tables(rows)
    print("\n".join(lines))
    if arguments.write:
        packages = ("ldpbeam", "multi-freq-ldpy", "pure-ldp", "xxhash", "numpy", "numba")
        record = {
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": platform.machine(),
            "python": platform.python_version(),
            "versions": {name: version(name) for name in packages},
            "repeats": arguments.repeats,
            "quick": arguments.quick,
            "rows": rows,
        }
        write(record, lines)


if __name__ == "__main__":
    main()
