"""The page of real runs: every protocol and every way to share several attributes, none of them made up.

What a result holds, frequencies or a mean, is asked of the record. A page that guessed it would be seen
here: each section is held against what the protocol itself says.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ldpbeam.accounting import Accounting
from ldpbeam.collection.collection import Collection
from ldpbeam.collection.file import parse_collection
from ldpbeam.collection.values import Index
from ldpbeam.durable.document import document
from ldpbeam.job.config import RunConfig
from ldpbeam.protocols import PROTOCOLS
from ldpbeam.protocols.attributes.allocate import ALLOCATIONS
from ldpbeam.protocols.contract import MeanProtocol
from ldpbeam.records.outcome import RunOutcome
from ldpbeam.records.run_output import run_record, write_record
from ldpbeam.records.run_record import StreamRecord
from ldpbeam.report_page import charts, data, svg
from ldpbeam.report_page.dates import Dates
from ldpbeam.report_page.document import write_page
from ldpbeam.report_page.text import plain
from ldpbeam.simulators.deliver.simulate import simulate
from ldpbeam.simulators.fleet import Fleet
from ldpbeam.simulators.population.joint import joint_population
from ldpbeam.simulators.population.specs import population
from ldpbeam.simulators.random_words import RandomWords
from tests.ldpbeam.report_page.reader import Reader, harmless
from tests.narrow import present
from tests.pipelines.running import execute, write
from tests.reference.settings import LEVELS

SIZE, DEVICES, EPOCHS = 9, 240, 2
HEADING = "name: {name}\nconsistency: {method}\nepoch: {{length: 1h}}\n"
ATTRIBUTES = "attributes: [{name: a, domain: {size: 9}}, {name: b, domain: {size: 9}}]\n"


def agreed(name: str, allocation: str = "", method: str = "norm_sub") -> Collection:
    """A collection with one domain, or with two attributes."""
    takes = ALLOCATIONS[allocation].PARAMETERS if allocation == "allomfree" else PROTOCOLS[name].PARAMETERS
    lines = [HEADING.format(name=f"{name or 'chosen'}_{allocation or 'alone'}_{method}", method=method)]
    lines += [f"{key}: {({**LEVELS, 'd': 2})[key]}\n" for key in takes]
    lines.append(f"protocol: {name}\n" if name else "")
    lines.append(f"allocation: {allocation}\n{ATTRIBUTES}" if allocation else f"domain: {{size: {SIZE}}}\n")
    return parse_collection("".join(lines))


def every_kind() -> Iterator[Collection]:
    """Every protocol alone; every allocation with every mean, and with one protocol that counts."""
    means = [name for name, kind in PROTOCOLS.items() if issubclass(kind, MeanProtocol)]
    for name in PROTOCOLS:
        yield agreed(name)
    for allocation in ALLOCATIONS:
        if allocation == "allomfree":
            yield agreed("", allocation)
            continue
        for name in [*means, "loloha"]:
            # Together is for one bit per counter.
            if allocation != "together" or name.startswith("one_bit"):
                yield agreed(name, allocation)


def values_of(collection: Collection) -> np.ndarray:
    """Values whose mean lies clear of every frequency; they add up to the limit of counters at most."""
    count = len(collection.histograms)
    draw = np.random.default_rng(3).integers(0, SIZE, DEVICES).astype(np.int32)
    if count == 1:
        return draw
    return np.stack([draw // 2, draw - draw // 2], axis=1).astype(np.int32)


@pytest.mark.parametrize(
    ("name", "allocation"),
    [("laplace_mean", ""), ("one_bit_mean", ""), ("one_bit_rrpm", ""), ("one_bit_mean", "sample"),
     ("laplace_mean", "split"), ("one_bit_mean", "together")],
)  # fmt: skip
@pytest.mark.thorough
def test_the_page_of_a_mean_holds_it_against_the_true_mean(
    tmp_path: Path, name: str, allocation: str
) -> None:
    """From a simulation to the page: the truth of a mean is the mean of the values, not a frequency."""
    collection, devices = agreed(name, allocation, "none"), 3_000
    common: dict[str, Any] = {"devices": devices, "epochs": 2, "random_words": RandomWords(2)}
    people: Any
    if allocation:
        people = joint_population(
            "zipf:0.5", attributes=collection.histograms, limit=collection.protocol.device.sum_limit, **common
        )
    else:
        people = population("zipf:0.5", domain=present(collection.domain), **common)
    simulate(collection, people, tmp_path, seed=1, truth=True)
    done = execute(collection, tmp_path / "reports", tmp_path / "out")
    page = write_page(done.output, tmp_path / "page.html", tmp_path / "truth.parquet")
    text = harmless(page.read_text("utf-8")).text
    run = data.load(done.output, tmp_path / "truth.parquet")
    for index, one in enumerate(run.collections):
        for epoch, held in enumerate(people.values()):
            true = float(held.reshape(devices, -1)[:, index].mean())
            snapshot = one.read(epoch)
            assert snapshot.truth.tolist() == pytest.approx([true])
            # Six standard errors, two epochs of two attributes in six cases: below 1e-7 in all.
            assert abs(snapshot.estimate[0] - true) < 6 * snapshot.std_error[0]
            assert f"truth {plain(true, float(snapshot.std_error[0]))}" in page.read_text("utf-8")
    assert "The estimated mean against the true mean in each epoch" in text
    assert "The result is one mean, so there is no 1/k to beat" in text
    assert "percentage points" not in text
    assert "norm_sub" not in text
    assert "histogram raw the mean as it was estimated" in text


@pytest.mark.parametrize(
    ("status", "words_shown"), [("stopped", "stream stopped"), ("running", "stream still running")]
)
def test_a_stream_is_never_called_finished(tmp_path: Path, status: str, words_shown: str) -> None:
    """What a stream has not counted yet is pending, and no violation of the identity."""
    collection = agreed("grr")
    key = (collection.digest_hex, 0)
    books = Accounting.from_entries([((key, "read"), 500), ((key, "counted"), 480)])
    config = RunConfig.parsed((collection,), output=str(tmp_path), subscription="projects/p/subscriptions/s")
    (tmp_path / "estimates").mkdir()
    stream = StreamRecord(config.input.subscription, "", 0, 1, 1, 0, None)
    write_record(str(tmp_path), run_record(config, RunOutcome(books, []), 1.0, status=status, stream=stream))
    text = Reader(write_page(tmp_path, tmp_path / "page.html").read_text("utf-8")).text
    assert words_shown in text
    assert "finished" not in text
    record = json.loads((tmp_path / "run.json").read_text())
    record["stream"]["watermark_micros"] = 86_400_000_000 * 366
    (tmp_path / "run.json").write_bytes(document(record))
    text = Reader(write_page(tmp_path, tmp_path / "page.html").read_text("utf-8")).text
    assert re.search(words_shown + r"[a-z ]* at 1971-01-02 00:00 UTC", text)
    assert "VIOLATED" not in text
    assert "read 500 = counted 480 + late 0 + duplicate 0 + rejected 0 + pending 20" in text
    # The same books without a stream are a violation.
    record = json.loads((tmp_path / "run.json").read_text())
    del record["stream"]
    (tmp_path / "run.json").write_bytes(document(record))
    text = Reader(write_page(tmp_path, tmp_path / "page.html").read_text("utf-8")).text
    assert "VIOLATED by +20" in text


def test_provisional_and_withheld_epochs_are_marked(tmp_path: Path) -> None:
    """An early pane is provisional; too few reports or too many rejected ones are told apart."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    collection = parse_collection(
        f"name: m\ndomain: {{size: {SIZE}}}\nprotocol: grr\nepsilon: 3\n"
        "epoch: {length: 1h}\nmin_reports: 100\n"
    )
    crowd, values = Fleet(collection, DEVICES, 1), values_of(collection)
    batches = [batch for epoch in range(5) for batch in crowd.batches(Index(values), epoch)[1]]
    few = replace(batches[2], report_ids=batches[2].report_ids[:50], payloads=batches[2].payloads[:50])
    bad = replace(
        batches[3], report_ids=batches[3].report_ids[:90], payloads=batches[3].payloads[:90] * 0 + 255
    )
    folder = write(tmp_path / "in", collection, [*batches[:2], few, batches[3], bad, batches[4]])
    done = execute(collection, folder, tmp_path / "out")
    assert done.exit_code == 5
    last = next(p for p in (done.output / "estimates").iterdir() if "epoch-000004" in p.name)
    table = pq.read_table(last)
    at = table.column_names.index("pane")
    pq.write_table(table.set_column(at, "pane", pa.array(["early"] * SIZE)), last)
    html = write_page(done.output, tmp_path / "page.html").read_text("utf-8")
    text = harmless(html).text
    assert "Epoch 4 is provisional: not over when this was published" in text
    assert "Provisional: the epoch was not over, so these numbers will change." in text
    withheld = "Withheld: Epoch 2 (fewer than 100 reports); Epoch 3 (too many of the records were rejected)."
    assert withheld in text
    assert "epoch 3 (1970-01-01 03:00): withheld, too many of the records were rejected" in html
    assert "epoch 4 (1970-01-01 04:00), provisional: " in html
    starts = [rf"{epoch} 1970-01-01 0{int(epoch[0])}:00 " for epoch in ("2", "3", r"4 \(provisional\)")]
    assert re.search(f"{starts[0]}withheld withheld .* {starts[1]}withheld withheld .* {starts[2]}", text)
    # The same in the bars of what was counted, and in the table of the accounting.
    assert "counted counted, provisional counted, estimates withheld" in text
    assert "epoch 2 (1970-01-01 02:00): 50 counted, estimates withheld" in html
    assert "epoch 4 (1970-01-01 04:00): 240 counted, provisional" in html
    assert re.search(r"2 \(withheld\) .* 3 \(withheld\) .* 4 \(provisional\) 1970-01-01 04:00 240 240 ", text)


