"""How fast reports are checked and counted beside how fast the same core reads memory.

    python benchmarks/bandwidth.py [--repeats R] [--megabytes M] [--protocols NAME ...]

For each protocol and number of values, M megabytes of random sound reports: gigabytes per second of counting,
of the check, and of both in pieces of 4 MiB, as a run has them, with what shows forged reports. Shares are of
the bandwidth of a loop over 8-byte words, measured in turn. Medians of processor time. Prints a table as
Markdown.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.peers import seconds
from ldpbeam.arrays import Bytes
from ldpbeam.kernels.jit import kernel
from ldpbeam.protocols import LocalProtocol, Parameters, protocol
from ldpbeam.simulators.protocol_fleet import ProtocolFleet
from ldpbeam.simulators.random_words import RandomWords

_PIECE = 4 << 20
_DEVICES = 1 << 14
_TWO_ROUNDS: dict[str, Any] = {"epsilon_longitudinal": 2.0, "epsilon_first": 1.0}
_SETTINGS: list[tuple[str, Parameters, tuple[int, ...]]] = [
    ("oue", Parameters(epsilon=1.0), (96, 256, 360, 1024, 1412, 4096, 16384)),
    ("grr", Parameters(epsilon=1.0), (96, 360, 1412)),
    ("dbitflip_pm", Parameters(epsilon_longitudinal=3.0, d=1), (360,)),
    ("dbitflip_pm", Parameters(epsilon_longitudinal=3.0, d=16), (360,)),
    ("loloha", Parameters(hash_family="linear", **_TWO_ROUNDS), (64, 360, 1024)),
    ("loloha", Parameters(hash_family="interval", **_TWO_ROUNDS), (64, 360, 1024)),
]


@kernel
def read(words: Any) -> Any:
    """Look at each word."""
    found = words[0]
    for i in range(words.size):
        found ^= words[i]
    return found


def reports_of(kind: LocalProtocol[Any], size: int) -> Bytes:
    """About so many bytes: what a fleet sends, over and over."""
    n = min(_DEVICES, max(16, size // kind.device.payload_size))
    values = np.random.default_rng(1).integers(0, kind.domain_size, n)
    sent = np.concatenate([b.payloads for b in ProtocolFleet(kind, n, RandomWords(1)).reports(0, values)])
    return np.tile(sent, (max(1, size // sent.nbytes), 1))


def row(name: str, parameters: Parameters, k: int, size: int, repeats: int) -> str:
    """One line of the table."""
    kind = protocol(name, k, parameters)
    payloads = reports_of(kind, size)
    counts = np.zeros(kind.counter.counts_length, np.int64)
    piece = _PIECE // kind.device.payload_size
    words = payloads.reshape(-1)[: payloads.nbytes // 8 * 8].view(np.uint64)

    signs = np.zeros(kind.counter.signs_length, np.int64)

    def both() -> None:
        for begin in range(0, len(payloads), piece):
            some = payloads[begin : begin + piece]
            assert not kind.counter.check(some).any()
            kind.counter.add_reports(some, counts, signs)

    work: tuple[Callable[[], object], ...] = (
        lambda: read(words),
        lambda: kind.counter.add(payloads, counts),
        lambda: kind.counter.check(payloads),
        both,
    )
    for one in work:
        one()
    times = zip(*([seconds(one) for one in work] for _ in range(repeats)), strict=True)
    reading, counting, checking, together = (payloads.nbytes / median(each) / 1e9 for each in times)
    more = f", d = {parameters.d}" if parameters.d else ""
    more += f", {parameters.hash_family}" if parameters.hash_family else ""
    return (
        f"| `{name}`{more} | {k:,} | {kind.device.payload_size} | {reading:.0f} | {counting:.1f} "
        f"| **{counting / reading:.2f}** | {checking:.1f} | {together:.1f} | **{together / reading:.2f}** "
        f"| {counting / kind.device.payload_size:.2f} |"
    )


def lines(size: int, repeats: int, names: list[str]) -> Iterator[str]:
    """The table."""
    yield (
        "| protocol | k | bytes a report | reading, GB/s | counting, GB/s | of reading | check, GB/s "
        "| both in pieces, GB/s | of reading | 10⁹ reports counted a second |"
    )
    yield "| --- " * 10 + "|"
    for name, parameters, sizes in _SETTINGS:
        for k in sizes if name in names else ():
            yield row(name, parameters, k, size, repeats)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--megabytes", type=int, default=400)
    names = list(dict.fromkeys(name for name, _, _ in _SETTINGS))
    parser.add_argument("--protocols", nargs="+", choices=names, default=names, metavar="NAME")
    asked = parser.parse_args()
    for line in lines(asked.megabytes * 1_000_000, asked.repeats, asked.protocols):
        print(line, flush=True)


if __name__ == "__main__":
    main()
