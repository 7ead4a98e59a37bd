"""The tests of changed files: `python -m tests.of [FILE ...] [-- pytest's options]`.

Without a file it takes those that differ from the main branch. A test file tests itself. Of a/b.py it takes
tests/a/test_b.py; without one those of tests/a that have the module's name in theirs, or else import it, the
shortest first.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
MOST = 3


def tests_of(path: Path) -> list[Path]:
    """The nearest test files of a Python file, relative to the repository as it is."""
    if path.name.startswith("test_"):
        return [path]
    folder = Path("tests") / path.parent
    own = folder / f"test_{path.stem}.py"
    if (REPOSITORY / own).is_file():
        return [own]
    every = sorted(one.relative_to(REPOSITORY) for one in (REPOSITORY / "tests").rglob("test_*.py"))
    named = [one for one in every if one.parent == folder and path.stem in one.stem.split("_")]
    module = ".".join(path.with_suffix("").parts).removesuffix(".__init__")
    package, _, name = module.rpartition(".")
    imports = re.compile(
        rf"\b{re.escape(module)}\b"
        rf"|from (?:ldpbeam\.)?{re.escape(package)} import (?:\([^)]*|[^\n]*)\b{name}\b"
    )
    near = [one for one in every if imports.search((REPOSITORY / one).read_text("utf-8"))]
    near.sort(key=lambda one: (one.parent != folder, (REPOSITORY / one).stat().st_size))
    return (named or near)[:MOST]


def changed() -> list[Path]:
    """What differs from the main branch, committed or not."""
    base = _git("merge-base", "HEAD", "origin/main").strip() or "HEAD"
    names = _git("diff", "--name-only", base) + _git("ls-files", "--others", "--exclude-standard")
    return [Path(name) for name in names.split() if (REPOSITORY / name).is_file()]


def _git(*arguments: str) -> str:
    command = ["git", *arguments]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False).stdout


def main() -> int:
    """Run them."""
    given = sys.argv[1:]
    asked, options = (given[: (cut := given.index("--"))], given[cut + 1 :]) if "--" in given else (given, [])
    paths = [Path(name).resolve().relative_to(REPOSITORY) for name in asked] or changed()
    found = dict.fromkeys(test for path in paths if path.suffix == ".py" for test in tests_of(path))
    if not found:
        sys.exit("tests.of: no test is near; make test runs all of them")
    command = [sys.executable, "-m", "pytest", "-q", *options, *map(str, found)]
    return subprocess.run(command, cwd=REPOSITORY, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
