"""Strings that nobody listed: what commands show of those that were found, and which commands refuse them."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import ldpbeam
from ldpbeam.errors import UsageError
from tests.ldpbeam.cli.calling import call, rows, told

YAML = """name: words
domain: {strings: {max_length: 7, symbols: "(other)=<"}}
protocol: olh
epsilon: 5
epoch: {length: 1d, origin: 2026-01-01T00:00:00Z, count: 9}
slices: {arm: [x, y]}
"""
COMMON = ["other", "=he", "(other)", "<(e", "none of these symbols"]
FOUND = ["other", "=he", '"(other)"', "<(e", "(other)"]
"""Their labels; the last one cannot be written."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two epochs: in the second one half of the devices hold another string."""
    place = tmp_path_factory.mktemp("strings")
    draw = random.Random(1)
    rare = ["".join(draw.choices("ehot", k=7)) for _ in range(500)]
    first = draw.choices([*COMMON, *rare], [12] * 5 + [40 / 500] * 500, k=6000)
    second = [draw.choice([text, "roh"]) for text in first]
    lines = [f'"{a}","{b}",{"xy"[i % 2]}\n' for i, (a, b) in enumerate(zip(first, second, strict=True))]
    (place / "c.yaml").write_text(YAML, "utf-8")
    (place / "p.csv").write_text("one,two,arm\n" + "".join(lines), "utf-8")
    asked = ("--collection", place / "c.yaml", "--output", place / "sim", "--slice-column", "arm")
    told("simulate", "--population", f"csv:{place / 'p.csv'}:one..two", "--seed", 2, *asked)
    told("run", "--collection", place / "c.yaml", "--input", place / "sim/reports", "--output", place / "out")
    told("report", place / "out")
    return place


def test_the_most_frequent_comes_first_and_odd_labels_do_no_harm(folder: Path) -> None:
    table = rows("export", folder / "out")
    first = [row for row in table if row["epoch"] == "0"]
    assert {row["label"].removeprefix("'") for row in first} == set(FOUND)
    assert [row["value"] for row in first] == list("01234")
    estimates = [float(row["estimate"]) for row in first]
    assert estimates == sorted(estimates, reverse=True)
    assert "'=he" in {row["label"] for row in first}  # no formula
    assert max(Counter(row["epoch"] for row in table).values()) < 20
    assert ldpbeam.read(folder / "out")["label"].to_pylist()[-1] in [*FOUND, "roh"]
    page = (folder / "out/index.html").read_text("utf-8")
    assert "&lt;(e" in page
    assert "<(e" not in page


def test_summaries_and_page_say_how_strings_were_searched(folder: Path) -> None:
    results = ldpbeam.read(folder / "out")
    found = sum(row["estimate"] for row in results.to_pylist() if row["epoch"] == 0)
    summary = [row for row in ldpbeam.read_summaries(folder / "out").to_pylist() if row["epoch"] == 0]
    rest, *lengths = summary
    assert (rest["statistic"], rest["n"], rest["label"]) == ("not_found", 6000, None)
    assert rest["estimate"] == pytest.approx(1 - found)
    assert rest["ci_low"] < 0.4 < rest["ci_high"]
    assert rest["ci_high"] - rest["ci_low"] == pytest.approx(2 * 1.96 * rest["std_error"], rel=1e-3)
    named = ("candidates", "passed", "pass_threshold", "find_threshold")
    assert [(row["label"], row["statistic"]) for row in lengths] == [
        (length, name) for length in ("4", "7") for name in named
    ]
    assert sum(row["n"] for row in lengths if row["statistic"] == "passed") == 6000
    assert lengths[-2]["estimate"] is None  # of whole strings none is extended
    by_slice = ldpbeam.read_summaries(folder / "out", slice={"arm": "y"}).to_pylist()
    assert [row["n"] for row in by_slice if row["statistic"] == "not_found"] == [3000, 3000]
    page = (folder / "out/index.html").read_text("utf-8")
    for words in (
        f"epoch 1 found {results['epoch'].to_pylist().count(1)} strings; ",
        "how epoch 1 was searched",
        "In 95 of 100 epochs some device holds each string on it",
    ):
        assert words in page
    digits = "4294967296", "4,294,967,296"
    texts = [page, *(told(name, folder / "c.yaml") for name in ("check", "explain", "definition"))]
    texts += [
        told("inspect", folder / "out"),
        told("inspect", folder / "sim/reports", "--collection", folder / "c.yaml"),
    ]
    for text in texts[:3] + texts[4:]:
        assert not any(number in text for number in digits)
    assert "prefix of 7 symbols: " in texts[-1]
    assert "strings of up to 7 symbols" in texts[1]
    assert "is found in 95 of 100 cases" in texts[1]


