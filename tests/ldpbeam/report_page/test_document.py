"""What the page says."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ldpbeam.collection.file import parse_collection
from ldpbeam.durable.document import document
from ldpbeam.report_page.document import write_page
from ldpbeam.report_page.privacy import odds
from tests.ldpbeam.report_page.reader import Reader, change, harmless, page_of
from tests.ldpbeam.report_page.synthetic import ONE_ROUND, Fake, write_run

SECTIONS = ("over epochs", "Histogram", "Accounting", "Error", "Privacy", "Run record")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page of an ordinary simulated run."""
    return page_of(tmp_path_factory.mktemp("usual"), Fake())


@pytest.fixture(scope="module")
def usual(page: str) -> Reader:
    """It as it is read; only to be read."""
    return harmless(page)


def test_all_sections_stand_in_order_and_the_page_is_self_contained(usual: Reader) -> None:
    places = [usual.text.index(word) for word in SECTIONS]
    assert places == sorted(places)
    strip = r"report [\d,]+ .* epoch 12 .* support 40 counts .* estimate ± .* histogram norm_sub"
    assert re.search(strip, usual.text)
    assert "minutes_in_app" in usual.text
    assert "loloha" in usual.text
    assert "True against estimated" in usual.text


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("non_negative", "sums_to_one", "words"),
    [
        (True, True, "histogram power adds up to 1, nothing negative"),
        (True, False, "histogram power nothing negative"),
        (False, True, "histogram power adds up to 1"),
        (False, False, "histogram power the raw estimates as they are"),
    ],
)
def test_the_strip_says_what_the_record_promises(
    tmp_path: Path, non_negative: bool, sums_to_one: bool, words: str
) -> None:
    output, _ = write_run(tmp_path, [Fake(k=2, epochs=1)])
    (entry,) = json.loads((output / "run.json").read_text())["collections"]
    promises = {"non_negative": non_negative, "sums_to_one": sums_to_one}
    change(output, collections=[{**entry, "consistency": "power", "promises": promises}])
    text = Reader(write_page(output, tmp_path / "page.html").read_text("utf-8")).text
    assert f"{words} True" in text or f"{words} Estimated" in text


def test_every_chart_has_a_sentence_a_name_and_a_table_is_at_hand(page: str, usual: Reader) -> None:
    reader = usual
    captions = re.findall(r"<figcaption>(.*?)</figcaption>", page, re.S)
    assert [caption for caption in captions if not caption.strip().endswith(".")] == []
    charts = [a for tag, a in reader.elements if tag == "svg" and "chart" in (a.get("class") or "")]
    assert len(charts) == 6 + reader.count("figure")
    assert all(len(chart["aria-label"] or "") > 20 and chart["role"] == "img" for chart in charts)
    assert all("viewbox" in chart for chart in charts)
    assert reader.count("figcaption") == reader.count("figure") > 1
    assert reader.count("details") == reader.count("summary") >= reader.count("figure")


@pytest.mark.thorough
def test_versions_of_a_collection_are_told_apart(tmp_path: Path) -> None:
    """By their version; by their digest, where nobody raised it. A name of its own needs neither."""
    fakes = [Fake(name=name, digest=f"{i:016x}", k=2, epochs=1) for i, name in enumerate("aaab")]
    output, _ = write_run(tmp_path, fakes)
    record = json.loads((output / "run.json").read_text())
    record["collections"][0]["version"] = 2
    (output / "run.json").write_bytes(document(record))
    html = write_page(output, tmp_path / "page.html").read_text("utf-8")
    assert re.findall(r"<h2[^>]*><bdi>([^<]*)", html) == [
        "a · version 2",
        f"a · version 1 (digest {1:016x})",
        f"a · version 1 (digest {2:016x})",
        "b",
    ]
    (output / "run.json").unlink()
    html = write_page(output, tmp_path / "page.html").read_text("utf-8")
    assert f"<bdi>a · digest {0:016x}</bdi></h2>" in html


@pytest.mark.thorough
def test_the_largest_values_come_first(tmp_path: Path, usual: Reader) -> None:
    """Where values are words; numbers keep their order in the chart, and only the table is sorted."""
    labels = ["low", "high", "middle"]

    class Three(Fake):
        def frequencies(self, epoch: int) -> Any:
            return np.array([0.1, 0.6, 0.3])

    html = page_of(tmp_path, Three(k=3, labels=labels, epochs=1))
    drawn = html[html.index("Histogram of the last epoch") :]
    assert re.findall(r">(low|high|middle)</text>", drawn)[:3] == [
        "high",
        "middle",
        "low",
    ]
    assert re.findall(r"<bdi>(low|high|middle)</bdi>", drawn)[:3] == ["high", "middle", "low"]
    table = usual.text[usual.text.index("Table: epoch 11 by value, the largest first") :]
    supports = [int(n.replace(",", "")) for n in re.findall(r" \d+ \d+ (\d\d,\d{3}) [−\d]", table)]
    assert len(supports) == 40
    assert supports == sorted(supports, reverse=True)
    many = page_of(tmp_path / "many", Fake(k=100, epochs=1))
    assert many.index("the 20 largest estimates") < many.index("all 100 values")


