"""Hooks of the site (mkdocs.yml): pages that are not Markdown in docs/, and links that leave it.

Pages are written for a reader of the repository. So a link to a page outside docs/ leads to a copy of it in
the site, and a link to any other file or folder of the repository is its text. A link to what does not exist
stays as it is, and the build ends with a warning about it.
"""

from __future__ import annotations

import html
import json
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[2]
OUTSIDE = {"README.md": "index.md", "docs/decisions/README.md": "decisions/README.md"} | {
    name: name for name in ("SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md", "clients/js/README.md")
}
"""Pages by their place in the repository, and their places in the site."""
MODULES = (
    ("Front door", "ldpbeam"),
    ("Transforms of Apache Beam", "ldpbeam.transforms"),
    ("Over time", "ldpbeam.over_time"),
)
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")
_PICTURE = re.compile(r'\b(src|srcset)="([^"]+)"')
_ROLE = re.compile(r":(?:class|func|meth|mod|data|attr|exc):(?=<code>)")


def on_files(files: Any, config: Any) -> Any:
    """Pages from outside docs/, notebooks, and the reference that is made of the source."""

    def add(place: str, content: str) -> None:
        files.append(File.generated(config, place, content=content))

    for source, place in OUTSIDE.items():
        if not source.startswith("docs/"):
            add(place, _links((ROOT / source).read_text("utf-8"), source, place))
    for notebook in sorted((ROOT / "docs" / "notebooks").glob("*.ipynb")):
        add(f"notebooks/{notebook.stem}.md", _notebook(notebook))
    add("api.md", _api())
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Links by their place in the site, and lists as Python's Markdown wants them."""
    place = page.file.src_uri
    if place not in OUTSIDE.values() or place.startswith("decisions/"):
        markdown = _links(markdown, f"docs/{place}", place)
    return _lists(markdown)


def on_page_content(content: str, page: Any, config: Any, files: Any) -> str:
    """Roles of docstrings are code alone."""
    return _ROLE.sub("", content)


def _links(markdown: str, source: str, place: str) -> str:
    """The links of a page, which stands at ``source`` in the repository and at ``place`` in the site."""

    def moved(target: str) -> str | None:
        """The target from the page's place; None for what stays, "" for what is not in the site."""
        name, mark, anchor = target.partition("#")
        if not name or ":" in name:
            return None
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), name))
        if path in OUTSIDE:
            there = OUTSIDE[path]
        elif path.startswith("docs/") and (ROOT / path).is_file() and not path.endswith(".py"):
            there = path.removeprefix("docs/").replace(".ipynb", ".md")
        else:
            return "" if (ROOT / path).exists() else None
        return f"{posixpath.relpath(there, posixpath.dirname(place) or '.')}{mark}{anchor}"

    def link(match: re.Match[str]) -> str:
        picture, text, target = match.groups()
        target = moved(target)
        if target is None:
            return match[0]
        return f"{picture}[{text}]({target})" if target else text

    def picture(match: re.Match[str]) -> str:
        return f'{match[1]}="{moved(match[2]) or match[2]}"'

    parts = re.split(r"(^```.*?^```$)", markdown, flags=re.MULTILINE | re.DOTALL)
    return "".join(
        part if i % 2 else _PICTURE.sub(picture, _LINK.sub(link, part)) for i, part in enumerate(parts)
    )


def _lists(markdown: str) -> str:
    """What belongs to an entry of a list, indented by four: Python's Markdown does not take two or three."""
    lines, width = [], 0
    for line in markdown.splitlines():
        begins = re.match(r"(- |\d+\. )", line)
        if begins:
            width = len(begins[1])
        elif line and not line.startswith(" "):
            width = 0
        deeper = width and not begins and line.startswith(" " * width)
        lines.append("    " + line[width:] if deeper else line)
    return "\n".join(lines) + "\n"


def _notebook(path: Path) -> str:
    """A notebook as a page: text, code, and what the code put out."""
    parts = []
    for cell in json.loads(path.read_text("utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        for output in cell["outputs"]:
            data = output.get("data", {})
            if "image/svg+xml" in data:
                parts.append(f"<div>{''.join(data['image/svg+xml'])}</div>")
            elif text := "".join(output.get("text", data.get("text/plain", ""))).rstrip("\n"):
                parts.append(f"```text\n{text}\n```")
    return "\n\n".join(parts) + "\n"


def _api() -> str:
    """The public names of each module, from its ``__all__``."""
    import ast

    lines = ["# Python reference", "", "Every public name. [python.md](python.md) is the guide."]
    for title, module in MODULES:
        tree = ast.parse((ROOT / module.replace(".", "/") / "__init__.py").read_text("utf-8"))
        (names,) = (
            ast.literal_eval(node.value)
            for node in tree.body
            if isinstance(node, ast.Assign) and [getattr(t, "id", "") for t in node.targets] == ["__all__"]
        )
        lines += ["", f"## {html.escape(title)}", "", f"`{module}`", ""]
        lines += [f"::: {module}.{name}\n" for name in names]
    return "\n".join(lines) + "\n"
