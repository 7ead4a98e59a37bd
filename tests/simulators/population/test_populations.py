"""Populations: known answers on real data, the laws of the drawn ones, and what errors say."""

from __future__ import annotations

import gzip
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ldpbeam.collection.domain import Domain
from ldpbeam.collection.epochs import Epochs, parse_duration, parse_instant
from ldpbeam.simulators.population.panel import epoch_of_text
from ldpbeam.simulators.population.specs import Panel, Population, population
from ldpbeam.simulators.population.tables import read_columns
from ldpbeam.simulators.random_words import RandomWords

FALSE_ALARM = 1e-9
"""Probability that a sound population fails one statistical test of this file."""


def build(
    spec: str,
    size: int | Domain,
    devices: int | None = None,
    epochs: int | None = None,
    seed: int = 1,
) -> Population:
    domain = Domain(size) if isinstance(size, int) else size
    return population(spec, domain=domain, devices=devices, epochs=epochs, random_words=RandomWords(seed))


def matrix(population: Population) -> NDArray[np.int32]:
    """All epochs, shape (epochs, devices), with the contract of ``values`` checked."""
    epochs = list(population.values())
    assert len(epochs) == population.epochs
    for values in epochs:
        assert values.shape == (population.devices,)
        assert values.dtype == np.int32
        assert values.flags.writeable
        assert values.min() >= -1
    return np.stack(epochs)


def seen(population: Population, size: int) -> NDArray[np.bool_]:
    """Which device held which value at some epoch, shape (devices, size)."""
    table = np.zeros((population.devices, size), dtype=np.bool_)
    devices = np.arange(population.devices)
    for values in population.values():
        table[devices[values >= 0], values[values >= 0]] = True
    return table


def bernstein(probability: NDArray[np.float64] | float, count: int, rate: float) -> NDArray[np.float64]:
    """How far the mean of ``count`` independent or negatively associated trials strays."""
    log = np.log(2 / rate)
    p = np.asarray(probability, dtype=np.float64)
    linear = log / (3 * count)
    bound: NDArray[np.float64] = linear + np.sqrt(linear**2 + 2 * p * (1 - p) * log / count)
    return bound