DAYS = Dates(0, datetime(2026, 1, 1, tzinfo=UTC), 86_400)


def below(dates: Dates, epochs: int, first: int = 0) -> list[list[str]]:
    """What stands below the axis of each chart over epochs, with its title."""
    rows: list[charts.Row] = []
    for epoch in range(first, first + epochs):
        nothing = {"low": 0.0, "high": 1.0, "truth": None, "text": dates.named(epoch), "mark": ""}
        rows.append({"epoch": epoch, "estimate": 0.5, **nothing})
    bars = [{"epoch": row["epoch"], "part": "counted", "number": 5, "order": 0, "text": "t"} for row in rows]
    points = [(float(row["epoch"]), 1.0 + row["epoch"]) for row in rows]
    drawn = (
        charts.multiple(rows, (0.0, 1.0), None, "~g", dates, 60),
        charts.stack(bars, {"counted": charts.COUNTED}, (first, first + epochs - 1), dates),
        charts.lines([("raw", charts.RAW, (), points)], "epoch", "~g", dates=dates),
    )
    found = []
    for chart in drawn:
        words = re.findall(r">([^<>]+)</text>", str(svg.render(chart, "a chart", "x")))
        title = next(at for at, word in enumerate(words) if word in ("epoch", "start of the epoch, UTC"))
        found.append(words[: title + 1])
    return found


