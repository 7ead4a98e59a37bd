"""Warnings about collections: given where the figures say so, and with the right figures."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ldpbeam.collection.advice import MANY_REPORTS, warnings_about
from ldpbeam.collection.file import load_collection, parse_collection
from ldpbeam.protocols import PROTOCOLS, LocalProtocol
from ldpbeam.protocols.local_hash import LocalHash
from tests.conftest import REPOSITORY
from tests.narrow import frequencies, present

TEXT = "name: a\ndomain: {{size: {size}}}\nprotocol: {protocol}\nepoch: {{length: 1h}}\n{levels}"
TWO = "epsilon_longitudinal: 2\nepsilon_first: 1\n"


def codes(text: str) -> list[str]:
    return [advice.code for advice in warnings_about(parse_collection(text))]


@pytest.mark.parametrize("path", sorted((REPOSITORY / "examples").glob("*.yaml")), ids=lambda p: p.stem)
def test_the_examples_are_free_of_warnings(path: Path) -> None:
    assert warnings_about(load_collection(path)) == ()


@pytest.mark.parametrize(("protocol", "family"), [("olh", "linear"), ("loloha", "affine")])
def test_a_g_far_above_the_optimal_one_is_named_with_its_cost(protocol: str, family: str) -> None:
    levels = (TWO if protocol == "loloha" else "epsilon: 1\n") + f"hash_family: {family}\n"
    text = TEXT.format(size=360, protocol=protocol, levels=levels)
    dear, best = parse_collection(text + "g: 401\n"), parse_collection(text)
    dearest, kind = dear.protocol, best.protocol
    assert isinstance(dearest, LocalHash)
    assert isinstance(kind, LocalHash)
    (advice,) = warnings_about(dear)
    assert advice.code == "W-COLLECTION-G"
    ratio = (float(dearest.estimator.support.floor) / float(kind.estimator.support.floor)) ** 0.5
    assert float(present(re.search(r"are ([\d.e+]+) times", advice.message))[1]) == pytest.approx(
        ratio, rel=0.01
    )
    assert f"optimal {kind.g}" in advice.message
    assert ("cap" in advice.message) == (protocol == "loloha")
    assert "W-COLLECTION-G" in advice.in_file("c.yaml")
    assert codes(text) == codes(text + "g: 2\n") == codes(text + f"g: {kind.g}\n") == []


@pytest.mark.parametrize("protocol", ["olh", "loloha"])
@pytest.mark.thorough
def test_a_g_far_from_the_optimal_number_of_runs_is_named(protocol: str) -> None:
    levels = (TWO if protocol == "loloha" else "epsilon: 1\n") + "hash_family: interval\n"
    text = TEXT.replace("{{size: {size}}}", "{{size: {size}, ordered: true}}").format(
        size=360, protocol=protocol, levels=levels
    )
    (advice,) = warnings_about(parse_collection(text + "g: 64\n"))
    assert advice.code == "W-COLLECTION-G"
    assert "g: 64 is far above the optimal 4" in advice.message
    assert ("cap" in advice.message) == (protocol == "loloha")
    best, dear = (parse_collection(text + more).protocol for more in ("", "g: 64\n"))
    ratio = information(best) / information(dear)
    assert ratio > 1.5**2
    assert float(present(re.search(r"tells 1/([\d.]+) of", advice.message))[1]) == pytest.approx(
        ratio, rel=0.01
    )
    assert codes(text) == codes(text + "g: 3\n") == codes(text + "g: 8\n") == []


def information(built: LocalProtocol[Any]) -> float:
    """Of a report about a uniform value, from the joint law of value and report under every function."""
    k, told = built.domain_size, 0.0
    family, (own, other) = built.family, map(float, built.symbol)  # type: ignore[attr-defined]
    for seed in family.seeds():
        symbols = np.array([family.hash(seed, v) for v in range(k)])
        joint = np.where(symbols[:, None] == np.arange(family.g), own, other) / k
        told += float((joint * np.log(joint * k / joint.sum(axis=0))).sum()) / 64
    return told


def test_a_g_far_below_is_meant_where_it_lowers_the_cap() -> None:
    two = "epsilon_longitudinal: 6\nepsilon_first: 5\nhash_family: affine\ng: 2\n"
    assert codes(TEXT.format(size=360, protocol="loloha", levels=two)) == []
    one = TEXT.format(size=360, protocol="olh", levels="epsilon: 5\nhash_family: affine\ng: 2\n")
    (advice,) = warnings_about(parse_collection(one))
    assert advice.code == "W-COLLECTION-G"
    assert "far below the optimal 149" in advice.message


def cost(text: str) -> str:
    """What the warning about size says; empty without one."""
    found = [a for a in warnings_about(parse_collection(text)) if a.code == "W-COLLECTION-SIZE"]
    return found[0].message if found else ""


@pytest.mark.parametrize(
    ("size", "levels", "said"),
    [
        (150_000, "epsilon: 20\nhash_family: affine\n", ""),
        (1 << 24, "epsilon: 20\nhash_family: affine\n", "9.2 GiB of memory and 20 s"),
        # The table is decided by g: 7^9 less 7 cells where g is 7, 2^21 less 2 where it is 2.
        (1_000_000, "epsilon: 2\ng: 7\n", "1.2 GiB of memory, 0.3 GiB of that for a table of 40,353,600"),
        (1_000_000, "epsilon: 2\ng: 2\n", "0.87 GiB of memory, 0.016 GiB of that for a table of 2,097,150"),
    ],
)
def test_a_large_domain_is_named_with_its_cost(size: int, levels: str, said: str) -> None:
    found = cost(TEXT.format(size=size, protocol="olh", levels=levels))
    assert said in found
    assert bool(found) == bool(said)


def test_a_mean_of_large_numbers_costs_nothing() -> None:
    mean = TEXT.format(size=9, protocol="one_bit_mean", levels="epsilon: 1\n")
    assert codes(mean.replace("size: 9", f"range: {{max: {(1 << 24) - 1}}}")) == []


@pytest.mark.parametrize("name", ["grr", "l_osue", "dbitflip"])
@pytest.mark.parametrize("size", [360, 30_000])
def test_an_error_above_1_over_k_for_a_billion_reports_is_named(name: str, size: int) -> None:
    """The number of reports is where V*/n equals 1/k², by the protocol's own variance."""
    values = {"epsilon": 1, "epsilon_longitudinal": 2, "epsilon_first": 1, "d": 2}
    levels = "".join(f"{key}: {values[key]}\n" for key in PROTOCOLS[name].PARAMETERS)
    collection = parse_collection(TEXT.format(size=size, protocol=name, levels=levels))
    support = frequencies(collection.protocol).estimator.support
    needed = float(support.floor) / float(support.sampled) * size**2
    found = [a for a in warnings_about(collection) if a.code == "W-COLLECTION-ERROR"]
    assert bool(found) == (needed > MANY_REPORTS)
    for advice in found:
        stated = float(present(re.search(r"fewer than ([\d.e+]+) reports", advice.message))[1])
        assert stated == pytest.approx(needed, rel=0.06)


def test_attributes_are_looked_at_one_by_one() -> None:
    text = (
        "name: a\nattributes: [{name: small, domain: {size: 9}}, {name: vast, domain: {size: 1000000}}]\n"
        f"allocation: sample\nprotocol: loloha\nepoch: {{length: 1h}}\n{TWO}"
    )
    found = warnings_about(parse_collection(text))
    assert [a.code for a in found] == ["W-COLLECTION-SIZE", "W-COLLECTION-ERROR"]
    assert all("attribute vast" in a.message for a in found)
    (advice,) = warnings_about(parse_collection(text.replace("1000000", "90") + "g: 211\n"))[:1]
    assert advice.code == "W-COLLECTION-G"
    assert "attribute small" in advice.message