def write(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


# --- Drawn populations


def test_syn_visits_as_many_values_as_the_paper_says() -> None:
    """docs/maths.md section 6: 29.5 distinct values per device (LOLOHA: n = 10,000, 120 epochs)."""
    n, k, epochs = 10_000, 360, 120
    trial = 1 - (1 - 1 / k) * (1 - 0.25 / k) ** (epochs - 1)
    assert round(k * trial, 1) == 29.5
    tolerance = k * bernstein(trial, n * k, FALSE_ALARM)
    assert tolerance < 0.4
    mean = seen(build("syn", k, n, epochs), k).sum() / n
    assert abs(mean - k * trial) < tolerance
    other = seen(build("syn:0.24", k, n, epochs), k).sum() / n
    assert abs(other - k * trial) > tolerance  # the test tells 0.24 from 0.25


@pytest.mark.parametrize(
    ("spec", "change"), [("syn", 0.25), ("syn:0.1", 0.1), ("zipf:1.1", 0.25), ("zipf:1.1:0.6", 0.6)]
)
def test_drawn_values_are_those_of_the_plain_rule(spec: str, change: float) -> None:
    """Device by device, from the words of each epoch: no rate may be a little off."""
    k, n, epochs = 50, 3000, 5
    random_words = RandomWords(1)
    weights = 1 / np.arange(1, k + 1) ** 1.1
    law = np.cumsum(weights) / np.cumsum(weights)[-1]

    def drawn(generator: np.random.Generator) -> list[int]:
        if spec.startswith("syn"):
            return [int(v) for v in generator.integers(0, k, size=n, dtype=np.int32)]
        return [int(np.searchsorted(law, u, side="right")) for u in generator.random(n)]

    current = drawn(random_words.generator("population", 0))
    expected = [current]
    for epoch in range(1, epochs):
        generator = random_words.generator("population", epoch)
        uniform = [float(u) for u in generator.random(n)]
        fresh = drawn(generator)
        current = [new if u < change else old for u, new, old in zip(uniform, fresh, current, strict=True)]
        expected.append(current)
    people = build(spec, k, n, epochs)
    for _ in range(2):
        np.testing.assert_array_equal(matrix(people), expected)
    np.testing.assert_array_equal(matrix(build(spec, k, n, 2)), expected[:2])


def test_drawn_populations_carry_the_labels_of_the_domain() -> None:
    assert build("syn", Domain(2, ("no", "yes")), 3, 1).labels == ("no", "yes")
    assert build("syn", 2, 3, 1).labels is None


# --- Tables


def test_one_column(tmp_path: Path) -> None:
    file = write(tmp_path / "a.csv", "name,my hours", "x,9", "y,100", '"z, z",10', "w,9", "v,")
    fixed = build(f"csv:{file}:my hours", 4, epochs=2)
    assert matrix(fixed).tolist() == [[0, 2, 1, 0, -1]] * 2  # as numbers: 9, 10, 100; empty is absent
    assert fixed.labels == ("9", "10", "100", "")
    assert matrix(build(f"csv:{file}:my hours", 4, 3, 1)).tolist() == [[0, 2, 1]]
    assert matrix(build(f"csv:{file}:name", 5, epochs=1)).tolist() == [[2, 3, 4, 1, 0]]


def test_permuted_column(tmp_path: Path) -> None:
    file = write(tmp_path / "a.csv", "v", *map(str, range(100)))
    values = matrix(build(f"csv:{file}:v,permute", 100, epochs=3))
    np.testing.assert_array_equal(np.sort(values, axis=1), [np.arange(100)] * 3)
    assert len({row.tobytes() for row in values} | {np.arange(100, dtype=np.int32).tobytes()}) == 4
    np.testing.assert_array_equal(values[:2], matrix(build(f"csv:{file}:v,permute", 100, epochs=2)))


def test_one_column_per_epoch(tmp_path: Path) -> None:
    file = write(tmp_path / "a.csv", "w2,w10,x,w1,w3", "b,c,-,a,", "c,b,-,a,b")
    assert matrix(build(f"csv:{file}:w1..w10", 3)).tolist() == [[0, 0], [1, 2], [-1, 1], [2, 1]]
    assert matrix(build(f"csv:{file}:w1..w10", 3, 1, 2)).tolist() == [[0], [1]]
    assert matrix(build(f"csv:{file}:w10..x", 3)).tolist() == [[2, 1], [0, 0]]  # '-', 'b', 'c'


def test_a_colon_in_the_path(tmp_path: Path) -> None:
    (tmp_path / "a:b").mkdir()
    file = write(tmp_path / "a:b" / "c:d.csv", "v", "1")
    assert build(f"csv:{file}:v", 3, epochs=1).devices == 1


def test_labels_and_ranges_look_values_up(tmp_path: Path) -> None:
    file = write(tmp_path / "a.csv", "v,w", "yes,0", "no,99.5", "yes,25")
    labelled = build(f"csv:{file}:v", Domain(3, ("no", "maybe", "yes")), epochs=1)
    assert matrix(labelled).tolist() == [[2, 0, 2]]
    assert labelled.labels == ("no", "maybe", "yes")
    bucketed = build(f"csv:{file}:w", Domain(4, maximum=100.0), epochs=1)
    assert matrix(bucketed).tolist() == [[0, 3, 1]]
    assert bucketed.labels is None


@pytest.mark.parametrize("size", [1 << 24, 24])
def test_whole_numbers_of_a_size_are_the_values_themselves(tmp_path: Path, size: int) -> None:
    """However few of them occur, and in whichever spelling."""
    file = write(tmp_path / "a.csv", "v,w", "5,1", "07,9", "5.0,", ",23", "23,5")
    population = build(f"csv:{file}:v", size, epochs=1)
    assert matrix(population).tolist() == [[5, 7, 5, -1, 23]]
    assert population.labels is None
    assert matrix(build(f"csv:{file}:v..w", size)).tolist() == [[5, 7, 5, -1, 23], [1, 9, -1, 23, 5]]
    beyond = build(f"csv:{file}:v", 23, epochs=1)
    assert matrix(beyond).tolist() == [[0, 2, 1, -1, 3]]
    assert beyond.labels is not None
    assert beyond.labels[:4] == ("5", "5.0", "07", "23")


@pytest.mark.parametrize("domain", [Domain(4, maximum=100.0), Domain(4, ("a", "b", "1", "0"))], ids=str)
@pytest.mark.parametrize(("in_file", "in_spec"), [("", "index:"), ("index:", "index:"), ("index:", "")])
def test_a_column_of_indices_says_so_in_the_spec_or_in_the_file(
    tmp_path: Path, domain: Domain, in_file: str, in_spec: str
) -> None:
    rows = ("x,9,1,0,3", "y,9,0,2,", "z,9,,1,1")
    file = write(tmp_path / "a.csv", f"d,e,{in_file}v,{in_file}w1,{in_file}w2", *rows)
    found = build(f"csv:{file}:{in_spec}v", domain, epochs=1)
    assert matrix(found).tolist() == [[1, 0, -1]]
    assert found.labels == domain.labels
    assert sorted(matrix(build(f"csv:{file}:{in_spec}v,permute", domain, epochs=1))[0]) == [-1, 0, 1]
    assert matrix(build(f"csv:{file}:{in_spec}w1..{in_spec}w2", domain)).tolist() == [[0, 2, 1], [3, -1, 1]]
    assert matrix(build(f"panel:{file}:d,e,{in_spec}v", domain)).tolist() == [[1, 0, -1]]
    wrong = write(tmp_path / "b.csv", f"{in_file}v", "1", "4")
    with pytest.raises(ValueError, match=r"csv:3: column .*'4' is no value .*0 to 3"):
        build(f"csv:{wrong}:{in_spec}v", domain, epochs=1)


def test_panel(tmp_path: Path) -> None:
    file = write(
        tmp_path / "p.csv",
        "the value,day,who,else",
        "b,10,x,1",
        "a,9,y,2",
        "",
        "c,9,x,3",
        "a,9,y,4",  # the same device, epoch and value again
        ",10,y,5",
        "b,11,z,6",
    )
    panel = build(f"panel:{file}:who,day,the value", 3)
    assert matrix(panel).tolist() == [[2, 0, -1], [1, -1, -1], [-1, -1, 1]]
    assert panel.labels == ("a", "b", "c")
    assert matrix(build(f"panel:{file}:who,day,the value", 3, 2, 1)).tolist() == [[2, 0]]


@given(
    cells=st.dictionaries(st.tuples(st.integers(0, 6), st.integers(0, 4)), st.integers(0, 20), min_size=1),
    order=st.randoms(use_true_random=False),
)
def test_panel_equals_a_dictionary(
    tmp_path_factory: pytest.TempPathFactory,
    cells: dict[tuple[int, int], int],
    order: object,
) -> None:
    rows = list(cells.items())
    order.shuffle(rows)  # type: ignore[attr-defined]
    file = tmp_path_factory.mktemp("panel") / "p.csv"
    write(file, "d,e,v", *(f"{d},{e},{v}" for (d, e), v in rows))
    panel = build(f"panel:{file}:d,e,v", 21)
    assert isinstance(panel, Panel)
    devices = list(dict.fromkeys(d for (d, _), _ in rows))
    epochs = {e for _, e in cells}
    assert (panel.first_epoch, panel.epochs) == (min(epochs), max(epochs) - min(epochs) + 1)
    found = {
        (devices[d], e + panel.first_epoch): value
        for e, values in enumerate(matrix(panel))
        for d, value in enumerate(values.tolist())
        if value >= 0
    }
    assert found == cells


@pytest.mark.parametrize(
    ("length", "texts"),
    [
        ("1d", ["2026-01-01", "2026-01-09"]),
        ("6h", ["2026-01-02", "2026-01-01T23:59:59.9Z", "2026-01-02T05:00:00+05:00"]),
        ("1d", ["12", "007"]),
    ],
)
def test_epochs_of_a_panel_are_placed_by_time(tmp_path: Path, length: str, texts: list[str]) -> None:
    """A date or instant lies in the collection's epoch that holds it, an index is itself; gaps stay gaps."""
    calendar = Epochs(parse_duration(length), parse_instant("2026-01-01T00:00:00Z"), 1000)
    file = write(tmp_path / "p.csv", "d,e,v", *(f"device{i},{text},{i}" for i, text in enumerate(texts)))
    panel = dated(file, 3, calendar)
    expected = [_epoch(calendar, text) for text in texts]
    assert isinstance(panel, Panel)
    assert panel.first_epoch == min(expected)
    assert panel.epochs == 1 + max(expected) - min(expected)
    held = [np.flatnonzero(column >= 0) + panel.first_epoch for column in matrix(panel).T]
    assert [epochs.tolist() for epochs in held] == [[epoch] for epoch in expected]


def dated(file: Path, size: int, calendar: Epochs) -> Population:
    """A panel of a collection with these epochs."""
    asked = {"devices": None, "epochs": None, "random_words": RandomWords(1), "calendar": calendar}
    return population(f"panel:{file}:d,e,v", domain=Domain(size), **asked)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("5", (5, True)),
        ("-007", (-7, True)),
        ("1970-01-02", (86400, False)),
        ("2026-01-09T02:00:01.9+02:00", (1767916801, False)),
    ],
)
def test_a_cell_of_a_time_column(text: str, found: tuple[int, bool]) -> None:
    """To the second: a date is its first one in UTC, wherever the machine stands."""
    assert epoch_of_text(text) == found