def test_found_strings_become_the_labels_of_the_next_collection(folder: Path) -> None:
    """Those of all epochs, the newest first; what cannot be written is in other, whose label is no string."""
    said = told("init", folder / "next.yaml", "--from", folder / "out", "--start", "2026-02-01")
    assert "next.yaml: " in said
    made = ldpbeam.load_collection(folder / "next.yaml")
    assert made.domain is not None
    assert made.domain.labels is not None
    assert made.domain.labels[0] == "roh"
    assert set(made.domain.labels) == {*COMMON[:4], "roh", "((other))"}
    assert made.domain.other == len(made.domain.labels) - 1
    assert made.epochs.length == 86_400
    assert made.slices.as_record() == {"arm": ["x", "y"]}
    assert made.parameters.epsilon_longitudinal == 5
    told("init", folder / "weekly.yaml", "--from", folder / "out", "--epoch", "7d", "--devices", 900)
    assert ldpbeam.load_collection(folder / "weekly.yaml").epochs.length == 7 * 86_400
    with pytest.raises(UsageError, match=r"has no run\.json of a collection of strings"):
        told("init", folder / "x.yaml", "--from", folder / "sim")


@pytest.mark.parametrize(
    "command",
    [
        ("compare", "out"),
        ("compare", "out", "--epochs", "0", "--against", "1"),
        ("export", "out", "--by", "week"),
        ("export", "out", "--mean"),
    ],
)
def test_what_needs_the_same_values_in_each_epoch_is_refused(folder: Path, command: tuple[str, ...]) -> None:
    name, results, *more = command
    done = call(name, folder / results, *more)
    assert isinstance(done.exception, UsageError)
    assert "one that an epoch does not find has no estimate there" in str(done.exception)
    assert "ldpbeam init NEW.yaml --from RESULTS" in str(done.exception)


def test_plans_are_for_listed_values(folder: Path) -> None:
    for command in (
        ("plan", "--domain", folder / "c.yaml"),
        ("init", folder / "p.yaml", "--domain", folder / "c.yaml"),
    ):
        with pytest.raises(UsageError, match="a plan is for values that are listed"):
            told(*command, "--devices", 900, "--epsilon-longitudinal", 1)
    collection = ldpbeam.load_collection(folder / "c.yaml")
    with pytest.raises(UsageError, match="finds strings"):
        ldpbeam.group_shares(collection, ldpbeam.read(folder / "out"), {"some": ["other"]})


def test_epochs_that_find_nothing_are_results_too(folder: Path) -> None:
    out = folder / "few"
    texts = folder / "few.csv"
    texts.write_text("v\n" + "he\nho\nt\nroh\neh\n" * 2, "utf-8")
    asked = ("--collection", folder / "c.yaml", "--output", folder / "few-sim", "--epochs", 1)
    told("simulate", "--population", f"csv:{texts}:v", *asked)
    told("run", "--collection", folder / "c.yaml", "--input", folder / "few-sim/reports", "--output", out)
    assert ldpbeam.read(out).num_rows == 0
    assert rows("export", out) == []
    assert pq.read_table(next((out / "summaries").iterdir())).num_rows == 9
    told("report", out)
    page = (out / "index.html").read_text("utf-8")
    assert "epoch 0 found 0 strings; " in page
    assert "No epoch has found a string." in page
    assert "· 1 epoch ·" in page
    assert isinstance(call("compare", out).exception, UsageError)
    with pytest.raises(UsageError, match="has found no string"):
        told("init", folder / "y.yaml", "--from", out)
