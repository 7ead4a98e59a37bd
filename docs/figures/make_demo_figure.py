"""Makes docs/figures/demo.svg from what `make demo` wrote: three values over epochs, true and estimated.

    python docs/figures/make_demo_figure.py demo-output

The charts are the page's own; this only sets three of them side by side, with names and a key.
"""

from __future__ import annotations

import re
import sys
from html import escape
from pathlib import Path

CHART = re.compile(
    r'<svg width="(\d+)" height="(\d+)"[^>]* aria-label="Frequency of ([^"]+?) over epochs'
    r'[^"]*">(.*?)</svg>',
    re.DOTALL,
)
TOP, BOTTOM = 26, 34
KEY = (
    ("#0072B2", "", "estimate, with its 95 % interval"),
    ("#D55E00", "", "truth, known because the fleet is simulated"),
    ("#7a7a7a", "4 3", "1/k"),
)


def figure(page: str, count: int = 3) -> str:
    """The first charts of a page in one row.

    Raises:
        ValueError: the page has fewer charts of values over epochs.
    """
    charts = CHART.findall(page)[:count]
    if len(charts) < count:
        raise ValueError(f"the page has {len(charts)} charts of values over epochs, not {count}")
    parts, x = [], 0
    for width, height, name, body in charts:
        parts.append(f'<text x="{x + 48}" y="18" font-size="15" font-weight="600">{name}</text>')
        parts.append(f'<svg x="{x}" y="{TOP}" width="{width}" height="{height}">{body}</svg>')
        x += int(width)
    tall = TOP + max(int(height) for _, height, _, _ in charts)
    at = 48
    for colour, dash, text in KEY:
        line = f'stroke="{colour}" stroke-width="2.5" stroke-dasharray="{dash or "none"}"'
        parts.append(f'<path d="M{at} {tall + 17}h26" {line}/>')
        parts.append(f'<text x="{at + 34}" y="{tall + 21}" font-size="13">{escape(text)}</text>')
        at += 60 + 7 * len(text)
    height = tall + BOTTOM
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {x} {height}" width="{x}" '
        f'height="{height}" font-family="sans-serif" fill="#1c1c1c" role="img">\n'
        "<title>True against estimated frequency of three values over epochs</title>\n"
        f'<rect width="{x}" height="{height}" fill="#ffffff"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


if __name__ == "__main__":
    demo = Path(sys.argv[1] if len(sys.argv) > 1 else "demo-output")
    target = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(__file__).with_name("demo.svg")
    target.write_text(figure((demo / "index.html").read_text("utf-8")), "utf-8")
