"""Strings that nobody listed: beside pure-ldp in one run, and ours over a grid of dictionaries.

    python benchmarks/strings.py [--peers] [--grid] [--repeats 5] [--largest 1000000]

Peers: 200 strings of 6 symbols of 4, 10,000 devices, ε = 2, shares as 1/rank^1.1. PEM, SFP and TreeHist are
asked for as many strings as there are above the share of the column, which nobody knows. Seconds of a
processor, from reports in memory to the first found strings. False finds are strings that no device holds.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np

from ldpbeam.collection.collection import Collection
from ldpbeam.collection.file import parse_collection
from ldpbeam.epoch_result import count_support
from ldpbeam.estimates import Estimates
from ldpbeam.hashing.strings import ALPHABETS
from ldpbeam.histogram import estimate_epoch
from ldpbeam.planning.string_plan import StringNeeds, StringPlan
from ldpbeam.simulators.fleet import Fleet

_SYMBOLS, _LENGTH, _DEVICES, _LEVEL = "abcd", 6, 10_000, 2.0
_SHARES = (0.1, 0.05, 0.03)
_SMALL = f"""
name: small
domain: {{strings: {{max_length: {_LENGTH}, symbols: {_SYMBOLS}}}}}
protocol: olh
epsilon: {_LEVEL}
epoch: {{length: 1d}}
"""


def drawn(
    rng: Any, symbols: str, number: int, lengths: tuple[int, int], devices: int
) -> tuple[list[str], dict[str, float]]:
    """What devices hold, and the share of each string: as 1/rank."""
    sizes = rng.integers(lengths[0], lengths[1] + 1, number)
    listed = sorted({"".join(rng.choice(list(symbols), size)) for size in sizes})
    rng.shuffle(listed)
    weights = 1 / np.arange(1, len(listed) + 1) ** 1.1
    held = rng.choice(listed, devices, p=weights / weights.sum()).tolist()
    return held, {word: times / devices for word, times in Counter(held).items()}


def ours(collection: Collection, values: list[str], seed: int) -> tuple[Estimates, float]:
    """What is found, and the seconds that counting and the walk take."""
    columns = Fleet(collection, len(values), seed).report(values, 0)
    started = time.process_time()
    result = estimate_epoch(collection, 0, count_support(collection, [columns]))
    spent, estimates = time.process_time() - started, result.attributes[0].estimates
    assert estimates is not None
    return estimates, spent


def pure_ldp() -> dict[str, Callable[[], tuple[Any, Any]]]:
    """Client and server of each, with the oracle that its authors use: PEM local hashing, the others HCMS."""
    from pure_ldp import heavy_hitters as peer
    from pure_ldp.core import _freq_oracle_server
    from pure_ldp.frequency_oracles.apple_cms import CMSClient, CMSServer

    # A sketch has no domain, and numpy no longer takes None for the shape of a number.
    _freq_oracle_server.np = SimpleNamespace(**vars(np) | {"zeros": lambda d: np.zeros(d or ())})
    place = {symbol: str(i) for i, symbol in enumerate(_SYMBOLS)}
    common = {
        "alphabet": set(_SYMBOLS),
        "index_mapper": lambda x: int("".join(place[one] for one in x), len(place)),
    }

    def made(name: str) -> tuple[Any, Any]:
        lengths = {"max_string_length": _LENGTH, "fragment_length": 2, **common}
        client, server = (getattr(peer, f"{name}{side}") for side in ("Client", "Server"))
        if name == "PEM":
            return client(_LEVEL, 2, _LENGTH, 2, **common), server(_LEVEL, 2, _LENGTH, 2, **common)
        counted = CMSServer(_LEVEL / 2, 128, 1024, is_hadamard=True)
        asked = CMSClient(_LEVEL / 2, counted.get_hash_funcs(), 1024, is_hadamard=True)
        return client(_LEVEL, fo_client=asked, **lengths), server(_LEVEL, fo_server=counted, **lengths)

    return {name: partial(made, name) for name in ("PEM", "SFP", "TreeHist")}


def peers(repeats: int) -> None:
    warnings.simplefilter("ignore")
    collection = parse_collection(_SMALL)
    rows: dict[str, list[list[float]]] = {}
    for seed in range(repeats):
        rng = np.random.default_rng(seed)
        values, shares = drawn(rng, _SYMBOLS, 200, (_LENGTH, _LENGTH), _DEVICES)
        frequent = [{word for word, x in shares.items() if x >= least} for least in _SHARES]
        ours(collection, values, seed)  # compiled before
        estimates, spent = ours(collection, values, seed)
        found = set(estimates.labels or ())
        recall = [len(found & some) / len(some) for some in frequent]
        rows.setdefault("ldpbeam", []).append([*recall, len(found - shares.keys()), spent])
        for name, made in pure_ldp().items():
            client, server = made()
            reports = [client.privatise(value) for value in values]
            started = time.process_time()
            for report in reports:
                server.aggregate(report)
            recall, false, spent = [], 0, 0.0
            for some in frequent:
                got = set(server.find_heavy_hitters(k=len(some))[0])
                recall.append(len(got & some) / len(some))
                false = len(got - shares.keys())
                spent = spent or time.process_time() - started
            rows.setdefault(name, []).append([*recall, false, spent])
    print(
        "| | recall above 10 % | above 5 % | above 3 % | false finds | seconds |\n| --- " + "| --- " * 5 + "|"
    )
    for name, figures in rows.items():
        *recall, false, spent = np.mean(figures, axis=0)
        print(
            f"| {name} | {' | '.join(f'{x:.2f}' for x in recall)} | {false:.1f} | {spent:.3g} |", flush=True
        )


def grid(largest: int) -> None:
    print("| symbols | strings | devices | rounds | planned | recall | found | false | covered | seconds |")
    print("| --- " * 10 + "|")
    every = product((10_000, 100_000, 1_000_000), ("digits", "lower", "hostname"), (1, 30))
    for number, (devices, alphabet, epochs) in enumerate(every, 1):
        if devices > largest:
            break
        rng, size = np.random.default_rng(number), 10 ** (3 + number % 3)
        values, shares = drawn(rng, ALPHABETS[alphabet], size, (4, 16), devices)
        needs = StringNeeds(16, alphabet, devices, epochs, 2.0 * min(epochs, 2))
        plan = StringPlan.of(needs, "x", 86400, 0)
        least, (estimates, spent) = plan.found[0], ours(plan.collection, values, number)
        labels = estimates.labels or ()
        recall = [word in labels for word, share in shares.items() if share >= least]
        limits = zip(labels, *estimates.numbers[2:4], strict=True)
        covered = sum(low <= shares.get(label, 0.0) <= high for label, low, high in limits)
        print(
            f"| {alphabet} | {size:,} | {devices:,} | {min(epochs, 2)} | {100 * least:.3g} % | "
            f"{sum(recall)}/{len(recall)} | {len(labels)} | {len(set(labels) - shares.keys())} | {covered} | "
            f"{spent:.3g} |",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--peers", action="store_true", help="beside pure-ldp alone")
    parser.add_argument("--grid", action="store_true", help="the grid alone")
    parser.add_argument("--repeats", type=int, default=5, help="of the runs beside pure-ldp")
    parser.add_argument("--largest", type=int, default=1_000_000, help="devices of the grid")
    given = parser.parse_args()
    if not given.grid:
        peers(given.repeats)
    if not given.peers:
        grid(given.largest)


if __name__ == "__main__":
    main()