@pytest.mark.thorough
def test_up_to_60_values_have_a_bar_each_with_their_labels(tmp_path: Path) -> None:
    """Columns, whose axis is short of room, are for values that have no labels but their numbers."""

    def axis(root: Path, labels: list[str] | None) -> list[str]:
        html = page_of(root, Fake(k=40, epochs=1, labels=labels), truth=False)
        drawn = html[html.index("Histogram of the last epoch") : html.index("Table: epoch 0 by value")]
        return re.findall(r">(value|(?:label )?\d+)</text>", drawn)

    labels = [f"label {value}" for value in range(40)]
    assert sorted(axis(tmp_path / "named", labels)) == sorted(labels)
    for numbers in (None, [f"value {value}" for value in range(40)]):
        assert axis(tmp_path / f"{numbers is None}", numbers) == [*map(str, range(0, 40, 2)), "value"]


@pytest.mark.thorough
def test_each_point_of_a_whole_domain_stands_over_its_values(tmp_path: Path) -> None:
    """Of 1,000 values three share a point, and the last is alone."""
    html = page_of(tmp_path, Fake(k=1000, epochs=1), truth=False)
    drawn = html[html.index("all 1,000 values") :]
    ticks = re.findall(r"translate\(([\d.]+),1\d\)[^>]*>(100|900)</text>", drawn)[:2]
    (one, low), (other, high) = [(float(place), int(value)) for place, value in ticks]
    middles = [*range(1, 999, 3), 999]
    step = (other - one) / (high - low)
    band = re.search(r'<path d="M([^"]*)Z" fill="#0072B2"', drawn)
    assert band is not None
    found = [float(point.split(",")[0]) for point in band[1].split("L")]
    # The edges of a band: above in order, below on the way back. Places are drawn to a tenth.
    wanted = [one + (middle - low) * step for middle in middles]
    np.testing.assert_allclose(found, [*wanted, *reversed(wanted)], atol=0.3)


def test_no_term_stands_without_its_gloss(usual: Reader) -> None:
    """What ε means as odds, every ± of one kind, and the words that the page uses."""
    text = usual.text
    assert (
        "ε = 1 means odds at most × 2.7, ε = 2 at most × 7.4. Here, one report: odds at most × 2.7." in text
    )
    words = text[text.index("Words on this page") :]
    for word in (
        "report",
        "support",
        "consistent",
        "±, 95 % interval",
        "false-discovery rate",
        "withheld",
        "1/k",
    ):
        assert f" {word} " in words, word
    assert "here 40 " in words
    assert "foreign_epoch The epoch is none of the collection's" in words
    assert "malformed The record is not a Report" in words
    assert "truncated" not in words
    assert "std. error" not in text


@pytest.mark.parametrize(("loss", "said"), [(0.01, "1.010"), (1.0, "2.7"), (5.0, "148"), (155.3, "10^67.4")])
def test_odds(loss: float, said: str) -> None:
    assert odds(loss) == said


@pytest.mark.thorough
def test_a_violated_identity_cannot_be_overlooked(tmp_path: Path) -> None:
    text = Reader(page_of(tmp_path, Fake(), unbalanced=2)).text
    assert "The accounting does not add up" in text
    assert "minutes_in_app, epoch 0: read" in text
    assert "VIOLATED by +2" in text
    assert "≠ counted" in text


@pytest.mark.thorough
def test_a_total_that_differs_from_its_epochs_is_a_violation(tmp_path: Path) -> None:
    output, truth = write_run(tmp_path, [Fake()])
    record = json.loads((output / "run.json").read_text())
    record["accounting"]["total"]["late"] += 1
    record["accounting"]["total"]["counted"] -= 1
    change(output, accounting=record["accounting"])
    text = Reader(write_page(output, tmp_path / "page.html", truth).read_text("utf-8")).text
    assert "Whole run: late is" in text
    assert "The accounting does not add up" in text


def test_a_sound_run_raises_no_alarm(usual: Reader) -> None:
    assert "does not add up" not in usual.text
    assert "VIOLATED" not in usual.text
    assert not any("alarm" in (attributes.get("class") or "") for _, attributes in usual.elements)


@pytest.mark.thorough
def test_without_truth_the_page_does_not_pretend_to_know(tmp_path: Path) -> None:
    text = Reader(page_of(tmp_path, Fake(), truth=False)).text
    assert "Estimated, over epochs" in text
    assert "True against" not in text
    assert "Unknown without the truth" in text
    assert "closer to the truth" not in text


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("n", "k", "answer"),
    [
        (200_000, 20, "Yes: the raw estimates beat answering 1/k"),
        (12_000, 100, "Only after post-processing"),
    ],
)
def test_the_page_says_plainly_whether_the_run_beats_answering_1_over_k(
    tmp_path: Path, n: int, k: int, answer: str
) -> None:
    assert answer in Reader(page_of(tmp_path, Fake(n=n, k=k))).text


