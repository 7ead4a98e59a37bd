"""Shares of groups of values over several versions of an app, each of which has a collection of its own."""

from __future__ import annotations

import argparse
from pathlib import Path

import ldpbeam
from ldpbeam.sums import read_groups


def main() -> None:
    """Print the shares of each version and of all devices, with 95 % intervals."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("groups", type=Path, help="CSV, as for ldpbeam export --group")
    parser.add_argument("versions", nargs="+", help="COLLECTION=RESULTS, such as screen-5.0.yaml=counted-5.0")
    asked = parser.parse_args()

    tables = []
    for version in asked.versions:
        file, _, results = version.partition("=")
        collection = ldpbeam.load_collection(file)
        ((_, domain),) = collection.histograms
        groups = read_groups(asked.groups, domain)
        # The mean of a month is as certain as devices that repeat themselves let it be.
        table = ldpbeam.group_shares(collection, ldpbeam.read(results), groups, every="month")
        show(collection.name, table.to_pylist())
        tables.append(table)
    show("all devices", ldpbeam.pooled(tables).to_pylist())


def show(name: str, rows: list[dict[str, float]]) -> None:
    """One line per group."""
    for row in rows:
        half = row["ci_high"] - row["estimate"]
        print(f"{name:12} {row['group']:8} {row['estimate']:.4f} ± {half:.4f} ({row['n']:,} reports)")


if __name__ == "__main__":
    main()
