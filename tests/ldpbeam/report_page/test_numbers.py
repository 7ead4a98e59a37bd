"""Every number that a page shows, against the tables and the record that it comes from.

The reference here reads the Parquet files and run.json by itself and shares nothing with the page. A shown
number has to be the nearest one that its digits can say. A table or a kind of mark without a reference fails.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import false_discovery_control, norm

from ldpbeam.report_page.document import write_page
from tests.ldpbeam.report_page.synthetic import Fake, write_run

SUPERSCRIPT = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
NUMBER = re.compile(r"[−-]?\d[\d,]*(?:\.\d+)?(?: × 10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)?(?: %)?")


def number(shown: str) -> tuple[float, float]:
    """What a number says, and half the step of its last digit."""
    text, factor = shown.replace(",", "").replace("−", "-"), 1.0
    if text.endswith(" %"):
        text, factor = text.removesuffix(" %"), 0.01
    mantissa, _, power = text.partition(" × 10")
    factor *= 10.0 ** int(power.translate(SUPERSCRIPT) or 0)
    digits = len(mantissa.partition(".")[2])
    return float(mantissa) * factor, 0.5 * 10.0**-digits * factor


def says(shown: str, *wanted: float) -> None:
    """The numbers in a text are these, one by one."""
    found = NUMBER.findall(shown)
    assert len(found) == len(wanted), shown
    for one, true in zip(found, wanted, strict=True):
        value, half = number(one)
        assert abs(value - true) <= half * (1 + 1e-6) + 1e-12, (shown, one, true)


@dataclass
class Table:
    head: list[str]
    rows: list[list[str]]


@dataclass
class Page:
    """A page as it is read, and what it was made from."""

    html: str
    output: Path
    truth: Path | None

    @cached_property
    def tables(self) -> dict[str, Table]:
        found = {}
        for title, body in re.findall(r'aria-label="(Table: [^"]*)"><table>(.*?)</table>', self.html, re.S):
            rows = [
                [cell(inner) for inner in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.S)]
                for row in re.findall(r"<tr>(.*?)</tr>", body, re.S)
            ]
            assert title not in found
            found[unescape(title)] = Table(rows[0], rows[1:])
        return found

    @cached_property
    def labels(self) -> list[str]:
        """The texts of charts and of their marks, in order."""
        return [unescape(one) for one in re.findall(r'(?:aria-label|data-says)="([^"]*)"', self.html)]

    @cached_property
    def text(self) -> str:
        return " ".join(cell(re.sub(r"<(script|style).*?</\1>", "", self.html, flags=re.S)).split())

    @cached_property
    def stored(self) -> dict[int, dict[str, np.ndarray]]:
        """Columns by epoch."""
        found = {}
        for path in sorted((self.output / "estimates").iterdir()):
            table = pq.read_table(path)
            found[table["epoch"][0].as_py()] = {n: table[n].to_numpy() for n in table.column_names}
        return found

    @cached_property
    def true(self) -> dict[int, np.ndarray]:
        """Frequencies by epoch."""
        if self.truth is None:
            return {}
        rows = pq.read_table(self.truth).to_pylist()
        return {e: np.array([r["frequency"] for r in rows if r["epoch"] == e]) for e in self.stored}

    @cached_property
    def record(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.output / "run.json").read_text())
        return found

    @cached_property
    def k(self) -> int:
        return len(self.stored[0]["value"])

    @property
    def usable(self) -> list[int]:
        return [e for e, columns in self.stored.items() if np.isfinite(columns["estimate"]).any()]

    @property
    def last(self) -> int:
        return self.usable[-1]

    def squared(self, epoch: int, name: str) -> float:
        return float(np.mean((self.stored[epoch][name] - self.true[epoch]) ** 2))

    def variance(self, epoch: int) -> float:
        return float(np.mean(self.stored[epoch]["std_error"] ** 2))


def cell(inner: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", inner)).split())


class Lopsided(Fake):
    """Intervals that reach further down than up, as exact ones do; one of four epochs is withheld."""


def page(root: Path, k: int, truth: bool) -> Page:
    fake = Lopsided(k=k, epochs=4, insufficient=(1,), labels=[f"label {i}" for i in range(k)])
    output, true = write_run(root, [fake])
    for path in (output / "estimates").iterdir():
        table = pq.read_table(path)
        for name, errors in (("ci_low", -2.3), ("ci_high", 1.7)):
            ends = pa.compute.add(table["estimate"], pa.compute.multiply(table["std_error"], errors))
            table = table.set_column(table.column_names.index(name), name, ends)
        pq.write_table(table, path)
    used = true if truth else None
    return Page(write_page(output, root / "page.html", used).read_text("utf-8"), output, used)


@pytest.fixture(scope="module", params=[(7, True), (7, False), (100, True), (1000, True)], ids=str)
def shown(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Page:
    """Few values; too many for a bar each; so many that neighbours share a point."""
    return page(tmp_path_factory.mktemp("page"), *request.param)


# --- tables


def followed_table(shown: Page, table: Table) -> None:
    values = [int(name.removeprefix("label ")) for name in table.head[2:]]
    assert [row[0] for row in table.rows] == ["0", "1", "2", "3"]
    for epoch, row in enumerate(table.rows):
        assert row[1] == f"2026-01-0{1 + epoch // 4} {epoch * 6 % 24:02d}:00"
        columns = shown.stored[epoch]
        for value, text in zip(values, row[2:], strict=True):
            if epoch == 1:
                assert text == "withheld"
                continue
            half = (columns["ci_high"][value] - columns["ci_low"][value]) / 2
            true = [shown.true[epoch][value]] if shown.truth else []
            says(text, columns["estimate"][value], half, *true)
            assert re.fullmatch(r"[^±]+ ± [^(]+" + (r" \([^)]+\)" if true else ""), text)


def by_value_table(shown: Page, table: Table) -> None:
    columns = shown.stored[shown.last]
    order = np.argsort(-columns["estimate"], kind="stable")
    assert table.head[:8] == ["value", "label", "support", "raw", "±", "95 % low", "95 % high", "consistent"]
    assert len(table.rows) == min(shown.k, 1500 if shown.k <= 1500 else 300)
    for row, value in zip(table.rows, order.tolist(), strict=False):
        assert row[:2] == [str(value), f"label {value}"]
        low, high = columns["ci_low"][value], columns["ci_high"][value]
        wanted = [columns["support"][value], columns["estimate"][value], (high - low) / 2, low, high]
        wanted += [columns["consistent"][value], *([shown.true[shown.last][value]] if shown.truth else [])]
        for text, one in zip(row[2:], wanted, strict=True):
            says(text, float(one))


def accounting_table(shown: Page, table: Table) -> None:
    books = shown.record["accounting"]
    reasons = sorted(books["total"]["rejected"])
    heads = ["read", "counted", "late", "duplicate", *(f"rejected: {reason}" for reason in reasons)]
    assert table.head == ["epoch", "starts, UTC", *heads, "identity"]
    accounts = [books["total"], {**books["unattributed"], "late": 0, "duplicate": 0}, *books["epochs"]]
    names = ["whole run", "no epoch", "0", "1 (withheld)", "2", "3"]
    for name, account, row in zip(names, accounts, table.rows, strict=True):
        assert (row[0], row[-1]) == (name, "holds")
        for head, text in zip(heads, row[2:-1], strict=True):
            reason = head.removeprefix("rejected: ")
            wanted = account["rejected"].get(reason, 0) if reason in reasons else account[reason]
            assert text == f"{wanted:,}"


def error_table(shown: Page, table: Table) -> None:
    truth = ["raw", "consistent", "1/k", "95 % intervals hit"] if shown.truth else []
    assert table.head == ["epoch", "starts, UTC", "reports", "theory", *truth]
    assert [int(row[0]) for row in table.rows] == shown.usable
    for epoch, row in zip(shown.usable, table.rows, strict=True):
        columns = shown.stored[epoch]
        assert row[2] == f"{columns['n'][0]:,}"
        says(row[3], shown.variance(epoch))
        if shown.truth:
            true = shown.true[epoch]
            says(row[4], shown.squared(epoch, "estimate"))
            says(row[5], shown.squared(epoch, "consistent"))
            says(row[6], float(np.mean((true - 1 / shown.k) ** 2)))
            says(row[7], float(np.mean((columns["ci_low"] <= true) & (true <= columns["ci_high"]))))


def loss_table(shown: Page, table: Table) -> None:
    assert table.head == ["reports t", "same change pattern", "any change pattern: not capped"]
    guarantee = shown.record["collections"][0]["guarantee"]
    curves = [dict(guarantee[f"loss_{kind}_changes"]) for kind in ("same", "any")]
    assert [int(row[0]) for row in table.rows] == sorted({*curves[0], *curves[1]})
    for row in table.rows:
        for text, curve in zip(row[1:], curves, strict=True):
            level = curve.get(int(row[0]))
            if level is None:
                assert text == "–"
            else:  # never understated
                assert level * (1 - 1e-9) <= number(text)[0] <= level + 2 * number(text)[1]


TABLES: dict[str, Callable[[Page, Table], None]] = {
    "estimate ± half its 95 % interval": followed_table,
    "epoch 3 by value, the largest first": by_value_table,
    "exact numbers per epoch, and the identity checked": accounting_table,
    "mean squared errors per epoch": error_table,
    "largest loss after t reports": loss_table,
}


@pytest.mark.cases(1)
def test_every_table_is_what_was_stored(shown: Page) -> None:
    named = {
        title.removeprefix("Table: ").removesuffix(", then the truth"): table
        for title, table in shown.tables.items()
    }
    assert set(named) == set(TABLES)
    for title, table in named.items():
        TABLES[title](shown, table)


# --- the texts of marks


def marks(shown: Page, begin: str, end: str) -> Iterator[tuple[re.Match[str], str]]:
    """Of texts that begin so: the match, and what comes behind it."""
    for text in shown.labels:
        if match := re.match(begin, text):
            assert re.search(end, text), text
            yield match, text[match.end() :]


@pytest.mark.cases(1)
def test_the_bars_of_the_last_epoch_say_the_same_as_the_table(shown: Page) -> None:
    columns, seen = shown.stored[shown.last], 0
    order = r"raw .*, 95 % interval .* to .*, consistent [^,]*" + (", truth .*" if shown.truth else "$")
    for match, rest in marks(shown, r"label (\d+): raw ", order):
        value = int(match[1])
        wanted = [columns[name][value] for name in ("estimate", "ci_low", "ci_high", "consistent")]
        true = [shown.true[shown.last][value]] if shown.truth else []
        says(rest.replace("95 % interval", ""), *map(float, wanted), *true)
        seen += 1
    assert seen == {7: 7, 100: 20 + 100, 1000: 20}[shown.k]


def test_bars_are_as_long_as_consistent_frequencies(shown: Page) -> None:
    """In the colour that the key names."""
    if shown.k != 7:
        return  # charts of the same marks
    bars = re.findall(r'd="M[\d.]+,[\d.]+h(-?[\d.]+)v[^"]*" fill="#009E73" opacity', shown.html)
    drawn = np.array(bars, float)
    assert len(drawn) == 7
    consistent = shown.stored[shown.last]["consistent"][np.argsort(-shown.stored[shown.last]["estimate"])]
    scale = drawn[0] / consistent[0]
    np.testing.assert_allclose(drawn, consistent * scale, atol=0.06)


def test_neighbours_that_share_a_point_are_averaged(shown: Page) -> None:
    columns, seen = shown.stored[shown.last], []
    for match, rest in marks(shown, r"label (\d+) … label (\d+), mean: raw ", " ± "):
        first, last = int(match[1]), int(match[2]) + 1
        seen.append((first, last))
        error = math.sqrt(np.sum(columns["std_error"][first:last] ** 2)) / (last - first)
        says(rest, float(np.mean(columns["estimate"][first:last])), 1.96 * error)
    whole = [(start, min(start + 3, 1000)) for start in range(0, 1000, 3)] if shown.k == 1000 else []
    assert seen == whole


def test_the_bars_of_the_accounting_say_what_was_counted_and_what_not(shown: Page) -> None:
    found: dict[tuple[int, str], set[str]] = {}
    for match, rest in marks(shown, r"epoch (\d+) \([\d: -]+\): (?=[\d,]+ (counted|late|dup|rejected))", ""):
        count, _, part = rest.partition(" ")
        found.setdefault((int(match[1]), part), set()).add(count)
    wanted: dict[tuple[int, str], set[str]] = {}
    for epoch, account in enumerate(shown.record["accounting"]["epochs"]):
        counted = "counted, estimates withheld" if epoch == 1 else "counted"
        parts = {counted: account["counted"], "late": account["late"], "duplicate": account["duplicate"]}
        parts |= {f"rejected: {reason}": n for reason, n in account["rejected"].items()}
        wanted |= {(epoch, part): {f"{n:,}"} for part, n in parts.items() if n}
    assert found == wanted


# --- sentences


def test_the_words_about_the_whole(shown: Page) -> None:
    books, text = shown.record["accounting"], shown.text
    total = books["total"]
    reasons = ", ".join(f"{name} {n}" for name, n in sorted(total["rejected"].items(), key=lambda i: i[0]))
    rejected = sum(total["rejected"].values())
    identity = f"read {total['read']:,} = counted {total['counted']:,} + late {total['late']} + duplicate "
    assert f"{identity}{total['duplicate']} + rejected {rejected} (" in text
    assert set(reasons.split(", ")) == set(
        re.findall(r"[a-z_]+ \d+", text[text.index(identity) :].partition("(")[2].partition(")")[0])
    )
    lost = total["read"] - total["counted"] - books["unattributed"]["read"]
    read = sum(account["read"] for account in books["epochs"])
    assert f"on a scale of their own: {lost:,} of the {read:,} read in these epochs" in text
    part, _, rest = text[text.index(" % of ") - 12 :].partition(" % of ")
    says(part.split()[-1] + " %", total["counted"] / total["read"])
    assert rest.startswith(f"{total['read']:,} reports were counted")
    typical = 1.96 * math.sqrt(np.mean([shown.variance(e) for e in shown.usable]))
    (within,) = re.findall(r"within ±([\d.]+) percentage points \(95 %\)", text)
    says(f"{within} %", typical)
    (stage,) = re.findall(r"estimate ± ([\d.]+) points half the width of a 95 % interval", text)
    says(f"{stage} %", typical)
    assert f"report {total['read']:,} read; " in text
    assert "epoch 4 of 6 h each" in text
    assert f"support {shown.k:,} counts per epoch: how many reports support each value (0.731 of" in text
    assert "(0.731 of the reports of its holders, 0.493 of the others)" in text
    assert "Each bar is the sum of" not in text
    assert "Withheld: Epoch 1 (fewer than 1,000 reports)." in text
    assert "Epoch 0 starts 2026-01-01 00:00 UTC, epoch 3 starts 2026-01-01 18:00 UTC." in text


def test_the_words_about_the_last_epoch(shown: Page) -> None:
    columns = shown.stored[shown.last]
    p = 2 * norm.sf(np.abs(columns["estimate"] - 1 / shown.k) / columns["std_error"])
    found = int((false_discovery_control(p) <= 0.05).sum())
    head = f"{columns['n'][0]:,} reports in epoch 3: {found} of {shown.k:,} values differ from 1/k = "
    (rest,) = {text.partition(head)[2] for text in shown.labels if head in text}
    says(rest.partition(" by more")[0], 1 / shown.k)
    if shown.k == 1000:
        assert "Each point is the mean of 3 neighbouring values" in shown.text