@pytest.mark.thorough
def test_a_run_worse_than_1_over_k_is_told_so(tmp_path: Path) -> None:
    class Flat(Fake):
        def frequencies(self, epoch: int) -> Any:
            return super().frequencies(epoch) * 0 + 1 / self.k

    text = Reader(page_of(tmp_path, Flat(epochs=3))).text
    assert "No: this run does not beat answering 1/k" in text
    assert "simply answering 1/k would have been closer to the truth" in text


def test_privacy_figures_never_stand_without_their_condition(usual: Reader) -> None:
    text = usual.text
    assert "First report 1 A first report tells at most ε = 1." in text
    head = "Which hash symbols, times known 4"
    assert f"{head} 365 reports of a device tell at most ε = 4 about which hash symbols" in text
    assert "That is no limit for what they tell about its values" in text
    head = "All reports, whatever changes 513.8"
    assert f"{head} 365 reports of a device tell at most ε = 513.8, whatever changes." in text
    assert "Not covered adds up Other collections." in text
    assert "any change pattern: not capped" in text
    assert not re.search(r"ε.? per report|≤ ?g·ε|total ≤", text)


@pytest.mark.thorough
def test_a_one_round_guarantee_has_no_cap(tmp_path: Path) -> None:
    text = Reader(page_of(tmp_path, Fake(protocol="olh", guarantee=ONE_ROUND))).text
    assert "One report 1 A report tells at most ε = 1." in text
    assert "Nothing is memoised: 365 reports of a device tell at most ε = 365, whatever changes." in text
    assert "times known" not in text
    assert "Loss over reports" not in text


@pytest.mark.thorough
def test_what_two_reports_lose_and_what_is_not_hidden_is_said(tmp_path: Path) -> None:
    """As a collection really states it, beside the first report's level."""

    def text_of(protocol: str, size: int, **levels: float) -> str:
        lines = [f"name: a\ndomain: {{size: {size}}}\nepoch: {{length: 1h}}\nprotocol: {protocol}"]
        lines += [f"{name}: {level}" for name, level in levels.items()]
        guarantee = parse_collection("\n".join(lines)).as_record()["guarantee"]
        assert isinstance(guarantee, dict)
        folder = tmp_path / f"{protocol}-{size}-{'-'.join(map(str, levels.values()))}"
        folder.mkdir()
        return Reader(page_of(folder, Fake(protocol=protocol, guarantee=guarantee, epochs=4))).text

    unary = text_of("l_osue", 360, epsilon_longitudinal=2.0, epsilon_first=1.0)
    assert "Two reports 155.4 Two reports tell at most ε = 155.4, whatever changed between them." in unary
    assert "about which values it held, to somebody who knows when" in unary
    assert "Not hidden visible Changes and devices." in unary
    assert "Not hidden visible Taking part." in unary
    assert "any change pattern: not capped" in unary
    assert "452.8" in unary
    near = text_of("loloha", 360, epsilon_longitudinal=0.5, epsilon_first=0.45, g=3)
    assert "Two reports 2.359 " in near
    calm = text_of("loloha", 360, epsilon_longitudinal=2.0, epsilon_first=1.0, g=2)
    assert "Two reports 2 " in calm
    bare = text_of("dbitflip_pm", 360, epsilon_longitudinal=2.0, d=4)
    assert "Two reports no bound Two different reports of a device prove that its value changed." in bare
    assert "Nothing limits what 365 reports of a device tell about when a value changed." in bare
    assert "688,235,310" in bare


@pytest.mark.thorough
@pytest.mark.parametrize(("cap", "drawn"), [(4.0, True), (720.0, False)])
def test_a_cap_far_above_the_curves_does_not_flatten_them(tmp_path: Path, cap: float, drawn: bool) -> None:
    curves = {"loss_same_changes": [[1, 1.0], [2, 2.0]], "loss_any_changes": None}
    text = Reader(
        page_of(tmp_path, Fake(guarantee={"cap_over_inputs": cap, "inputs": "buckets", **curves}))
    ).text
    assert "whose buckets change, and come back, at the same epochs" in text
    assert (f"cap over buckets {cap:g}" in text) == drawn


@pytest.mark.thorough
@pytest.mark.parametrize(
    "guarantee",
    [None, {}, {"first_report": None, "loss_same_changes": None}, {"loss_any_changes": [[1, 1.0]]}],
)
def test_missing_parts_of_a_guarantee_are_left_out(tmp_path: Path, guarantee: Any) -> None:
    assert "Privacy" in Reader(page_of(tmp_path, Fake(guarantee=guarantee))).text
