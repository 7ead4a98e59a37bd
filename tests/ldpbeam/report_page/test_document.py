"""What the page says."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from ldpbeam.durable.document import document
from ldpbeam.report_page.document import write_page
from ldpbeam.report_page.privacy import odds
from tests.ldpbeam.report_page.reader import Reader, change, harmless, page_of
from tests.ldpbeam.report_page.synthetic import Fake, write_run

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


@pytest.mark.parametrize(
    ("non_negative", "sums_to_one", "words"),
    [
        (True, False, "histogram power nothing negative"),
        (False, True, "histogram power adds up to 1"),
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


@pytest.mark.parametrize(("loss", "said"), [(0.01, "1.010"), (1.0, "2.7"), (5.0, "148"), (155.3, "10^67.4")])
def test_odds(loss: float, said: str) -> None:
    assert odds(loss) == said


@pytest.mark.thorough
def test_a_violated_identity_cannot_be_overlooked(tmp_path: Path) -> None:
    text = Reader(page_of(tmp_path, Fake(), unbalanced=2)).text
    assert "VIOLATED by +2" in text
    assert "≠ counted" in text


def test_a_sound_run_raises_no_alarm(usual: Reader) -> None:
    assert "VIOLATED" not in usual.text
    assert not any("alarm" in (attributes.get("class") or "") for _, attributes in usual.elements)


@pytest.mark.thorough
def test_without_truth_the_page_does_not_pretend_to_know(tmp_path: Path) -> None:
    text = Reader(page_of(tmp_path, Fake(), truth=False)).text
    assert "Estimated, over epochs" in text
    assert "True against" not in text
    assert "Unknown without the truth" in text
    assert "closer to the truth" not in text


class Flat(Fake):
    def frequencies(self, epoch: int) -> Any:
        return super().frequencies(epoch) * 0 + 1 / self.k


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("fake", "answer"),
    [
        (Fake(n=200_000, k=20), "Yes: the raw estimates beat answering 1/k"),
        (Fake(n=12_000, k=100), "Only after post-processing"),
        (Flat(epochs=3), "simply answering 1/k would have been closer to the truth"),
    ],
)
def test_the_page_says_plainly_whether_the_run_beats_answering_1_over_k(
    tmp_path: Path, fake: Fake, answer: str
) -> None:
    assert answer in Reader(page_of(tmp_path, fake)).text


def test_privacy_figures_never_stand_without_their_condition(usual: Reader) -> None:
    text = usual.text
    assert "First report 1 A first report tells at most ε = 1." in text
    head = "Which hash symbols, times known 4"
    assert f"{head} 365 reports of a device tell at most ε = 4 about which hash symbols" in text
    assert "That is no limit for what they tell about its values" in text
    head = "All reports, whatever changes 260.5"
    assert f"{head} 365 reports of a device tell at most ε = 260.5, whatever changes." in text
    assert "Not covered adds up Other collections." in text
    assert "any change pattern: not capped" in text
    assert not re.search(r"ε.? per report|≤ ?g·ε|total ≤", text)