@pytest.mark.parametrize("epochs", [1, 2, 3, 40, 1000])
@pytest.mark.cases(2)
def test_without_dates_epochs_have_whole_numbers_below_the_axis_each_once(epochs: int) -> None:
    """Two epochs are 0 and 1, one epoch is 0: no number twice, none beside the epochs."""
    for *ticks, title in below(Dates(), epochs):
        assert title == "epoch"
        numbers = [int(tick.replace(",", "")) for tick in ticks]
        assert numbers == sorted(set(numbers))
        assert 1 <= len(numbers) <= 11
        assert 0 <= numbers[0] <= numbers[-1] < epochs or epochs == numbers[-1] == 1000


@pytest.mark.parametrize("several", [1, 2])
@pytest.mark.parametrize("dates", [Dates(), DAYS], ids=["numbers", "dates"])
def test_each_line_goes_through_its_points(several: int, dates: Dates) -> None:
    """Epochs evenly apart from the left end to the right one, errors in proportion."""
    colours = (charts.RAW, charts.TRUTH)[:several]
    points = [(float(epoch), 1.0 + epoch) for epoch in range(5)]
    series = [("one", colour, (), points) for colour in colours]
    drawn = str(svg.render(charts.lines(series, "epoch", "~g", dates=dates), "a chart", "x"))
    for colour in colours:
        (path,) = re.findall(rf'd="M([^"]+)" stroke="{colour}"', drawn)
        places = np.array([[float(one) for one in point.split(",")] for point in path.split("L")])
        assert places.shape == (5, 2)
        assert places[0, 0] == 0.0
        np.testing.assert_allclose(np.diff(places[:, 0]), places[-1, 0] / 4, atol=0.11)
        np.testing.assert_allclose(np.diff(places[:, 1]), (places[-1, 1] - places[0, 1]) / 4, atol=0.11)