def _epoch(calendar: Epochs, text: str) -> int:
    """The slow reading: the last epoch that begins at or before the moment."""
    if text.isdigit():
        return int(text)
    moment = datetime.fromisoformat(text if "T" in text else f"{text}T00:00:00+00:00")
    return max(e for e in range(calendar.count) if datetime.fromtimestamp(calendar.start(e), UTC) <= moment)


@pytest.mark.parametrize(
    ("cells", "text"),
    [
        (["2026-01-01", "3"], "stand in one column"),
        (
            ["2025-12-31"],
            "epoch -1 is none of the planned epochs, which count from 0: correct the column",
        ),
        (["-1"], "epoch -1 is none of the planned epochs"),
        (["2026-01-09 06:00:00"], "instant with its time zone"),
        (["09.01.2026"], "a date (year-month-day, 2026-01-09)"),
        (["2026-02-30"], "neither an index"),
    ],
)
def test_other_epochs_of_a_panel_are_refused(tmp_path: Path, cells: list[str], text: str) -> None:
    """Nothing is ordered by rank any more: what is no time and no index has no place."""
    calendar = Epochs(86400, parse_instant("2026-01-01T00:00:00Z"), 1000)
    file = write(tmp_path / "p.csv", "d,e,v", *(f"{i},{cell},0" for i, cell in enumerate(cells)))
    with pytest.raises(ValueError, match=r"p\.csv:\d: ") as caught:
        dated(file, 3, calendar)
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


