"""The tests of changed files: `python -m tests.of [FILE ...]`.

Without a file it takes those that differ from the main branch, also those that are not committed. A test
file tests itself. Tests mirror the source: of a/b.py it takes tests/a/test_b.py, where there is one. Else it
takes those of tests/a that have the module's name in theirs or import it, then the nearest by imports; of
equally near ones those that import least else, since they are about it and not about a whole command. They
run with those of their thorough cases that begin within 8 seconds, and the others are counted as skipped;
--all runs all of them. It is what one runs while one writes. `make test` says more, and `make check` all.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
ROOMS = ("ldpbeam", "pipelines", "transforms", "simulators", "reproduction", "benchmarks", "tests")
"""Folders of Python; three of them are also reached through links in the first."""
LINKED = ("pipelines", "transforms", "simulators")
IMPORT = re.compile(r"^[ \t]*((?:from[ \t]+\S+[ \t]+)?import[ \t]+(?:\([^)]*\)|[^\n]*))", re.MULTILINE)
"""An import, also in a program that a test holds as text. To parse each file whole takes seconds."""
MOST = 3
WITHIN = 8
"""Seconds after the start within which thorough cases begin."""


def module_of(path: Path) -> str:
    """The name by which others import a file of the repository."""
    parts = path.relative_to(REPOSITORY).with_suffix("").parts
    parts = parts[:-1] if parts[-1] == "__init__" else parts
    return ".".join(("ldpbeam", *parts) if parts[0] in LINKED else parts)


def files() -> Iterator[Path]:
    """Python files of the rooms, each once."""
    for room in ROOMS:
        for path in sorted((REPOSITORY / room).rglob("*.py")):
            if path.resolve() == path and "__pycache__" not in path.parts:
                yield path


@dataclass(frozen=True)
class Imports:
    """Which file imports which."""

    paths: dict[str, Path]

    @classmethod
    def of_repository(cls) -> Imports:
        """As the files are now."""
        return cls({module_of(path): path for path in files()})

    @cached_property
    def imported(self) -> dict[Path, set[Path]]:
        """Of each file the files that it imports, wherever in it."""
        return {path: set(self._of(name, path)) for name, path in self.paths.items()}

    def _of(self, name: str, path: Path) -> Iterator[Path]:
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        for statement in IMPORT.findall(path.read_text("utf-8")):
            asked: list[str] = []
            try:
                (node,) = ast.parse(statement).body
            except (SyntaxError, ValueError):
                continue  # a sentence that begins like an import
            if isinstance(node, ast.Import):
                asked = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
                base = ".".join([*above, *filter(None, [node.module])])
                asked = [base, *(f"{base}.{alias.name}" for alias in node.names)]
            for one in asked:
                if one in self.paths and self.paths[one] != path:
                    yield self.paths[one]

    @cached_property
    def reach(self) -> dict[Path, dict[Path, int]]:
        """For each test the files it imports, and how many imports lead there. This reads all files."""
        return {path: self.distances(path) for path in self.paths.values() if is_test(path)}

    def distances(self, test: Path) -> dict[Path, int]:
        """How many imports lead from a test to each file."""
        found, edge, far = {test: 0}, {test}, 0
        while edge:
            far += 1
            edge = {path for one in edge for path in self.imported[one]} - set(found)
            found |= dict.fromkeys(edge, far)
        return found


def is_test(path: Path) -> bool:
    """Whether pytest collects it."""
    return path.name.startswith("test_") and path.suffix == ".py"


def tests_of(changed: Sequence[Path], imports: Imports, most: int = MOST) -> list[Path]:
    """The nearest test files of each file, without repetition."""
    found: list[Path] = []
    for path in changed:
        own = path if is_test(path) else mirror(path)
        if own.is_file():
            found.append(own)
            continue
        reach = imports.reach
        near = [test for test, far in reach.items() if path in far or _named(test, path)]
        near.sort(
            key=lambda test: (
                not _named(test, path),
                not _beside(test, path),
                reach[test].get(path, 0),
                len(reach[test]),
                str(test),
            )
        )
        found += near[:most]
    return list(dict.fromkeys(found))


def mirror(path: Path) -> Path:
    """Where the tests of a source file lie, if it has a file of its own."""
    folder = REPOSITORY / "tests" / path.parent.relative_to(REPOSITORY)
    return folder / f"test_{path.stem}.py"


def _named(test: Path, path: Path) -> bool:
    """Whether a test lies beside and has the name of the module in its own, as test_export_and_compare.py."""
    return _beside(test, path) and path.stem in test.stem.split("_")


def _beside(test: Path, path: Path) -> bool:
    """Whether a test lies in the folder of tests that mirrors the folder of a file."""
    return test.parent == mirror(path).parent


def changed_files() -> list[Path]:
    """What differs from the main branch, committed or not."""
    base = _git("merge-base", "HEAD", "main") or "HEAD"
    names = {*_git("diff", "--name-only", base).split("\n")}
    names |= {*_git("ls-files", "--others", "--exclude-standard").split("\n")}
    paths = [(REPOSITORY / name).resolve() for name in sorted(names) if name.endswith(".py")]
    return [path for path in paths if path.is_file()]


def _git(*arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run or list them; without arguments those of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument(
        "--most", type=int, default=MOST, help="test files for each changed file (default: 3)"
    )
    parser.add_argument("--list", action="store_true", help="name them and run nothing")
    parser.add_argument("--all", action="store_true", help="all thorough cases, however long they take")
    asked = parser.parse_args(arguments)
    imports = Imports.of_repository()
    changed = [path.resolve() for path in asked.files] or changed_files()
    known = set(imports.paths.values())
    unknown = [path for path in changed if path not in known]
    for path in unknown:
        sys.stderr.write(f"tests.of: {path}: no Python file of {', '.join(ROOMS)}\n")
    found = tests_of([path for path in changed if path not in unknown], imports, asked.most)
    if not found:
        sys.stderr.write("tests.of: no test is near; make test runs all of them\n")
        return 1 if unknown else 0
    names = [str(path.relative_to(REPOSITORY)) for path in found]
    if asked.list:
        sys.stdout.write("\n".join([*names, ""]))
        return 0
    limit = [] if asked.all else [f"--thorough-within={WITHIN / 60}"]
    command = [sys.executable, "-m", "pytest", "-q", "--thorough", *limit, *names]
    return subprocess.run(command, cwd=REPOSITORY, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
