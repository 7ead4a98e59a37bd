"""Makes docs/figures/architecture.svg: what runs where, and what each part learns.

    python docs/figures/make_architecture_figure.py

Colours follow the reader's choice of light or dark.
"""

from __future__ import annotations

import sys
from html import escape
from pathlib import Path

WIDTH, HEIGHT = 900, 300
STYLE = """\
  svg { color: #1c1c1c; font-family: system-ui, sans-serif; }
  .box { fill: #f4f6f8; stroke: #6b7785; } .own { fill: #e3f0e6; stroke: #3d7a4c; }
  text { fill: currentColor; font-size: 13px; } .head { font-size: 15px; font-weight: 600; }
  .way { stroke: currentColor; stroke-width: 1.5; fill: none; marker-end: url(#end); }
  @media (prefers-color-scheme: dark) {
    svg { color: #e8e8e6; } .box { fill: #23272c; stroke: #8a96a3; } .own { fill: #1e3325; stroke: #7fbf8f; }
  }
"""
# Left edge, top edge, width, height, class, heading, lines.
BOXES = (
    (
        10,
        20,
        190,
        150,
        "own",
        "Device",
        ("holds a true value", "randomises it", "remembers what it said", "keeps a budget"),
    ),
    (255, 20, 165, 150, "box", "Collector", ("HTTPS", "writes to disk,", "then answers", "or your own way")),
    (
        475,
        20,
        190,
        150,
        "box",
        "Beam, or the engine",
        ("one report per id", "support counts", "estimates ± errors", "histogram"),
    ),
    (720, 20, 170, 150, "box", "Results", ("Parquet, BigQuery", "the page", "notebooks", "accounting")),
    (
        10,
        210,
        880,
        70,
        "own",
        "Collection file",
        (
            "agreed by all: values, protocol, ε, epochs. Its digest travels in every report; plan, check and "
            "explain say what it promises.",
        ),
    ),
)
# From, to, height of the arrow, what travels.
WAYS = ((200, 255, 95, "bits"), (420, 475, 95, "files"), (665, 720, 95, "rows"))
LINE = 20


def figure() -> str:
    """The picture as SVG."""
    parts = []
    for left, top, wide, tall, kind, heading, lines in BOXES:
        parts.append(f'<rect class="{kind}" x="{left}" y="{top}" width="{wide}" height="{tall}" rx="8"/>')
        parts.append(f'<text class="head" x="{left + 14}" y="{top + 28}">{escape(heading)}</text>')
        for i, line in enumerate(lines):
            parts.append(f'<text x="{left + 14}" y="{top + 54 + LINE * i}">{escape(line)}</text>')
    for begin, end, at, what in WAYS:
        parts.append(f'<path class="way" d="M{begin + 4} {at}H{end - 8}"/>')
        parts.append(
            f'<text x="{(begin + end) // 2}" y="{at - 8}" text-anchor="middle">{escape(what)}</text>'
        )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
        f'height="{HEIGHT}" role="img">\n'
        "<title>Devices randomise and send bits to a collector; Beam or the engine counts and estimates;"
        " results are files, tables and a page. All agree on one collection file.</title>\n"
        f"<style>\n{STYLE}</style>\n"
        '<marker id="end" viewBox="0 0 8 8" refX="6" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="#7a8691"/></marker>\n' + "\n".join(parts) + "\n</svg>\n"
    )


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("architecture.svg")
    target.write_text(figure(), "utf-8")
