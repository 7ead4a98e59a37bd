"""Collection files: every rule with its text, and a digest that moves exactly when devices must
know.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ldpbeam.collection.collection import Collection
from ldpbeam.collection.file import load_collection, parse_collection
from ldpbeam.errors import CollectionError
from ldpbeam.protocols import PROTOCOLS
from tests.conftest import REPOSITORY
from tests.narrow import present
from tests.reference.settings import LEVELS

EXAMPLE = REPOSITORY / "examples" / "minutes_in_app.yaml"
TEXT = EXAMPLE.read_text("utf-8")


def replaced(key: str, line: str) -> str:
    """The example with the line of one key replaced (or dropped)."""
    put = line + "\n" if line else ""
    new = re.sub(rf"^{key}:.*\n", lambda _: put, TEXT, flags=re.MULTILINE)
    assert new != TEXT
    return new


def line_of(key: str, text: str) -> int:
    return next(i for i, line in enumerate(text.splitlines(), 1) if line.startswith(key))


def test_the_example_means_what_it_says() -> None:
    found = load_collection(EXAMPLE)
    assert (found.name, found.version, found.owner) == (
        "minutes_in_app",
        1,
        "telemetry@example.com",
    )
    assert present(found.domain).size == 360
    assert found.protocol_name == found.protocol.NAME == "loloha"
    assert found.parameters.epsilon_longitudinal == 2.0
    assert found.parameters.epsilon_first == 1.0
    assert found.parameters.g is None
    assert (found.epochs.length, found.epochs.origin) == (21600, 1767225600)
    assert found.allowed_lateness == 86400
    assert found.consistency == "norm_sub"
    assert found.min_reports == 1000


def test_the_digest_of_the_example_never_changes() -> None:
    assert load_collection(EXAMPLE).digest_hex == "d763b721438b2148"
    assert load_collection(EXAMPLE).digest == int.from_bytes(bytes.fromhex("d763b721438b2148"), "little")


SERVER_ONLY = {
    "owner": "owner: someone.else@example.com",
    "allowed_lateness": "allowed_lateness: 1h",
    "consistency": "consistency: none",
    "min_reports": "min_reports: 5",
}


@pytest.mark.parametrize("key", sorted(SERVER_ONLY))
def test_server_only_fields_do_not_move_the_digest(key: str) -> None:
    assert parse_collection(replaced(key, SERVER_ONLY[key])).digest == parse_collection(TEXT).digest
    assert parse_collection(replaced(key, "")).digest == parse_collection(TEXT).digest
    assert parse_collection(replaced(key, SERVER_ONLY[key])) != parse_collection(TEXT)


DEVICE_FACING = {
    "name": ["name: other"],
    "version": ["version: 2"],
    "domain": ["domain: {size: 361}", "domain: {range: {max: 360, buckets: 360}}"],
    "protocol": [
        "protocol: l_grr\n#",
        "protocol: l_sue\n#",
        "protocol: l_osue\n#",
        "protocol: l_oue\n#",
        "protocol: l_soue\n#",
    ],
    "epsilon_longitudinal": ["epsilon_longitudinal: 2.0000000001"],
    "epsilon_first": ["epsilon_first: 0.9999999999"],
    "g": ["g: 2", "g: 5"],
    "calibration": ["calibration: published"],
    "hash_family": ["hash_family: affine"],
    "epoch": [
        "epoch: {length: 5h, origin: 2026-01-01T00:00:00Z}",
        "epoch: {length: 6h, origin: 2026-01-01T00:00:01Z}",
        "epoch: {length: 6h, origin: 2026-01-01T00:00:00Z, count: 7}",
    ],
}


def test_every_device_facing_field_moves_the_digest() -> None:
    digests = {parse_collection(TEXT).digest: "example"}
    for key, lines in DEVICE_FACING.items():
        for line in lines:
            digest = parse_collection(replaced(key, line)).digest
            assert digest not in digests, (line, digests[digest])
            digests[digest] = line


def test_labels_are_part_of_the_digest() -> None:
    digests = {
        parse_collection(replaced("domain", f"domain: {text}")).digest
        for text in (
            "{size: 3}",
            "{labels: [a, b, c]}",
            "{labels: [b, a, c]}",
            "{labels: [a, b, d]}",
            "{labels: [a, b, c], other: a}",
            "{labels: [a, b, c], other: c}",
        )
    }
    assert len(digests) == 6


def test_the_same_collection_written_differently_has_the_same_digest() -> None:
    lines = [line for line in TEXT.splitlines() if not line.startswith("#")]
    other = "\n".join(reversed(lines)) + "\n# end\n"
    other = other.replace("6h", "360m").replace("g: optimal", "g: 3").replace("loloha", "'loloha'")
    other = other.replace("2026-01-01T00:00:00Z", '"2026-01-01T01:00:00+01:00"')
    assert parse_collection(other).digest == parse_collection(TEXT).digest


# Every rule: (key, new line, code, what the text says, what the remedy says)
RULES = [
    ("name", "", "KEY", "key 'name' is missing", "name: minutes_in_app"),
    ("protocol", "", "KEY", "key 'protocol' is missing", "protocol: loloha"),
    ("epsilon_first", "", "KEY", "key 'epsilon_first' is missing", "epsilon_first: 1.0"),
    ("owner", "ownr: me", "KEY", "unknown key 'ownr'", "Did you mean owner?"),
    ("owner", "[a, b]: me", "KEY", "unknown key", "Known keys"),
    ("owner", "name: again", "KEY", "'name' is given twice", "first stands at f.yaml:2"),
    ("owner", "owner: 5", "VALUE", "owner must be text", "owner: '...'"),
    ("name", "name: 5", "VALUE", "name must be text", "name: '...'"),
    ("name", "name: a/b", "VALUE", "1 to 100 letters", "minutes_in_app"),
    ("version", "version: 0", "VALUE", "version must lie in 1 ..", "range"),
    ("min_reports", "min_reports: 010", "VALUE", "decimal digits, not 010", "min_reports: 1"),
    ("version", "version: " + "9" * 5000, "VALUE", "not 9999", "version: 1"),
    ("version", "version: one", "VALUE", "version must be an integer", "version: 1"),
    ("protocol", "protocol: lolha", "VALUE", "no such choice", "Did you mean loloha?"),
    ("epsilon_first", "epsilon_first: much", "VALUE", "must be a number", "1.0"),
    ("epsilon_first", "epsilon_first: .inf", "VALUE", "must be finite", "1.0"),
    ("epsilon_first", "epsilon_first: -1", "VALUE", "0.000001 .. 32", "epsilon_first"),
    ("epsilon_first", "epsilon_first: 2.0", "VALUE", "not below", "Lower epsilon_first"),
    ("g", "g: best", "VALUE", "must be 'optimal' or an integer", "g: 2"),
    ("g", "g: 1", "VALUE", "g must lie in 2 .. 65536", "range"),
    ("g", "g: 4", "VALUE", "g = 4 is not a prime", "Use g: 5"),
    ("g", "g: 65521", "VALUE", "stops at 2**28", "smaller prime g"),
    ("epoch", "epoch: 6h", "VALUE", "epoch must be a mapping", "epoch: {...}"),
    ("epoch", "epoch: {origin: 2026-01-01T00:00:00Z}", "KEY", "'length'", "length: 6h"),
    ("epoch", "epoch: {length: 6h, origin: 2026-01-01}", "VALUE", "time zone", "Correct"),
    ("epoch", "epoch: {length: 6h, count: 0}", "VALUE", "count must lie in 1", "range"),
    ("allowed_lateness", "allowed_lateness: 5", "VALUE", "without a unit", "Correct"),
    ("allowed_lateness", "allowed_lateness: 9999999w", "VALUE", "must lie in", "24h"),
    ("domain", "domain: 360", "VALUE", "domain must be a mapping", "domain: {...}"),
    ("domain", "domain: {size: 3, labels: [a, b, c]}", "VALUE", "exactly one", "labels"),
    ("domain", "domain: {size: 1}", "VALUE", "size must lie in 2", "range"),
    ("domain", "domain: {labels: abc}", "VALUE", "must be a list of texts", "[yes, no]"),
    ("domain", "domain: {labels: [a, b], other: c}", "VALUE", "other is none of the labels", "Add it"),
    ("domain", "domain: {size: 3, other: a}", "VALUE", "other is for labels", "list labels"),
    ("domain", "domain: {range: {max: 5}}", "KEY", "'buckets' is missing", "32"),
    ("domain", "domain: {sise: 5}", "KEY", "unknown key 'sise' in domain", "mean size?"),
]


@pytest.mark.parametrize("key,line,code,said,remedy", RULES)
def test_every_rule_names_line_key_and_remedy(key: str, line: str, code: str, said: str, remedy: str) -> None:
    text = replaced(key, line)
    with pytest.raises(CollectionError) as caught:
        parse_collection(text, "f.yaml")
    error = caught.value
    code = f"E-COLLECTION-{code}"
    assert error.code == code
    assert said in error.message
    assert remedy in error.remedy
    one_line = str(error)
    assert "\n" not in one_line
    assert one_line.endswith(f"[{code}]")
    if line:
        assert error.where == f"f.yaml:{line_of(line[:10], text)}"
    else:
        assert error.where == "f.yaml"
    assert error.exit_code == 3


@pytest.mark.parametrize(
    "text,said,where",
    [
        ("", "the file is empty", "f.yaml"),
        ("a: 1\nb: {\n", "not YAML", "f.yaml:3"),
        ("a: &x 1\nb: *x\n", "an alias stands for a value", "f.yaml:2"),
        ('a: "\\UFFFFFFFF"', "not YAML", "f.yaml"),
        ("a: " + "[" * 1200, "not YAML", "f.yaml"),
        ("a: 1\nb: \x1b[2J", "U+001B may not stand in YAML", "f.yaml:2"),
        ("a: 1\n\nb: x\u2028y", "U+2028 ends a line in one version", "f.yaml:3"),
        ("- a\n", "must be a mapping", "f.yaml:1"),
    ],
)
def test_what_is_not_a_mapping_in_yaml_is_refused(text: str, said: str, where: str) -> None:
    with pytest.raises(CollectionError) as caught:
        parse_collection(text, "f.yaml")
    assert said in caught.value.message
    assert caught.value.where == where


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    """Missing, a directory, or not UTF-8: the path is named and no traceback shows."""
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"name: \xff\xfe")
    for path in (tmp_path / "absent.yaml", tmp_path, binary):
        with pytest.raises(CollectionError) as caught:
            load_collection(path)
        assert caught.value.code == "E-COLLECTION-FILE"
        assert str(path) in str(caught.value)


def minimal(name: str) -> str:
    values = {**LEVELS, "d": 2}
    levels = "".join(f"{n}: {values[n]}\n" for n in PROTOCOLS[name].PARAMETERS)
    return f"name: a\ndomain: {{size: 9}}\nprotocol: {name}\nepoch: {{length: 1h}}\n{levels}"


@pytest.mark.parametrize("name", list(PROTOCOLS))
def test_levels_that_do_not_apply_are_refused(name: str) -> None:
    assert name == parse_collection(minimal(name)).protocol.NAME
    for level in LEVELS:
        if level in PROTOCOLS[name].PARAMETERS:
            text = re.sub(rf"^{level}:.*\n", "", minimal(name), flags=re.MULTILINE)
            code = "E-COLLECTION-KEY"
        else:
            text = minimal(name) + f"{level}: 0.5\n"
            code = "E-COLLECTION-VALUE"
        with pytest.raises(CollectionError) as caught:
            parse_collection(text, "f.yaml")
        assert caught.value.code == code
        assert level in caught.value.message
        if code == "E-COLLECTION-VALUE":
            assert f"does not apply to protocol {name}" in caught.value.message
            assert caught.value.where == f"f.yaml:{len(text.splitlines())}"


def test_collections_built_in_code_obey_the_same_rules() -> None:
    good = parse_collection(TEXT)

    def build(**changes: Any) -> Collection:
        from dataclasses import replace

        return replace(good, **changes)

    for changes in (
        {"name": "a b"}, {"version": 0}, {"version": 1 << 32}, {"allowed_lateness": -1},
        {"min_reports": 0}, {"protocol_name": "nothing"},
    ):  # fmt: skip
        with pytest.raises(CollectionError):
            build(**changes)
    assert build(version=3).digest != good.digest


# Fuzz


def survives(text: str) -> None:
    """Parsing ends in a usable collection or in a CollectionError, and in nothing else."""
    try:
        found = parse_collection(text, "f.yaml")
    except CollectionError as error:
        assert str(error).endswith(f"[{error.code}]")
        assert error.where.startswith("f.yaml")
    else:
        support = present(found.protocol.estimator.support)
        assert support.own > support.other
        assert len(found.digest_hex) == 16
        found.as_record()


ODD = (
    "- |&a |*a|!!int |!!timestamp |!!set |!x |<<: |null|0|-1|1e999|.inf|2026-13-45|0x|1:30|%YAML 9.9\n|---\n"
    "|\ud7ff|é|yes|optimal|\\ud800|\U0001f600"
)
FRAGMENTS = st.sampled_from([*" \n:{}[]'\"\\|>~#%\t", *ODD.split("|"), "", "9" * 320, "9" * 5000])


@settings(max_examples=150)
@given(st.lists(st.tuples(st.integers(0, len(TEXT)), st.integers(0, 12), FRAGMENTS), min_size=1, max_size=3))
@example([(0, 0, "[")])
def test_mutated_files_never_raise_anything_else(edits: list[tuple[int, int, str]]) -> None:
    text = TEXT
    for position, cut, fragment in edits:
        text = text[:position] + fragment + text[position + cut :]
    survives(text)


SEVERAL = "attributes: [{{name: a, domain: {}}}, {{name: b, domain: {}}}]\nallocation: sample"
TWO_ORDERS = SEVERAL.format("{size: 64, ordered: true}", "{range: {max: 9, buckets: 99}}")


@pytest.mark.parametrize(
    ("domains", "protocol", "method"),
    [
        ("domain: {size: 49}", "olh", "norm_sub"),
        ("domain: {size: 50}", "olh", "bayes"),
        ("domain: {range: {max: 5000}}", "one_bit_mean", "norm_sub"),
        (SEVERAL.format("{size: 5000}", "{size: 2}"), "olh", "norm_sub"),
        ("domain: {size: 63, ordered: true}", "olh", "bayes"),
        ("domain: {range: {max: 1440, buckets: 64}}", "olh", "ordered"),
        (TWO_ORDERS, "olh", "ordered"),
        (SEVERAL.format("{size: 64, ordered: true}", "{size: 64}"), "olh", "bayes"),
    ],
)
def test_the_method_follows_from_the_number_of_values_unless_it_is_given(
    domains: str, protocol: str, method: str
) -> None:
    text = f"name: a\n{domains}\nprotocol: {protocol}\nepsilon: 1.0\nepoch: {{length: 1d}}\n"
    found = parse_collection(text)
    assert found.consistency == found.as_record()["consistency"] == method
    for named in ("norm_sub", "bayes", "none"):
        other = parse_collection(f"{text}consistency: {named}\n")
        assert (other.consistency, other.digest) == (named, found.digest)


@pytest.mark.parametrize(
    ("domains", "protocol", "why"),
    [
        ("domain: {labels: [a, b, c], ordered: false}", "l_osue", "the values are in no order"),
        ("domain: {range: {max: 5000}}", "one_bit_mean", "a mean is one number"),
        (
            SEVERAL.format("{size: 9, ordered: true}", "{size: 9}"),
            "olh",
            "the values of attribute b are in no order",
        ),
    ],
)
def test_ordered_is_refused_where_values_have_no_order(domains: str, protocol: str, why: str) -> None:
    levels = "epsilon_longitudinal: 2.0\nepsilon_first: 1.0" if protocol == "l_osue" else "epsilon: 1.0"
    text = (
        f"consistency: ordered\nname: a\n{domains}\nprotocol: {protocol}\n{levels}\nepoch: {{length: 1d}}\n"
    )
    with pytest.raises(CollectionError, match=why) as caught:
        parse_collection(text, "c.yaml")
    assert caught.value.code == "E-COLLECTION-VALUE"
    assert str(caught.value).startswith("c.yaml:1: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("value", ["!!python/object:x 1", "! 1"])
def test_tags_are_refused_with_their_line(value: str) -> None:
    text = f"name: a\nprotocol: grr\nepsilon: {value}\ndomain: {{size: 3}}\nepoch: {{length: 1h}}\n"
    with pytest.raises(CollectionError, match=r"c\.yaml:3: .*a tag") as caught:
        parse_collection(text, "c.yaml")
    assert caught.value.code == "E-COLLECTION-FILE"
