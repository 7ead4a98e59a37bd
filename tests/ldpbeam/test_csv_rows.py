"""CSV rows: 200 drawn variations against the grammar of RFC 4180, separators, and where faults are."""

from __future__ import annotations

import csv
import io
import random
from collections.abc import Sequence

import pytest

from ldpbeam.csv_rows import CsvError, CsvRows
from tests.reference.csv_cells import Bad, table

LETTERS = ["a", "b", "é", " ", '"', ",", ";", "\t", "\n", "\r\n", "\r", "=", "", "longer text"]


def read(text: str) -> CsvRows:
    return CsvRows(lambda: io.StringIO(text, newline=""))


def written(draw: random.Random, rows: Sequence[Sequence[str]], separator: str) -> str:
    """Rows as CSV: quoted where they must be and sometimes elsewhere, with blank lines and one line end."""
    end = draw.choice(["\n", "\r\n", "\r"])
    lines = []
    for row in rows:
        cells = []
        for cell in row:
            must = cell[:1] == '"' or any(sign in cell for sign in (separator, "\n", "\r")) or len(row) == 1
            quoted = '"' + cell.replace('"', '""') + '"'
            cells.append(quoted if must or draw.random() < 0.3 else cell)
        lines.append(separator.join(cells) + end * (1 + (draw.random() < 0.05)))
    text = "".join(lines)
    return text.removesuffix(end) if draw.random() < 0.3 else text


def spoiled(draw: random.Random, text: str, separator: str) -> str:
    """A quote, a separator or text too much, at a drawn place below the header."""
    place = draw.randrange(text.index("z") + 1, len(text))
    return text[:place] + draw.choice(['"', '"', separator, '"x']) + text[place:]


def variation(seed: int) -> tuple[str, str]:
    """A CSV text and its separator; half of them are probably faulty."""
    draw = random.Random(seed)
    separator = draw.choice(",,;\t")
    width = draw.randrange(2, 5)
    rows = [["x", "y y", 'q"', "z"][-width:]] + [
        ["".join(draw.choices(LETTERS, k=draw.randrange(4))) for _ in range(width)]
        for _ in range(draw.randrange(1, 30))
    ]
    if draw.random() < 0.1:  # longer than any block or buffer
        rows[draw.randrange(1, len(rows))][0] = draw.choice(["line\n", 'say "yes", or\r\n']) * 30_000
    text = written(draw, rows, separator)
    return (spoiled(draw, text, separator) if seed % 2 else text), separator


@pytest.mark.parametrize("block", range(8))
@pytest.mark.cases(1)
def test_drawn_files_are_read_as_the_grammar_has_them(block: int) -> None:
    faults = 0
    for seed in range(25 * block, 25 * block + 25):
        text, separator = variation(seed)
        try:
            header, rows = table(text, separator)
        except Bad as bad:
            faults += 1
            with pytest.raises(CsvError) as caught:
                list(read(text))
            assert caught.value.line == bad.line, seed
            continue
        found = read(text)
        assert (found.separator, found.header, list(found)) == (separator, header, rows), seed
    assert 3 <= faults <= 22  # both kinds are drawn


@pytest.mark.parametrize(
    ("text", "separator", "header"),
    [
        ("a,b\n", ",", ["a", "b"]),
        ("a;b\n", ";", ["a", "b"]),
        ("a\tb\n", "\t", ["a", "b"]),
        ('"a,b";"c"\n', ";", ["a,b", "c"]),
        ('"a";"b"\n', ";", ["a", "b"]),
        ('"a;b","c"\n', ",", ["a;b", "c"]),
        ("a;b,c\n", ",", ["a;b", "c"]),  # both part it: the comma of RFC 4180
        ("a;b\tc\n", ",", ["a;b\tc"]),  # two others part it: neither
        ("alone\n", ",", ["alone"]),
        ("\n\na;b\n", ";", ["a", "b"]),
        ("sep=;\na;b,c\n", ";", ["a", "b,c"]),
        ('"sep=|"\r\na|b\r\n', "|", ["a", "b"]),
        ("SEP=,\na;b,c\n", ",", ["a;b", "c"]),
        ("", ",", []),
        ("\n\n", ",", []),
    ],
)
def test_the_separator_is_that_of_the_header(text: str, separator: str, header: list[str]) -> None:
    found = read(text)
    assert (found.separator, found.header) == (separator, header)


def test_the_line_of_a_separator_counts() -> None:
    assert list(read("sep=;\na;b\n1;2\n\n3;4\n")) == [(3, ["1", "2"]), (5, ["3", "4"])]
    with pytest.raises(CsvError, match="line 4: in the row that begins here a quote is not closed"):
        list(read('sep=;\na;b\n1;2\n3;"4\n5;6\n'))
    with pytest.raises(CsvError, match="line 4"):
        list(read('sep=;\na;b\n1;2\n"3\n";"4\n5;6\n'))


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ('a,b\n1,"2\n3,4\n', 2, "is not closed"),
        ('a,b\n1,2\n3,"4', 3, "is not closed"),
        ('a,b\n1,2\n"first\nsecond",\'"\n3,"4\n', 5, "is not closed"),
        ('a,"b\n1,2\n', 1, "is not closed"),
        ('a,b\n1,"2\n3,"4"\n', 2, "followed by more text"),
        ('a,b\n1,"2" \n', 2, "followed by more text"),
        ("a,b\n1,2\n3\n", 3, "the row has 1 cell and the header has 2 columns; correct"),
        ("a\n1,2\n", 2, "the row has 2 cells and the header has 1 column; correct"),
        ("a;b\n1,2\n", 2, "(separated by semicolons, as the header is)"),
        ("a\tb\n1\n", 2, "(separated by tabs, as the header is)"),
        ("sep=|\na|b\n1\n", 3, "(separated by '|', as the header is)"),
    ],
)
def test_a_fault_names_its_line_and_no_cell(text: str, line: int, words: str) -> None:
    with pytest.raises(CsvError) as caught:
        list(read(text))
    assert caught.value.line == line
    assert words in caught.value.why
    assert "4" not in caught.value.why


def test_the_limit_of_a_cell_is_put_back() -> None:
    csv.field_size_limit(before := 200_000)
    assert [len(cells[0]) for _, cells in read('a,b\n"' + "x" * 300_000 + '",1\n')] == [300_000]
    with pytest.raises(CsvError):
        list(read('a,b\n"'))
    assert csv.field_size_limit(131_072) == before
