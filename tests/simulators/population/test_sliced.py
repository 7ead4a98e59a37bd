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
from ldpbeam.simulators.population.sliced import SlicedPopulation, SlicesAsked, sliced
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

    def draw(
        spec: str, purpose: str = "population", there: tuple[int | None, int | None] = (devices, epochs)
    ) -> Population | Joint:
        given: dict[str, Any] = {"devices": there[0], "epochs": there[1], "purpose": purpose}
        given["random_words"] = RandomWords(seed)
        if collection.domain is None:
            return joint_population(spec, attributes=collection.histograms, **given)
        return population(spec, domain=collection.domain, calendar=collection.epochs, **given)

    people = draw(spec)
    mine = sliced(
        *(spec, people, collection, SlicesAsked(**asked)),
        random_words=RandomWords(seed),
        draw=lambda spec, purpose: draw(spec, purpose, (people.devices, people.epochs)),
        note=notes.append,
    )
    return mine, notes


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
    mine, notes = of(f"panel:{file}:device,day,value", columns=(("land", "land"), ("arm", "group")))
    # A cell without a label is one that the dimension does not list.
    assert labels(mine, "land") == [["DE", "other", None], [None] * 3, ["FR", "other", None]]
    assert labels(mine, "arm") == [["a", "b", None], [None] * 3, ["b", "b", None]]
    assert all((places >= 0).all() for _, places in mine.epochs())
    (note,) = notes
    assert "2 cells with 2 labels that slices.land does not list: taken for 'other'" in note
    with pytest.raises(ValueError, match=r"p.csv:2: column 'land': 'DE' is no label of slices.arm"):
        of(f"panel:{file}:device,day,value", columns=(("arm", "land"),))


def test_columns_of_a_row_go_with_its_value_in_every_epoch(tmp_path: Path) -> None:
    file = tmp_path / "p.csv"
    rows = [(value, land) for value, land in zip("xyzx", ("DE", "FR", "other", "DE"), strict=True)]
    lines = [f"{value},{value},{land}\n" for value, land in rows]
    file.write_text("d1,d2,land\n" + "".join(lines), "utf-8")
    domain = present(ONE.domain)
    for spec, epochs in (("d1..d2", None), ("d1", 2), ("d1,permute", 3)):
        mine, _ = of(f"csv:{file}:{spec}", epochs=epochs, columns=(("land", "land"),))
        said = labels(mine, "land")
        assert len(said) == (epochs or 2)
        for (values, _), each in zip(mine.epochs(), said, strict=True):
            assert sorted(
                (domain.label(value), land) for value, land in zip(values, each, strict=True)
            ) == sorted(rows)
            assert spec == "d1,permute" or each == [land for _, land in rows]
    file.write_text("u,v,group\n0,8,a\n1,7,b\n2,6,a\n", "utf-8")
    mine, _ = of(f"table:{file},permute", TWO, epochs=2, columns=(("arm", "group"),))
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


@pytest.mark.parametrize("collection", [ONE, TWO], ids=["one", "two"])
def test_the_devices_of_a_label_hold_other_values(collection: Collection) -> None:
    common: dict[str, Any] = {"collection": collection, "devices": 5_000, "epochs": 2}
    base, _ = of("syn:0.5", **common)
    mine, _ = of("syn:0.5", **common, own=("arm=b:zipf:40", "arm=a:syn"))
    in_b = [dict(one)["arm"] == "b" for one in collection.slices.combinations]
    in_a = [dict(one)["arm"] == "a" for one in collection.slices.combinations]
    for (values, places), (others, same) in zip(mine.epochs(), base.epochs(), strict=True):
        assert np.array_equal(places, same)
        b, a = np.array(in_b)[places], np.array(in_a)[places]
        assert not values[b].any()
        assert np.array_equal(values[~a & ~b], others[~a & ~b])
        # The same law, drawn for itself, whatever else is listed.
        assert 0.2 < (values[a] == others[a]).mean() < 0.5
    absent = replace(mine, population=Silent(base.population))
    for values, _ in absent.epochs():
        assert (values == ABSENT).all()


def test_of_two_labels_that_fit_the_longer_one_is_meant() -> None:
    mine, _ = of("syn", devices=900, epochs=1, own=("arm=a:b:zipf:40",))
    ((values, _),) = mine.epochs()
    (said,) = labels(mine, "arm")
    for label in ("a", "b", "a:b"):
        assert values[[one == label for one in said]].any() == (label != "a:b")


class Silent:
    """A population that is never there."""

    def __init__(self, other: Any) -> None:
        self._other = other

    def __getattr__(self, name: str) -> Any:
        return getattr(self._other, name)

    def values(self) -> Any:
        return (np.full_like(values, ABSENT) for values in self._other.values())


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ({"columns": (("land", "x"),)}, "'syn': its values are drawn, so it has no columns"),
        ({"columns": (("os", "x"),)}, "no slices.os; it has: arm, land"),
        ({"shares": (SliceShares("os", (), (0.5, 0.5)),)}, "no slices.os"),
        ({"own": ("os=a:syn",)}, "no slices.os"),
        ({"own": ("arm=c:syn",)}, "'arm=c:syn' is no label of slices.arm with syn or zipf"),
        ({"own": ("arm=a:csv:x:y",)}, "with syn or zipf"),
        ({"own": ("arm=a:zipf:-1",)}, "the exponent is '-1'"),
        ({"shares": (SliceShares("arm", (), (0.5, 0.5)),)}, "shares of arm are not one for each"),
        (
            {"shares": (SliceShares("arm", ("a", "a", "b"), (0.5, 0.3, 0.2)),)},
            "each of its labels: a, b, a:b",
        ),
        (
            {"columns": (("arm", "x"),), "shares": (SliceShares("arm", (), (0.5, 0.5)),)},
            "a column and shares",
        ),
    ],
)
def test_slices_that_the_collection_has_not_are_refused(asked: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        of("syn", devices=9, epochs=1, **asked)
    with pytest.raises(ValueError, match=r"no slices\.arm; it has: no slices"):
        of("syn", replace(ONE, slices=Slices()), 9, 1, own=("arm=a:syn",))