def test_dates_need_the_collections_epochs(tmp_path: Path) -> None:
    file = write(tmp_path / "p.csv", "d,e,v", "1,2026-01-01,0")
    with pytest.raises(ValueError, match="needs the collection's epochs"):
        build(f"panel:{file}:d,e,v", 3)


# --- What a file holds besides values


def noted(spec: str, size: int | Domain, **settings: object) -> tuple[NDArray[np.int32], list[str]]:
    """The values of a population, and the notes about its file without their place."""
    notes: list[str] = []
    domain = Domain(size) if isinstance(size, int) else size
    common = {"devices": None, "epochs": None, "random_words": RandomWords(1), "note": notes.append}
    people = population(spec, domain=domain, **(common | settings))  # type: ignore[arg-type]
    path = spec.split(":")[1]
    assert all(note.startswith(f"{path}: ") for note in notes)
    return matrix(people), [note.removeprefix(f"{path}: ") for note in notes]


def test_empty_cells_and_unlisted_values_are_counted(tmp_path: Path) -> None:
    listed = Domain(3, ("a", "b", "none"), other=2)
    file = write(tmp_path / "p.csv", "d,e,v,w", "1,0,a,b", "2,0,,x", "3,0,x,x", "4,0,x,", "5,0,y,z", "6,0,,")
    values, notes = noted(f"panel:{file}:d,e,v", listed)
    assert values.tolist() == [[0, -1, 2, 2, 2, -1]]
    assert notes == [
        "column 'v': 3 cells with 2 values that the domain does not list: taken for 'none'",
        "column 'v': 2 rows without a value: the device is absent there",
    ]
    assert noted(f"csv:{file}:v", listed, epochs=1)[1] == notes
    assert noted(f"csv:{file}:v..w", listed)[1] == [
        "column 'v..w': 6 cells with 3 values that the domain does not list: taken for 'none'",
        "column 'v..w': 4 cells without a value: the device is absent there",
    ]
    assert noted(f"csv:{file}:d", 6, epochs=1)[1] == []


