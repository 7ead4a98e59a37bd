"""CSV by the grammar of RFC 4180, one character after the other: slow, and nothing of any library's reader.

As the csv module does, a quote inside an unquoted cell stands for itself, LF, CR and CRLF end a row, and a
row without a character is none.
"""

from __future__ import annotations


class Bad(Exception):  # noqa: N818 - a result, not a failure
    """The text is not CSV; ``line`` is where the faulty row begins."""

    def __init__(self, line: int) -> None:
        self.line = line


def table(text: str, separator: str) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """The header, and every other row with the line on which it begins; every row as long as the header."""
    rows: list[tuple[int, list[str]]] = []
    line, at = 1, 0
    while at < len(text):
        begin = line
        if text[at] in "\r\n":
            at += _end(text, at)
            line += 1
            continue
        cells: list[str] = []
        while True:
            cell = ""
            if text[at : at + 1] == '"':
                at += 1
                while text[at : at + 1] != '"' or text[at + 1 : at + 2] == '"':
                    if at == len(text):
                        raise Bad(begin)
                    wide = _end(text, at) if text[at] in "\r\n" else 2 if text[at] == '"' else 1
                    cell += '"' if text[at] == '"' else text[at : at + wide]
                    line += text[at] in "\r\n"
                    at += wide
                at += 1
                if at < len(text) and text[at] not in separator + "\r\n":
                    raise Bad(begin)
            else:
                while at < len(text) and text[at] not in separator + "\r\n":
                    cell += text[at]
                    at += 1
            cells.append(cell)
            if at < len(text) and text[at] == separator:
                at += 1
                continue
            break
        rows.append((begin, cells))
        if rows and len(cells) != len(rows[0][1]):
            raise Bad(begin)
        if at < len(text):
            at += _end(text, at)
            line += 1
    return rows[0][1], rows[1:]


def _end(text: str, at: int) -> int:
    """How many characters the line end has that begins here."""
    return 2 if text[at : at + 2] == "\r\n" else 1
