"""A week of devices that memoise, read with a group, a median and a change: Python alone, no files."""

from __future__ import annotations

import numpy as np

import ldpbeam

COLLECTION = """
{name: minutes, domain: {range: {max: 120, buckets: 12}}, protocol: loloha, g: 3, epsilon_longitudinal: 4,
 epsilon_first: 2, epoch: {length: 1d}}
"""


def main() -> None:
    """Print the three answers, each with its 95 % interval and the truth."""
    collection = ldpbeam.parse_collection(COLLECTION)
    draw = np.random.default_rng(1)
    held = draw.exponential(30, size=(2, 5000))  # minutes; more than 120 are in the last bucket
    fleet = ldpbeam.Fleet(collection, devices=5000, seed=7)
    week = [fleet.report(held[day // 4]) for day in range(7)]  # everybody has another value from Friday on
    results = ldpbeam.estimate(collection, week)
    groups = {"an hour or more": range(6, 12)}
    (share,) = ldpbeam.group_shares(collection, results, groups, every=7).to_pylist()
    (median,) = ldpbeam.quantiles(collection, results, [0.5], every=7).to_pylist()
    (change,) = ldpbeam.group_changes(collection, results, groups, range(4), range(4, 7)).to_pylist()
    truth = (held[0] >= 60).mean() * 4 / 7 + (held[1] >= 60).mean() * 3 / 7
    print("an hour or more: {ci_low:.3f} to {ci_high:.3f},".format(**share), f"really {truth:.3f}")
    print("median: {value}, limits {value_low} to {value_high}".format(**median))
    print("change from Friday on: {ci_low:+.3f} to {ci_high:+.3f}".format(**change))


if __name__ == "__main__":
    main()