def test_copies_of_a_row_are_counted(tmp_path: Path) -> None:
    file = write(tmp_path / "p.csv", "d,e,v", "a,0,1", "b,0,1", "a,0,1", "a,0,1", "a,1,1")
    assert noted(f"panel:{file}:d,e,v", 2)[1] == [
        "2 rows with the device, epoch and value of an earlier row: passed over"
    ]


@pytest.mark.parametrize(("weeks", "noticed"), [("12", True), ("2", False), ("0", False)])
def test_a_column_that_counts_from_one_is_noticed(tmp_path: Path, weeks: str, noticed: bool) -> None:
    """Epochs count from 0, so nothing lies in the first one."""
    file = write(tmp_path / "p.csv", "d,e,v", *(f"1,{week},0" for week in weeks))
    notes = noted(f"panel:{file}:d,e,v", 2)[1]
    assert sum("column 'e' begins with 1, and epochs count from 0" in note for note in notes) == noticed


# --- What other programs write


@pytest.mark.parametrize(("packed", "mark"), [(False, b"\xef\xbb\xbf"), (True, b"")])
def test_line_ends_marks_and_members(tmp_path: Path, packed: bool, mark: bytes) -> None:
    rows = [b"d,e,v", b'1,0,"a\r\nb"', b"2,0,c", b'3,1,"x, ""y"""']
    text = mark + b"\r\n".join(rows)
    path = tmp_path / ("p.csv.gz" if packed else "p.csv")
    path.write_bytes(gzip.compress(text[:6]) + gzip.compress(text[6:]) if packed else text)
    _, _, column = read_columns(path, ["d", "e", "v"])
    assert column.texts == ("a\r\nb", "c", 'x, "y"')
    assert column.lines.tolist() == [2, 4, 5]


