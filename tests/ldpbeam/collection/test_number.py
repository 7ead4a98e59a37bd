"""Numbers of collection files: what every version of YAML says they are, or a refusal."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from ldpbeam.collection.collection import Collection
from ldpbeam.collection.file import parse_collection
from ldpbeam.errors import CollectionError
from tests.narrow import present
from tests.reference.yaml_numbers import yaml_1_1, yaml_1_2

BASE = "name: a\nprotocol: {protocol}\nepoch: {epoch}\ndomain: {domain}\n{more}"


def text_of(**given: str) -> str:
    plain = {"protocol": "grr", "epoch": "{length: 1d}", "domain": "{size: 4}", "more": "epsilon: 1\n"}
    return BASE.format(**{**plain, **given})


LOLOHA = "epsilon_longitudinal: 2\nepsilon_first: 1\nhash_family: affine\n"
MEAN = {"protocol": "one_bit_rrpm", "domain": "{range: {max: 360}}"}
INTEGERS: dict[str, tuple[Callable[[str], str], Callable[[Collection], Any], int, int]] = {
    "size": (lambda t: text_of(domain=f"{{size: {t}}}"), lambda c: present(c.domain).size, 2, 9999),
    "max": (lambda t: text_of(protocol="one_bit_mean", domain=f"{{range: {{max: {t}}}}}"),
            lambda c: int(present(present(c.domain).maximum)), 1, 9999),
    "version": (lambda t: text_of(more=f"epsilon: 1\nversion: {t}\n"), lambda c: c.version, 1, 9999),
    "count": (lambda t: text_of(epoch=f"{{length: 1d, count: {t}}}"), lambda c: c.epochs.count, 1, 9999),
    "g": (lambda t: text_of(protocol="loloha", more=f"{LOLOHA}g: {t}\n"), lambda c: c.parameters.g, 2, 9999),
    "reports": (lambda t: text_of(more=f"epsilon: 1\nparticipation: {{reports: {t}, of: 9999}}\n"),
                lambda c: present(c.participation).reports, 1, 9999),
}  # fmt: skip
NUMBERS: dict[str, tuple[Callable[[str], str], Callable[[Collection], Any], int, int]] = {
    "epsilon": (lambda t: text_of(more=f"epsilon: {t}\n"), lambda c: c.parameters.epsilon, 1, 32),
    "max": (lambda t: text_of(domain=f"{{range: {{max: {t}, buckets: 3}}}}"),
            lambda c: present(c.domain).maximum, 1, 9999),
    "p2": (lambda t: text_of(protocol="rappor", more=f"epsilon_longitudinal: 2\nq2: 0.0001\np2: {t}\n"),
           lambda c: c.parameters.p2, 0, 0),
}  # fmt: skip


def spellings(number: int, draw: random.Random) -> list[str]:
    """An integer as people, programs and other versions of YAML write it, and what only looks like one."""
    n, hour, minute, fresh = (
        number,
        number // 60,
        number % 60,
        draw.randrange(10**6) / 10 ** draw.randrange(1, 7),
    )
    texts = f"{n} +{n} 0{n} 00{n} {n}.0 {n}. -{n} 0o{n:o} 0{n:o} {n:#x} {n:#b} {n}e0 {n}E+0"
    texts += f" {hour}:{minute:02} {n}_ _{n} {n // 10}_{n % 10} {n},0 {n}e 0_{n} . +"
    texts += f" {fresh!r} {fresh:.3e} 0{fresh} {n}_0.5 0:{minute:02}.5 .{n}"
    return [
        *f"{texts} {n}:01.5 1:{minute:02}:30 0x{n:X}g 1e-{n % 7} +.{n}e1 {hour}:{minute}".split(),
        f"{n} 0",
    ]


@pytest.mark.parametrize("field", INTEGERS)
def test_an_integer_is_what_every_version_reads_or_it_is_refused(field: str) -> None:
    """28 to 40 spellings of each of several numbers, for each key."""
    make, get, low, high = INTEGERS[field]
    draw = random.Random(field)
    read = refused = 0
    for number in (draw.randint(low, high) for _ in range(2)):
        for text in spellings(number, draw):
            old, new = yaml_1_1(text), yaml_1_2(text)
            try:
                found = get(parse_collection(make(text), "f.yaml"))
            except CollectionError as error:
                refused += 1
                assert "f.yaml:" in str(error)
                canonical = text.isdigit() and text[0] != "0"
                sound = canonical and low <= int(text) <= high and field not in ("g", "segment")
                assert not sound, text
                if not canonical and error.code == "E-COLLECTION-VALUE" and "must lie" not in error.message:
                    assert f"not {text}" in error.message, text
            else:
                read += 1
                assert new is not None, text
                assert found == new == int(new), text
                assert old in (None, new), text
    assert read >= 1
    assert refused >= 32


@pytest.mark.parametrize("field", NUMBERS)
def test_a_number_is_what_every_version_reads_or_it_is_refused(field: str) -> None:
    """Of those that are read, the float nearest to what YAML 1.2 says; JSON's numbers are all read."""
    make, get, low, high = NUMBERS[field]
    draw = random.Random(field)
    read = refused = 0
    for number in (draw.randint(low, high) for _ in range(2)):
        small = draw.randrange(1, 4000) / 10_000
        for text in (*spellings(number, draw), repr(small), f"{small:.4e}", f"{small:E}", json.dumps(small)):
            old, new = yaml_1_1(text), yaml_1_2(text)
            try:
                found = get(parse_collection(make(text), "f.yaml"))
            except CollectionError as error:
                refused += 1
                assert "f.yaml:" in str(error)
                if "must be a number" in error.message and "must be a number in" not in error.message:
                    assert f"not {text}" in error.message, text
                    assert old != new or text.lstrip("+-")[:1] == "0" or new is None, text
            else:
                read += 1
                assert new is not None, text
                assert found == float(new), text
                assert old in (None, new), text
    assert read >= 6
    assert refused >= 14


