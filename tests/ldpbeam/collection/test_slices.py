"""Slices of a collection: what the file may say, and the digest of each combination."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest

from ldpbeam.collection.collection import Collection
from ldpbeam.collection.device_definition import device_definition
from ldpbeam.collection.file import parse_collection
from ldpbeam.collection.record import collection_of, definition
from ldpbeam.collection.slices import NO_SLICES, Slices, parse_slice, slice_digest
from ldpbeam.errors import CollectionError, DeviceError

TEXT = """name: first_screen
domain: {labels: [home, search, feed]}
protocol: grr
epsilon: 1
epoch: {length: 1d}
"""


def sliced(**labels: list[str]) -> Collection:
    return replace(parse_collection(TEXT), slices=Slices.of(labels))


def test_slices_change_neither_digest_nor_message_of_the_base() -> None:
    base, some = parse_collection(TEXT), sliced(channel=["release", "beta"])
    assert some.full_digest == base.full_digest
    assert device_definition(some) == {
        **device_definition(base),
        "slices": [{"name": "channel", "labels": ["release", "beta"]}],
    }
    assert collection_of(definition(some)) == some != base


def test_a_digest_is_that_of_the_labels_whatever_else_is_listed() -> None:
    base = parse_collection(TEXT).full_digest
    some = sliced(channel=["release", "beta"], country=["DE", "é"])
    more = sliced(country=["FR", "é", "DE"], channel=["beta", "release"])
    assert len(some.slice_digests) == 4
    assert some.slice_digests.keys() < more.slice_digests.keys()
    # As docs/wire.md says it, by hand: pairs in the order of the dimensions' names.
    hashed = b"ldpbeam slice 1\0" + base
    for text in (b"channel", b"beta", b"country", "é".encode()):
        hashed += len(text).to_bytes(4, "little") + text
    wanted = int.from_bytes(hashlib.sha256(hashed).digest()[:8], "little")
    assert some.slice_digest((("channel", "beta"), ("country", "é"))) == wanted
    assert more.slice_digest((("country", "é"), ("channel", "beta"))) == wanted
    assert slice_digest(base, ()) == parse_collection(TEXT).digest
    # Neither a border between texts nor a missing dimension makes two slices one.
    pairs = ((("a", "bc"),), (("ab", "c"),), (("a", "b"), ("c", "")), (("c", "d"), ("a", "b")))
    assert len({slice_digest(base, one) for one in pairs}) == 4


def test_results_have_the_whole_each_dimension_and_the_combinations() -> None:
    slices = Slices.of({"channel": ["release", "beta"], "country": ["DE", "FR"]})
    assert len(slices.combinations) == 4
    assert slices.published == (
        (),
        *((("channel", one),) for one in ("release", "beta")),
        *((("country", one),) for one in ("DE", "FR")),
        *slices.combinations,
    )
    assert Slices.of({"arm": ["a", "b"]}).published == ((), (("arm", "a"),), (("arm", "b"),))
    assert NO_SLICES.combinations == NO_SLICES.said == ()


def test_devices_that_do_not_know_of_a_dimension_yet_count_where_they_say_a_label() -> None:
    more = sliced(channel=["release", "beta"], country=["DE", "other"], os=["a"])
    fewer = sliced(country=["other", "DE"], channel=["beta"])
    assert fewer.slice_digests.keys() < more.said_digests.keys()
    assert more.slice_digests.keys() < more.said_digests.keys()
    assert len(more.said_digests) == 3 * 3 * 2 - 1
    old = fewer.slice_digest((("channel", "beta"), ("country", "DE")))
    holding = [one for one, digests in more.published_slices.items() if old in digests]
    assert holding == [(("channel", "beta"),), (("country", "DE"),)]
    assert len(more.published_slices[("channel", "beta"),]) == 3 * 2
    assert [len(more.published_slices[one]) for one in more.slices.combinations] == [1] * 4


def test_the_slice_of_a_device() -> None:
    slices = Slices.of({"channel": ["release", "beta"], "country": ["DE", "other"]})
    given = {"country": "AT", "channel": "beta"}
    assert slices.of_device(given) == (("channel", "beta"), ("country", "other"))
    assert NO_SLICES.of_device(None) == ()
    with pytest.raises(DeviceError, match=r"none of the collection's.*E-DEVICE-SLICE") as caught:
        slices.of_device({**given, "channel": "nightly"})
    assert "nightly" not in str(caught.value)
    for wrong in (None, {}, {"channel": "beta"}, {**given, "os": "mac"}):
        with pytest.raises(DeviceError, match="a label for each of channel, country"):
            slices.of_device(wrong)
    with pytest.raises(DeviceError, match="has no slices"):
        NO_SLICES.of_device(given)


def test_a_slice_of_results_has_one_dimension_or_all() -> None:
    slices = Slices.of({"a": ["1"], "b": ["2"], "c": ["3"]})
    assert slices.chosen({"c": "3", "a": "1", "b": "2"}) == (("a", "1"), ("b", "2"), ("c", "3"))
    assert slices.chosen({"b": "2"}) == (("b", "2"),)
    assert slices.chosen({}) == ()
    for wrong in ({"a": "1", "b": "2"}, {"a": "2"}, {"d": "1"}):
        with pytest.raises(ValueError, match=r"one label of a dimension, or one of each: a=1, b=2, c=3"):
            slices.chosen(wrong)
    assert parse_slice(["a=1=2", "b="]) == {"a": "1=2", "b": ""}
    for bad in (["a"], ["=1"], ["a=1", "a=2"]):
        with pytest.raises(ValueError, match="is no slice such as"):
            parse_slice(bad)


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("slices: {}", 6, "slices has no dimension"),
        ("slices:\n  a: [x]\n  b: []", 8, "slices.b has no label"),
        ("slices:\n  a: [x]\n  b: [y, z, y]", 8, "slices.b has label 'y' more than once"),
        ("slices:\n  a: ['']", 7, "slices.a has an empty label"),
        ('slices:\n  a: ["x\\ny"]', 7, "holds U\\+000A"),
        ("slices:\n  a: [x]\n  a: [y]", 8, "key 'a' is given twice"),
        ("slices:\n  a: [x]\n  A: [y]", 6, "differ in capital letters only"),
        ("slices: {a b: [x]}", 6, "a dimension of slices must be named by"),
        (f"slices: {{a: {list(range(7))}, b: {list(range(143))}}}", 6, "has 1,001 combinations"),
    ],
)
def test_a_file_is_refused_with_its_line(text: str, line: int, why: str) -> None:
    with pytest.raises(CollectionError, match=f"^c.yaml:{line}: .*{why}"):
        parse_collection(TEXT + text, "c.yaml")


def test_tables_of_all_combinations_fit_into_memory() -> None:
    text = TEXT.replace("labels: [home, search, feed]", "size: 4194304") + "slices: {a: [1, 2, 3, 4"
    assert len(parse_collection(text + "]}").slices.combinations) * (1 << 22) == 1 << 24
    many = TEXT.replace("labels: [home, search, feed]", "size: 67109") + f"slices: {{a: {list(range(1000))}}}"
    with pytest.raises(CollectionError, match="1,000 combinations with 67,109 counts each are more"):
        parse_collection(many)
