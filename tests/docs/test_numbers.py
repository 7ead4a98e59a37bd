"""What the pages say is what the library says: numbers, keys, codes, reasons, links."""

import re
from math import sqrt
from pathlib import Path
from urllib.parse import unquote

import pytest
import yaml

from ldpbeam.channels.calibration import Calibration
from ldpbeam.collection.epochs import instant
from ldpbeam.collection.file import load_collection, parse_collection
from ldpbeam.errors import CollectionError
from ldpbeam.protocols import PROTOCOLS, Parameters, protocol
from tests.conftest import REPOSITORY
from tests.docs.generated import BLOCKS, LEVELS, built, example, written
from tests.narrow import frequencies

SOURCES = ("ldpbeam", "transforms", "pipelines", "simulators", "reproduction")
PAGES = sorted([REPOSITORY / "README.md", *(REPOSITORY / "docs").rglob("*.md")])
CODE = re.compile(r"\bE-[A-Z]+(?:-[A-Z]+)*\b")
WARNING = re.compile(r"\bW-[A-Z]+(?:-[A-Z]+)*\b")
LINK = re.compile(r"\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def text(name: str) -> str:
    return (REPOSITORY / name).read_text("utf-8")


def prose(name: str) -> str:
    """A page in one line, wherever its lines end."""
    return " ".join(text(name).split())


def rows(page: str, first: str) -> list[list[str]]:
    """Cells of the rows of every table of a page whose first column is called ``first``."""
    found, inside = [], False
    for line in page.splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if not cells:
            inside = False
        elif cells[0] == first:
            inside = True
        elif inside and set(cells[0]) != {"-"}:
            found.append(cells)
    return found


def named(page: str, first: str) -> list[str]:
    return [cells[0].strip("`") for cells in rows(page, first)]


# --- numbers


@pytest.mark.cases(4, 100)
@pytest.mark.parametrize(
    ("page", "block"), [(page, block) for page, blocks in BLOCKS.items() for block in blocks]
)
def test_a_generated_block_is_what_the_library_gives(page: str, block: str) -> None:
    found = written(REPOSITORY / page)
    assert set(found) == set(BLOCKS[page])
    assert found[block] == BLOCKS[page][block](), "run: python -m tests.docs.generated"


def test_numbers_in_sentences() -> None:
    def first_report(k: int) -> str:
        parameters = Parameters(**LEVELS, calibration=Calibration.PUBLISHED)
        return f"{protocol('l_grr', k, parameters).guarantee.first_report:.3f}"

    sentence = "really {} with 3 symbols, {} with 8 and {} with 360."
    found = prose("docs/privacy.md")
    assert sentence.format(*map(first_report, (3, 8, 360))) in found

    def limit(name: str) -> str:
        with pytest.raises(CollectionError, match="spends at most") as refused:
            protocol(name, 10, Parameters(epsilon_longitudinal=1.0, epsilon_first=0.99))
        return f"{float(refused.value.message.rpartition(' ')[2]):.3f} (`{name}`)"

    assert f"{limit('l_oue')} and {limit('l_soue')} at ε∞ = 1" in prose("docs/protocols.md")

    linear = example().protocol
    assert linear.counter.counts_length == 3 * 728
    assert "for 360 values and g = 3 that is 728 functions" in found

    best = [built(name, 360) for name in ("loloha", "l_osue")]
    errors = {round(100 * sqrt(float(frequencies(kind).estimator.support.floor) / 10_000)) for kind in best}
    assert errors == {2}
    assert "At ε1 = 1 and 10,000 reports, a frequency has a standard error of 2 points" in prose("README.md")


# --- errors and reasons


def all_sources() -> str:
    paths = (path for folder in SOURCES for path in (REPOSITORY / folder).rglob("*.py"))
    return "\n".join(path.read_text("utf-8") for path in paths)


def test_error_codes_in_the_source_and_in_the_page_are_the_same() -> None:
    listed = named(text("docs/errors.md"), "code")
    assert listed == sorted(listed)
    rust = text("clients/rust/ldpbeam-device/src/error.rs")
    assert set(listed) == set(CODE.findall(all_sources() + rust))


def test_every_error_has_an_exit_code_of_the_list() -> None:
    known = named(text("docs/outputs.md"), "code")
    exits = {cells[0].strip("`"): cells[1] for cells in rows(text("docs/errors.md"), "code")}
    assert set(exits.values()) <= set(known)
    two = {"USAGE", "SIMULATE", "PUBSUB", "AUDIT", "ESTIMATE"}
    family = {code.split("-")[1]: "6" for code in exits} | dict.fromkeys(two, "2") | {"COLLECTION": "3"}
    own = {"E-RUN-NOTHING": "5", "E-AUDIT-VIOLATION": "7", "E-INTERRUPTED": "130"}
    assert {code: own.get(code, family[code.split("-")[1]]) for code in exits} == exits


def test_warnings_in_the_source_and_in_the_page_are_the_same() -> None:
    listed = named(text("docs/errors.md"), "warning")
    assert listed == sorted(listed)
    assert set(listed) == set(WARNING.findall(all_sources()))


# --- the collection file

KEYS = rows(text("docs/collections.md"), "key")
TOP = KEYS[: next(i for i, cells in enumerate(KEYS) if cells[0] == "`size`")]
BASE = {
    "name": "a",
    "domain": {"size": 4},
    "protocol": "loloha",
    "epsilon_longitudinal": 2.0,
    "epsilon_first": 1.0,
    "epoch": {"length": "1d"},
}


def known_keys(**wrong: object) -> list[str]:
    """The keys a mapping takes, as the parser itself lists them."""
    with pytest.raises(CollectionError) as refused:
        parse_collection(yaml.safe_dump({**BASE, **wrong}))
    return refused.value.remedy.rpartition("Known keys: ")[2].rstrip(".").split(", ")


def test_every_key_of_the_file_is_described() -> None:
    assert [cells[0].strip("`") for cells in TOP] == known_keys(zzzzzz=1)
    inner = [cells[0].strip("`") for cells in KEYS[len(TOP) :]]
    assert inner == known_keys(domain={"zzzzzz": 1}) + known_keys(epoch={"zzzzzz": 1})


@pytest.mark.parametrize("cells", KEYS, ids=lambda cells: cells[0].strip("`"))
def test_the_example_of_a_key_is_accepted(cells: list[str]) -> None:
    example = yaml.safe_load(cells[-1].strip("`"))
    content = {**BASE, **example}
    (key,) = example
    protocol_of = {"epsilon": "olh", "d": "dbitflip", "p2": "rappor", "q2": "rappor"}
    protocol_of |= {"gamma": "one_bit_rrpm", "segment": "one_bit_rrpm", "w": "subset"}
    content["protocol"] = protocol_of.get(key, content["protocol"])
    takes = PROTOCOLS[str(content["protocol"])].PARAMETERS
    unused = {level for level in LEVELS if level not in takes}
    if "epsilon" in takes:
        content["epsilon"] = 1.0
    if key in {"attributes", "allocation"}:
        unused.add("domain")
        both = [{"name": name, "domain": {"size": 4}} for name in ("a", "b")]
        content = {"attributes": both, "allocation": "sample", **content}
    content = {name: value for name, value in content.items() if name not in unused}
    parse_collection(yaml.safe_dump(content))


def test_the_defaults_are_those_of_the_parser() -> None:
    plain = parse_collection(yaml.safe_dump(BASE))
    stated = {cells[0].strip("`"): cells[2].strip("`") for cells in KEYS if len(cells) == 5}
    assert stated["version"] == str(plain.version)
    assert (stated["owner"], plain.owner) == ("empty", "")
    assert (stated["g"], plain.parameters.g) == ("optimal", None)
    assert stated["calibration"] == plain.parameters.calibration.value
    assert stated["hash_family"] == plain.parameters.hash_family
    assert stated["allowed_lateness"] == str(plain.allowed_lateness)
    assert stated["consistency"] == plain.consistency
    assert stated["min_reports"] == str(plain.min_reports)
    assert stated["count"] == str(plain.epochs.count)
    assert stated["origin"] == instant(plain.epochs.origin)
    assert float(stated["gamma"]) == plain.parameters.gamma
    assert (stated["p2"], stated["q2"]) == (str(plain.parameters.p2), str(plain.parameters.q2))
    required = {key for key, value in stated.items() if value.startswith("required")}
    always = {"name", "domain", "protocol", "epoch", "length"}
    assert required == always | {"epsilon", *LEVELS, "d"}


def test_every_example_is_sound_and_the_page_shows_the_first_one() -> None:
    found = {path.name: load_collection(path) for path in (REPOSITORY / "examples").glob("*.yaml")}
    assert len({c.digest for c in found.values()}) == len(found)
    shown = re.search(r"```yaml\n(.*?)```", text("docs/collections.md"), re.DOTALL)
    assert shown
    assert parse_collection(shown[1]) == found["minutes_in_app.yaml"]


# --- links and pictures


def anchor(heading: str) -> str:
    kept = re.sub(r"[^\w\- ]", "", heading.strip().lower())
    return kept.replace(" ", "-")


def anchors(page: Path) -> set[str]:
    lines = page.read_text("utf-8").splitlines()
    return {anchor(line.lstrip("#")) for line in lines if line.startswith("#")}


def broken_links(page: Path) -> list[str]:
    found = []
    for link in LINK.findall(FENCE.sub("", page.read_text("utf-8"))):
        target, _, part = unquote(link).partition("#")
        if "://" in target or target.startswith("mailto:"):
            continue
        path = (page.parent / target) if target else page
        if not path.exists() or (part and part not in anchors(path)):
            found.append(link)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_relative_links_resolve(page: Path) -> None:
    assert broken_links(page) == []
