"""Stages 2 and 3 of 5 for unbounded input: one report per report id, and counts, while an epoch is open.

A shard of an epoch (:mod:`~ldpbeam.transforms.stateful.count_shard`) keeps its reports in state until the
epoch closes, and counts them whenever a result is due; only counts travel on. A second step
(:mod:`~ldpbeam.transforms.stateful.sum_shards`) adds the shards up and publishes.

Both live in the global window, where no runner drops anything: whether a report is late was decided when it
was admitted, from its arrival time, and what little the watermark closes too early is counted as late here.
The runner's watermark only decides when a result is published.
"""