def test_a_damaged_gzip_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "p.csv.gz"
    packed = gzip.compress(b"v\n" + b"".join(b"%d\n" % i for i in range(9999)))
    for damaged in (packed[:-20], packed[:-8] + bytes(8), packed[: len(packed) // 2]):
        file.write_bytes(damaged)
        with pytest.raises(ValueError, match="cannot be read"):
            build(f"csv:{file}:v", 99_999, epochs=1)


def test_text_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes(b"v\n" + b"fine\n" * 5000 + "stra\xdfe\n".encode("latin-1") + b"fine\n" * 5000)
    with pytest.raises(ValueError, match=r"a\.csv: this is not UTF-8 text"):
        build(f"csv:{file}:v", 9, epochs=1)


def test_spreadsheets_with_semicolons(tmp_path: Path) -> None:
    file = write(tmp_path / "p.csv", "device;epoch;value", "1;0;a", '2;0;"b;c"')
    assert matrix(build(f"panel:{file}:device,epoch,value", 2)).tolist() == [[0, 1]]
    write(file, "device;epoch;value,in minutes", "1;0;a")
    with pytest.raises(ValueError, match=r"separated by commas; .* begin the file with a line such as sep=;"):
        build(f"panel:{file}:device,epoch,value", 2)
    write(file, "sep=;", "device;epoch;value,in minutes", "1;0;a")
    assert matrix(build(f"csv:{file}:value,in minutes", 2, epochs=1)).tolist() == [[0]]


# --- Errors


@pytest.mark.parametrize(
    ("spec", "devices", "epochs", "texts"),
    [
        ("sin", 1, 1, ["unknown population 'sin'", "zipf:EXPONENT"]),
        ("syn", None, 1, ["'syn'", "give --devices N"]),
        ("syn:1.5", 1, 1, ["change probability", "'1.5'", "from 0 to 1"]),
        ("zipf:nan", 1, 1, ["above 0"]),
        ("csv:FILE", 1, 1, ["FILE:COLUMN"]),
        ("csv:FILE:hour", 1, 1, ["no column 'hour'", "'name', 'hours'"]),
        ("csv:FILE:twice", 1, 1, ["2 columns are named 'twice'", "rename"]),
        ("csv:FILE:hours", None, None, ["give --epochs N", "FIRST..LAST"]),
        ("csv:FILE:hours", 4, 1, ["4 devices asked for", "at most 3"]),
        ("csv:FILE:w1..w2", 1, 3, ["3 epochs asked for", "at most 2"]),
        ("csv:FILE:w2..w1", 1, 1, ["'w2' comes after 'w1'"]),
        ("csv:FILE:w1..w2,permute", 1, 1, ["',permute'"]),
        ("csv:FILE:name", 1, 1, ["column 'name'", "3 distinct", "size 2", "at least 3", "range"]),
        ("csv:gone.csv:v", 1, 1, ["gone.csv: ", "no such file", "check the path"]),
        ("panel:FILE:name,name,hours", 1, 1, ["three different columns"]),
        ("panel:FILE:name,w1,hours", 1, 5, ["5 epochs", "at most 4"]),
    ],
)
def test_errors_of_a_spec(
    tmp_path: Path, spec: str, devices: int | None, epochs: int | None, texts: list[str]
) -> None:
    file = write(
        tmp_path / "a.csv",
        "name,hours,w1,w2,twice,twice",
        "ann,1,1,2,0,0",
        "bob,2,2,3,0,0",
        "eve,2,4,1,0,0",
    )
    with pytest.raises(ValueError) as caught:
        build(spec.replace("FILE", str(file)) if ":FILE:" in spec else spec, 2, devices, epochs)
    message = str(caught.value)
    assert "\n" not in message
    for text in texts:
        assert text in message


@pytest.mark.parametrize(
    ("lines", "texts"),
    [
        (
            ["d,e,v", "1,1,a", "2,1,a", "", "1,1,b", "2,1,c"],
            ["p.csv:5: ", "'1'", "(2 such rows)"],
        ),
        (["d,e,v", "1,1,a", "1,1,"], ["p.csv:3: ", "second, different", "(1 such row)"]),
        (["d,e,v", "1,1,a", ",1,a"], ["p.csv:3: ", "column 'd' is empty"]),
        (["d,e,v", "1,1,a", "2,,a"], ["p.csv:3: ", "column 'e' is empty"]),
        (["d,e,v"], ["no rows"]),
        (["d,e,v", "1,2,a", "secret,2"], ["p.csv:3: ", "2 cells", "3 columns", "correct the row"]),
    ],
)
def test_errors_of_a_panel(tmp_path: Path, lines: list[str], texts: list[str]) -> None:
    file = write(tmp_path / "p.csv", *lines)
    with pytest.raises(ValueError) as caught:
        build(f"panel:{file}:d,e,v", 9)
    message = str(caught.value)
    assert str(file) in message
    assert "\n" not in message
    assert "secret" not in message
    for text in texts:
        assert text in message


def test_a_value_outside_the_domain_is_found_in_the_file(tmp_path: Path) -> None:
    file = write(tmp_path / "a.csv", "v", "no", "yes", "nein", "nein")
    with pytest.raises(ValueError, match=r"a\.csv:4: column 'v': 'nein' .*not one of the"):
        build(f"csv:{file}:v", Domain(2, ("no", "yes")), epochs=1)


def test_files_that_are_no_table(tmp_path: Path) -> None:
    file = write(tmp_path / "a.csv")
    with pytest.raises(ValueError, match=r"a\.csv"):
        build(f"csv:{file}:v", 2, epochs=1)
    with pytest.raises(ValueError, match="cannot be read"):
        build(f"csv:{tmp_path}:v", 2, epochs=1)
