"""Slices of populations: columns of their files, drawn labels, and values of one label's devices."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ldpbeam.collection.collection import Collection
from ldpbeam.collection.file import parse_collection
from ldpbeam.collection.slice_shares import SliceShares
from ldpbeam.collection.slices import Slices
from ldpbeam.simulators.population.joint import Joint, joint_population
from ldpbeam.simulators.population.sliced import SlicedPopulation, sliced
from ldpbeam.simulators.population.specs import ABSENT, Population, population
from ldpbeam.simulators.random_words import RandomWords
from tests.narrow import present

TEXT = "name: a\nprotocol: oue\nepsilon: 1.0\nepoch: {length: 1d}\n"
ONE = parse_collection(
    TEXT + "domain: {labels: [x, y, z]}\nslices: {arm: [a, b, a:b], land: [DE, FR, other]}"
)
TWO = parse_collection(
    TEXT + "attributes: [{name: u, domain: {size: 3}}, {name: v, domain: {size: 9}}]\nallocation: sample\n"
    "slices: {arm: [a, b]}"
)
ROWS = """device,day,value,land,group
1,0,x,DE,a
2,0,y,AT,b
1,2,z,FR,b
3,2,,DE,a
2,2,y,,b
"""


def of(
    spec: str,
    collection: Collection = ONE,
    devices: int | None = None,
    epochs: int | None = None,
    seed: int = 3,
    **asked: Any,
) -> tuple[SlicedPopulation, list[str]]:
    notes: list[str] = []

    given: dict[str, Any] = {"devices": devices, "epochs": epochs, "random_words": RandomWords(seed)}
    people: Population | Joint
    if collection.domain is None:
        people = joint_population(spec, attributes=collection.histograms, **given)
    else:
        people = population(spec, domain=collection.domain, calendar=collection.epochs, **given)
    return sliced(spec, people, collection, **asked, random_words=RandomWords(seed), note=notes.append), notes


def labels(mine: SlicedPopulation, name: str) -> list[list[str | None]]:
    """Of the devices in each epoch; None for an absent one."""
    said = [dict(one)[name] for one in mine.slices.combinations]
    return [
        [None if value == ABSENT else said[place] for value, place in zip(values, places, strict=True)]
        for values, places in mine.epochs()
    ]


def test_rows_of_a_panel_have_the_label_of_their_epoch(tmp_path: Path) -> None:
    file = tmp_path / "p.csv"
    file.write_text(ROWS, "utf-8")
    mine, notes = of(f"panel:{file}:device,day,value", columns_of=(("land", "land"), ("arm", "group")))
    # A cell without a label is one that the dimension does not list.
    assert labels(mine, "land") == [["DE", "other", None], [None] * 3, ["FR", "other", None]]
    assert labels(mine, "arm") == [["a", "b", None], [None] * 3, ["b", "b", None]]
    assert all((places >= 0).all() for _, places in mine.epochs())
    (note,) = notes
    assert "2 cells with 2 labels that slices.land does not list: taken for 'other'" in note
    with pytest.raises(ValueError, match=r"p.csv:2: column 'land': 'DE' is no label of slices.arm"):
        of(f"panel:{file}:device,day,value", columns_of=(("arm", "land"),))


def test_columns_of_a_row_go_with_its_value_in_every_epoch(tmp_path: Path) -> None:
    file = tmp_path / "p.csv"
    rows = [(value, land) for value, land in zip("xyzx", ("DE", "FR", "other", "DE"), strict=True)]
    lines = [f"{value},{value},{land}\n" for value, land in rows]
    file.write_text("d1,d2,land\n" + "".join(lines), "utf-8")
    domain = present(ONE.domain)
    for spec, epochs in (("d1..d2", None), ("d1", 2), ("d1,permute", 3)):
        mine, _ = of(f"csv:{file}:{spec}", epochs=epochs, columns_of=(("land", "land"),))
        said = labels(mine, "land")
        assert len(said) == (epochs or 2)
        for (values, _), each in zip(mine.epochs(), said, strict=True):
            assert sorted(
                (domain.label(value), land) for value, land in zip(values, each, strict=True)
            ) == sorted(rows)
            assert spec == "d1,permute" or each == [land for _, land in rows]
    file.write_text("u,v,group\n0,8,a\n1,7,b\n2,6,a\n", "utf-8")
    mine, _ = of(f"table:{file},permute", TWO, epochs=2, columns_of=(("arm", "group"),))
    for values, places in mine.epochs():
        found = sorted((*row, place) for row, place in zip(values.tolist(), places.tolist(), strict=True))
        assert found == [(0, 8, 0), (1, 7, 1), (2, 6, 0)]


def test_drawn_labels_are_for_life_and_have_their_shares() -> None:
    arm = SliceShares("arm", ("a:b", "a", "b"), (0.2, 0.3, 0.5))
    mine, notes = of("zipf:1.1", devices=20_000, epochs=2, shares=(arm,))
    first, second = labels(mine, "arm")
    assert first == second
    for label, share in (("a", 0.3), ("b", 0.5), ("a:b", 0.2)):
        assert abs(first.count(label) - 20_000 * share) < 5.5 * np.sqrt(20_000 * share * (1 - share))
    (land, _) = labels(mine, "land")
    both = sum(pair == ("a", "DE") for pair in zip(first, land, strict=True))
    assert abs(both - 2_000) < 5.5 * np.sqrt(2_000 * 0.9)  # of two dimensions independent
    assert notes == ["slices.land: devices draw their labels, which are equally frequent"]
    fewer, _ = of("zipf:1.1", devices=50, epochs=1, shares=(arm,))
    assert labels(fewer, "arm")[0] == first[:50]
    # Values are those of the population without slices.
    plain = population(
        "zipf:1.1", domain=present(ONE.domain), devices=20_000, epochs=2, random_words=RandomWords(3)
    )
    for (values, _), others in zip(mine.epochs(), plain.values(), strict=True):
        assert np.array_equal(values, others)


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ({"columns_of": (("land", "x"),)}, "'syn': its values are drawn, so it has no columns"),
        ({"columns_of": (("os", "x"),)}, "no slices.os; it has: arm, land"),
        ({"shares": (SliceShares("os", (), (0.5, 0.5)),)}, "no slices.os"),
        ({"shares": (SliceShares("arm", (), (0.5, 0.5)),)}, "shares of arm are not one for each"),
        (
            {"shares": (SliceShares("arm", ("a", "a", "b"), (0.5, 0.3, 0.2)),)},
            "each of its labels: a, b, a:b",
        ),
        (
            {"columns_of": (("arm", "x"),), "shares": (SliceShares("arm", (), (0.5, 0.5)),)},
            "a column and shares",
        ),
    ],
)
def test_slices_that_the_collection_has_not_are_refused(asked: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        of("syn", devices=9, epochs=1, **asked)
    with pytest.raises(ValueError, match=r"no slices\.arm; it has: no slices"):
        of("syn", replace(ONE, slices=Slices()), 9, 1, columns_of=(("arm", "x"),))
