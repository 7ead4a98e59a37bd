"""Domains with an order: which collections need one, and values that may be far more frequent than others."""

from __future__ import annotations

import json

import pytest

import ldpbeam
from ldpbeam.collection.record import collection_of, definition
from ldpbeam.errors import CollectionError
from ldpbeam.planning.collection_check import change
from tests.narrow import present

RANGE = "{range: {max: 1440, buckets: 360}, atoms: [480, 0]}"


def text(domain: str, more: str = "hash_family: interval") -> str:
    return (
        f"name: a\nprotocol: loloha\nepsilon_longitudinal: 2\nepsilon_first: 1\n{more}\n"
        f"epoch: {{length: 1d}}\ndomain: {domain}\n"
    )


@pytest.mark.parametrize(
    ("domain", "places"),
    [
        (RANGE, (0, 120)),
        ("{range: {max: 1440, buckets: 360}, atoms: [1440, 3.99, 4]}", (0, 1, 359)),
        ("{range: {max: 10, buckets: 11}, atoms: [7]}", (7,)),
        ("{size: 9, ordered: true, atoms: [8, 0]}", (0, 8)),
        ("{labels: [low, 1.0, high], ordered: true, atoms: [1.0]}", (1,)),
        ("{range: {max: 1440, buckets: 360}, atoms: {every: 360}}", (90, 180, 270)),
        ("{range: {max: 1, buckets: 8}, atoms: {every: 0.3}}", (2, 4)),
        ("{size: 9, ordered: true, atoms: {every: 2}}", (2, 4, 6)),
        ("{size: 9, ordered: true}", ()),
    ],
)
def test_atoms_are_written_as_values(domain: str, places: tuple[int, ...]) -> None:
    agreed = ldpbeam.parse_collection(text(domain))
    found = present(agreed.domain)
    assert found.atoms == places
    again = collection_of(json.loads(json.dumps(definition(agreed))))
    assert present(again.domain).atoms == places
    without = ldpbeam.parse_collection(text(domain.replace(", atoms", "}  #")))
    assert (without.digest, without) == (agreed.digest, agreed)
    assert present(without.domain).atoms == ()
    assert agreed.ignored == ()
    differs = change(without, agreed)
    assert differs.devices == ()
    named = ", ".join(repr(found.label(place)) for place in sorted(places))
    assert differs.server == ((f"atoms: added {named}",) if places else ())


@pytest.mark.parametrize(
    ("domain", "line", "why"),
    [
        ("{size: 9, atoms: [1]}", 7, "and these have none"),
        ("{range: {max: 1440, buckets: 360}, atoms: [480, 481]}", 7, "atoms must be different values"),
        ("{range: {max: 1440, buckets: 360}, atoms: [1441]}", 7, "has 1441, outside the range, 0 .. 1440"),
        ("{range: {max: 1440, buckets: 360}, atoms: [noon]}", 7, "atoms has noon, no number"),
        ("{size: 9, ordered: true, atoms: {every: 1.5}}", 7, "no such multiples"),
        ("{size: 9, ordered: true, atoms: {every: 1}}", 7, "names more than half of the values"),
        ("{size: 9, ordered: true, atoms: {every: 9}}", 7, "names no value"),
        ("{labels: [a, b], ordered: true, atoms: [c]}", 7, "atoms has c, none of the labels"),
        ("\n  size: 9\n  ordered: true\n  atoms: [1, 1]", 10, "atoms must be different values"),
        ("{size: 9}", 5, "hash_family interval .* no order"),
    ],
)
def test_what_is_no_atom_or_has_no_order_is_refused(domain: str, line: int, why: str) -> None:
    with pytest.raises(CollectionError, match=why) as caught:
        ldpbeam.parse_collection(text(domain), "c.yaml")
    said = str(caught.value)
    assert said.startswith(f"c.yaml:{line}: ")
    assert "\n" not in said
    assert said.endswith("[E-COLLECTION-VALUE]")


def test_a_mean_has_no_atoms() -> None:
    domain, rest = "{range: {max: 4}, atoms: [0]}", "protocol: one_bit_mean\nepsilon: 1\nepoch: {length: 1d}"
    mean = f"name: a\ndomain: {domain}\n{rest}"
    with pytest.raises(CollectionError, match="atoms is for frequencies and distributions"):
        ldpbeam.parse_collection(mean)


@pytest.mark.parametrize("more", ["hash_family: linear", ""])
def test_other_families_ignore_atoms_and_say_so(more: str) -> None:
    assert ldpbeam.parse_collection(text(RANGE, more)).ignored == ("atoms",)


def test_attributes_have_orders_and_atoms_of_their_own() -> None:
    several = (
        "name: a\nprotocol: loloha\nepsilon_longitudinal: 2\nepsilon_first: 1\nhash_family: interval\n"
        "epoch: {length: 1d}\nallocation: sample\nattributes:\n"
        "  - {name: age, domain: {size: 99, ordered: true, atoms: [18]}}\n  - {name: place, domain: "
    )
    with pytest.raises(CollectionError, match="those of attribute place have no order") as caught:
        ldpbeam.parse_collection(several + "{size: 8}}", "c.yaml")
    assert str(caught.value).startswith("c.yaml:5: ")
    agreed = ldpbeam.parse_collection(several + "{size: 8, ordered: true}}")
    assert [one.domain.atoms for one in agreed.attributes] == [(18,), ()]
    plain = several.replace("interval", "linear") + "{size: 8}}"
    assert ldpbeam.parse_collection(plain).ignored == ("atoms",)


@pytest.mark.parametrize("atoms", [["1"], [9], [2, 1]])
def test_atoms_of_a_damaged_record_are_refused(atoms: object) -> None:
    record = definition(ldpbeam.parse_collection(text("{size: 9, ordered: true}")))
    record["domain"]["atoms"] = atoms
    with pytest.raises(CollectionError):
        collection_of(record)
