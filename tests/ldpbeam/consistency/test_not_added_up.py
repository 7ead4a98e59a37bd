"""Wherever consistent frequencies are shown, one sentence says that they are not to be added up."""

from __future__ import annotations

import json

import numpy as np
import pytest

from ldpbeam.collection.file import parse_collection
from ldpbeam.consistency import METHODS, NOT_ADDED_UP, UNBIASED, consistent
from ldpbeam.consistency.base import Noise
from ldpbeam.records.collection_record import collection_entry


@pytest.mark.parametrize(
    ("protocol", "method", "said"),
    [
        ("oue", "", True),
        ("oue", "norm_sub", True),
        ("oue", "base_cut", True),
        ("oue", "norm", False),
        ("oue", "none", False),
        ("one_bit_mean", "", False),
    ],
)
def test_run_json_says_it_of_methods_with_a_bias(protocol: str, method: str, said: bool) -> None:
    domain = "{size: 60}" if protocol == "oue" else "{range: {max: 60}}"
    text = f"name: x\ndomain: {domain}\nprotocol: {protocol}\nepsilon: 1.0\nepoch: {{length: 1d}}\n"
    agreed = parse_collection(text + (f"consistency: {method}\n" if method else ""))
    record = json.loads(json.dumps(collection_entry(agreed)))
    assert record["consistency_note"] == (NOT_ADDED_UP if said else None)


@pytest.mark.parametrize("name", METHODS)
def test_it_is_true(name: str) -> None:
    """The rarer half of 40 values, added up, errs by more than 8 standard errors where there is a bias."""
    noise, rounds = Noise(2_000, 0.5, 0.25, False), 100
    shares = np.arange(1, 41) ** 4.0
    held = np.sort(np.random.default_rng(3).multinomial(noise.n, shares / shares.sum()))
    random, errors = np.random.default_rng(4), []
    for _ in range(rounds):
        support = random.binomial(held, noise.own) + random.binomial(noise.n - held, noise.other)
        found = consistent(name, (support / noise.n - noise.other) / noise.gap, noise)
        errors.append(float(np.sum(found[:20] - held[:20] / noise.n)))
    far = abs(np.mean(errors)) / (np.std(errors, ddof=1) / np.sqrt(rounds))
    assert (far < 8) == (name in UNBIASED), far