@pytest.mark.parametrize("seed", range(4))
def test_what_a_json_library_writes_is_read_as_it_is(seed: int) -> None:
    """Eight ways to print each; labels of every plane, levels down to 1e-6."""
    draw = random.Random(seed)
    planes = (
        "abcXYZ '\"\\/{}[]:,#&*!|>%@`~-",
        "äßçéø\u05d0\u0627\u200f\u200d\u00ad",
        "\U0001f600\U0001fae9\u4e2d",
    )
    labels = {
        "".join(draw.choice(draw.choice(planes)) for _ in range(draw.randrange(1, 9))) for _ in range(6)
    } | {"no", "1.0"}
    content = {
        "name": "a",
        "version": draw.randrange(1, 1 << 32),
        "owner": draw.choice(planes),
        "domain": {"labels": sorted(labels), "other": "no", "ordered": bool(seed % 2)},
        "protocol": "olh",
        "epsilon": draw.choice((5e-05, 1e-06, 1.0, 32, draw.random())),
        "epoch": {"length": "1d", "count": draw.randrange(1, 2000)},
    }
    for ascii_only in (True, False):
        for indent in (None, 2, "\t", " \t"):
            separators = (",", ":") if seed % 3 == 0 and indent is None else None
            text = json.dumps(content, ensure_ascii=ascii_only, indent=indent, separators=separators)
            found = parse_collection(draw.choice(("", "\ufeff", "\n")) + text)
            assert found.domain is not None
            assert found.domain.labels == tuple(sorted(labels))
            assert found.domain.other == found.domain.labels.index("no")
            assert (found.parameters.epsilon, found.version) == (content["epsilon"], content["version"])
            assert (found.owner, found.domain.ordered) == (content["owner"], bool(seed % 2))