@pytest.mark.parametrize("dates", [Dates(), DAYS], ids=["numbers", "dates"])
def test_each_bar_is_whole_and_in_its_place(dates: Dates) -> None:
    """Epochs evenly apart, a half of the room of one beside the first and the last."""
    row = {"part": "counted", "order": 0, "text": "t"}
    rows = [{**row, "epoch": epoch, "number": 5 + epoch} for epoch in range(4)]
    chart = charts.stack(rows, {"counted": charts.COUNTED}, (0, 3), dates)
    drawn = str(svg.render(chart, "a chart", "x"))
    bars = re.findall(rf'd="M([\d.]+),[\d.]+h([\d.]+)v[^"]*" fill="{charts.COUNTED}"', drawn)
    (width,) = {float(one) for one in re.findall(r'x2="(\d+)" y2="0" stroke="#999999"', drawn)}
    middles = [float(begin) + float(wide) / 2 for begin, wide in bars]
    pad = 5  # Vega's, beside all bars
    wanted = [pad + (width - 2 * pad) * (epoch + 0.5) / 4 for epoch in range(4)]
    assert middles == pytest.approx(wanted, abs=0.2)


def test_an_epoch_stands_where_it_begins() -> None:
    """Milliseconds since 1970, whatever the first epoch is; without a length there are only numbers."""
    dates = Dates(3, datetime(2026, 1, 1, 7, 13, 5, tzinfo=UTC), 3600)
    begin, step = dates.line(3, 9) or (0.0, 0.0)
    for epoch in (0, 3, 9):
        start = present(dates.of(epoch))
        assert begin + epoch * step == 1000 * start.timestamp()
    assert Dates(3, dates.start, None).line(3, 3) is None
    assert dates.line(3, 10**9) is None


def test_an_epoch_beyond_the_calendar_has_no_date() -> None:
    dates = DAYS
    assert dates.named(10**9) == "epoch 1000000000"
    assert dates.named(1) == "epoch 1 (2026-01-02)"
    assert Dates(0, dates.start, 3600).named(1) == "epoch 1 (2026-01-01 01:00)"
    assert Dates(4, dates.start, None).named(4) == "epoch 4 (2026-01-01 00:00)"
    assert Dates(4, dates.start, None).named(5) == "epoch 5"
