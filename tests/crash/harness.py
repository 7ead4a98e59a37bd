"""What a reader may find in the output of a run that was stopped, and whether two outputs are equal."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.conftest import evenly

Tree = Mapping[str, bytes | None]
"""What lies in a directory: content by relative path, None for a folder."""

RECORD = "run.json"
"""The file that says that a run is complete."""

SCRATCH = "outcome.json"
"""A file of the run itself, which readers pass over; whole JSON or absent."""

_VARYING = re.compile(rb'"timings": \{[^{}]*\},?\s*|,\s*"sha256": "[0-9a-f]{64}"\s*\}\s*\Z')
"""Parts of the record that differ from run to run: times, and the digest of all."""

_UNFINISHED = re.compile(r"(\.run-[^/]*\.tmp|landing)(/|\Z)|\.lock\Z")
_TEMPORARY = re.compile(r"\.[0-9a-f]{8}\.tmp\Z")

YAML = """\
name: {name}
version: 1
owner: telemetry@example.com
domain: {{size: {size}}}
protocol: {protocol}
{parameters}
epoch: {{length: 1h, count: 100}}
min_reports: 50
"""


def tree(folder: Path) -> dict[str, bytes | None]:
    """Everything below a folder."""
    return {
        path.relative_to(folder).as_posix(): None if path.is_dir() else path.read_bytes()
        for path in sorted(folder.rglob("*"))
    }


def stable(name: str, content: bytes | None) -> bytes | None:
    """Content as far as it must be the same in every run."""
    return _VARYING.sub(b"", content) if name == RECORD and content else content


def reader_complaints(found: Tree, versions: Sequence[Tree]) -> list[str]:
    """What a reader could trip over in a directory whose run was stopped."""
    complaints = []
    for name, content in found.items():
        if content is None or _UNFINISHED.match(name) or _TEMPORARY.search(name) or name == RECORD:
            continue  # folders, and a stopped run's own, which readers pass over; of the record below
        if name == SCRATCH:
            complaints += [] if _is_json(content) else [f"{name}: not whole"]
        elif not any(name in version and version[name] == content for version in versions):
            complaints.append(f"{name}: of no version")
    if RECORD in found:
        record = stable(RECORD, found[RECORD])
        same = [v for v in versions if RECORD in v and stable(RECORD, v[RECORD]) == record]
        wanted = {n: c for n, c in same[0].items() if n not in (RECORD, "index.html")} if same else {}
        complaints += [] if same else [f"{RECORD}: another, or not whole"]
        complaints += [
            f"{RECORD} is there, but {n} is not" for n, c in wanted.items() if found.get(n, 0) != c
        ]
    return complaints


def differences(found: Tree, reference: Tree) -> list[str]:
    """Where a directory is not byte for byte the reference; the record without what varies."""
    complaints = [f"{name}: left over" for name in found if name not in reference]
    complaints += [f"{name}: missing" for name in reference if name not in found]
    both = found.keys() & reference.keys()
    return complaints + [
        f"{n}: another content" for n in both if stable(n, found[n]) != stable(n, reference[n])
    ]


def _is_json(content: bytes | None) -> bool:
    try:
        json.loads(content or b"")
    except ValueError:
        return False
    return True


def spread(items: Sequence[Any], wanted: int) -> list[Any]:
    """``wanted`` of the items at even distances, first and last among them."""
    return [items[len(items) // 2]] if wanted == 1 else evenly(items, wanted)
