"""What the page must never contain, how large it may be, and what it does with odd runs."""

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ldpbeam.report_page import charts, document, parts
from ldpbeam.report_page.document import write_page
from tests.ldpbeam.report_page.reader import Reader, change, harmless, page_of
from tests.ldpbeam.report_page.synthetic import Fake, write_run
from tests.waiting import quickly

HOSTILE = (
    "<script>alert(1)</script>",
    "</svg><img src=x onerror=alert(2)>",
    "</title></style><b>",
    "'\"><a href=javascript:alert(3)>",
    "datum.value) || alert(4",
    "{{ 7 * 7 }}{% raw %}",
    "https://example.com/x.js",
    "//example.com/y.js",
    "a\x00b\x1b[31m\u202ec\uffff",
    "&lt;script&gt; ]]> <!-- --",
    "x" * 5000,
    "same",
    "same",
    "",
)


def test_labels_are_text_and_nothing_else(tmp_path: Path) -> None:
    labels = [*HOSTILE, *(f"label {i}" for i in range(len(HOSTILE), 100))]
    html = page_of(tmp_path, Fake(name=HOSTILE[0], k=100, labels=labels, epochs=3))
    reader = harmless(html)
    assert "<script>alert(1)</script>" in reader.text
    assert "</svg><img src=x onerror=alert(2)>" in reader.text
    assert "{{ 7 * 7 }}" in reader.text
    assert "https://example.com/x.js" in reader.text  # shown, yet no address in the source
    assert not re.search("[\x00-\x08\x0b-\x1f\u202e\uffff]", html)
    assert "x" * 61 not in html


@pytest.mark.thorough
def test_reasons_and_record_are_text_and_nothing_else(tmp_path: Path) -> None:
    output, truth = write_run(tmp_path, [Fake(epochs=2)], rejected={HOSTILE[0]: 5, HOSTILE[1]: 5})
    lone = "\ud800" + HOSTILE[1]
    change(
        output,
        runner=lone,
        versions={HOSTILE[0]: HOSTILE[6]},
        inputs=[{"path": HOSTILE[0]}],
        files=[{"path": lone, "sha256": HOSTILE[1], "bytes": 2**21, "rows": 1}],
    )
    harmless(write_page(output, tmp_path / "page.html", truth).read_text("utf-8"))


@pytest.mark.slow
def test_a_thousand_epochs_of_a_thousand_values_fit(tmp_path: Path) -> None:
    """In two megabytes and ten seconds of work, all epochs to be chosen from."""
    output, truth = write_run(tmp_path, [Fake(k=1000, epochs=1000, n=200_000)])
    html = quickly(lambda: write_page(output, tmp_path / "page.html", truth), 10).read_text("utf-8")
    assert len(html.encode()) <= 2_000_000
    assert '<div class="explorer" hidden>' in html
    assert "Drawn are the last" not in html


@pytest.mark.parametrize(("sections", "shown"), [(0, 120), (1, 120), (4, 30), (8, 15), (100, 15)])
def test_the_caps_are_shared_by_the_sections(sections: int, shown: int) -> None:
    """As measured at the caps, with long labels and four reasons of rejects."""
    detail = parts.Detail.of(sections)
    assert detail.epochs == shown
    drawn = min(max(sections, 1), parts.SECTIONS)
    expected = 60_000 + 700 * detail.epochs + 185 * detail.rows + 500 * detail.bins
    expected += 350 * detail.drawn + 2_600 * detail.marks + detail.octets
    assert drawn * expected + 350 * parts.LISTED <= 2_000_000


@pytest.mark.thorough
def test_collections_without_a_section_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "SECTIONS", 1)
    fakes = [Fake(name=f"name{i}", digest=f"{i:016x}", k=2, epochs=1) for i in range(3)]
    text = harmless(page_of(tmp_path, *fakes)).text
    assert "Further collections, which are not drawn name1 name2" in text


@pytest.mark.parametrize(("k", "shown"), [(100, 2), (2000, 1)])
def test_neighbours_are_not_averaged_over_consistent_numbers(tmp_path: Path, k: int, shown: int) -> None:
    """The largest values have a bar for theirs, the whole domain only where every value has a point."""
    page = page_of(tmp_path, Fake(k=k, epochs=1))
    assert ("Each point is the mean of" in Reader(page).text) == (k == 2000)
    assert page.count("consistent (norm_sub)") == shown
    figures = re.findall(r"<figure.*?</figure>", page, re.DOTALL)
    [domain] = [figure for figure in figures if f"all {k:,} values" in figure]
    assert (charts.CONSISTENT in domain) == (k == 100)


@pytest.mark.parametrize("epochs", [1, 4])
def test_a_run_with_nothing_to_show_has_a_sensible_page(tmp_path: Path, epochs: int) -> None:
    text = harmless(page_of(tmp_path, Fake(epochs=epochs, insufficient=range(epochs)))).text
    assert "nothing could be estimated" in text


@pytest.mark.thorough
def test_the_highest_revision_is_the_one_shown(tmp_path: Path) -> None:
    output, truth = write_run(tmp_path, [Fake(epochs=2)])
    old = sorted((output / "estimates").iterdir())[-1]
    table = pq.read_table(old)
    for column, value in (
        ("revision", pa.array([1] * 40, pa.int32())),
        ("n", pa.array([77_777] * 40)),
    ):
        table = table.set_column(table.column_names.index(column), column, value)
    pq.write_table(table, old.with_name(old.name.replace("-r0", "-r1")))
    text = Reader(write_page(output, tmp_path / "page.html", truth).read_text("utf-8")).text
    assert "77,777 reports in epoch 1" in text


@pytest.mark.thorough
def test_unreadable_files_are_named_and_the_rest_is_shown(tmp_path: Path) -> None:
    output, _ = write_run(tmp_path, [Fake(epochs=2)])
    (output / "estimates" / "torn.parquet").write_bytes(b"PAR1 torn")
    bad = tmp_path / "bad.parquet"
    bad.write_bytes(b"")
    text = Reader(write_page(output, tmp_path / "page.html", bad).read_text("utf-8")).text
    assert "torn.parquet could not be read" in text
    assert "The truth file could not be read" in text
    assert "minutes_in_app" in text
