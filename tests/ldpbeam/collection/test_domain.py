"""Domains: what a raw text means and what a person reads, and every rule about them."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import pytest

from ldpbeam.collection.domain import MAX_DOMAIN, Domain
from ldpbeam.errors import CollectionError


@pytest.mark.parametrize(
    "arguments,said",
    [
        ((1,), "2 to 16777216 values, not 1"),
        ((MAX_DOMAIN + 1,), f"not {MAX_DOMAIN + 1}"),
        ((3, ("a", "b")), "2 labels for a domain of size 3"),
        ((3, ("a", "b", "a")), "labels have 'a' more than once"),
        ((3, None, 0.0), "must end above 0"),
        ((3, None, float("nan")), "must end above 0"),
    ],
)
def test_unsound_domains_are_refused_with_a_remedy(arguments: Any, said: str) -> None:
    with pytest.raises(CollectionError) as caught:
        Domain(*arguments)
    assert said in str(caught.value)
    assert caught.value.code == "E-COLLECTION-VALUE"
    assert caught.value.remedy.endswith(".")


LABELLED = {
    (2_000_000, 2_000_000): {0: "[0, 1)", 1_234_567: "[1234567, 1234568)", 1_999_999: "[1999999, 2000000)"},
    (86400, 32): {0: "[0, 2700)", 31: "[83700, 86400)"},
    (10, 3): {1: "[3.33333, 6.66667)", 2: "[6.66667, 10)"},
    (0.3, 3): {0: "[0, 0.1)", 1: "[0.1, 0.2)", 2: "[0.2, 0.3)"},
    (12_345_679, 3): {0: "[0, 4115226)", 2: "[8230453, 12345679)"},
    (2_469_134, 2): {1: "[1234567, 2469134)"},
    (1e-7, 2): {1: "[5e-8, 1e-7)"},
    (3e20, 3): {1: "[1e+20, 2e+20)"},
}


@pytest.mark.parametrize("range_", LABELLED, ids=str)
def test_buckets_are_named_by_their_exact_edges_where_these_are_short(range_: tuple[float, int]) -> None:
    end, buckets = range_
    domain = Domain(buckets, maximum=float(end))
    assert {value: domain.label(value) for value in LABELLED[range_]} == LABELLED[range_]


@pytest.mark.parametrize("seed", range(4))
def test_no_two_buckets_have_one_name_and_edges_rise(seed: int) -> None:
    draw = random.Random(seed)
    for end in (
        draw.uniform(0, 10) * 10.0 ** draw.randrange(-300, 300),
        float(draw.randrange(1, 10**9)),
        1 / 3,
    ):
        buckets = draw.choice((2, 7, 99, 1000, 65_537, 10**6 - 1, MAX_DOMAIN))
        domain = Domain(buckets, maximum=end)
        begin = draw.randrange(max(1, buckets - 300))
        edges = [domain.edge(value) for value in range(begin, min(begin + 300, buckets) + 1)]
        assert len(set(edges)) == len(edges)
        exact = [Decimal(repr(end)) * value / buckets for value in range(begin, begin + len(edges))]
        assert all(
            abs(Decimal(edge) - at) * buckets * 2 < Decimal(repr(end))
            for edge, at in zip(edges, exact, strict=True)
        )
        assert domain.edge(0) == "0"
