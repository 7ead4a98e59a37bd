"""Killing a command at a point, looking at what it leaves as a reader would, and running it again.

A :class:`Case` is a command with its inputs; a :class:`Scene` is what lies in the output directory before the
command is killed there. :class:`Server` has one process that is warm and forks a fresh one for every run.
"""

from __future__ import annotations

import functools
import gzip
import json
import os
import queue
import re
import shutil
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from io import BufferedRWPair, BytesIO
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from ldpbeam.admission import ReportColumns
from ldpbeam.collection.file import load_collection
from tests.conftest import REPOSITORY, evenly
from tests.crash.child import AFTER, BEFORE, FOLDER, HALF, SCRATCH, TEMPORARY, Point
from tests.pipelines.running import collection, fleet, with_duplicates, write
from tests.waiting import PATIENCE

CHILD = Path(__file__).with_name("child.py")
TALLY = pytest.StashKey[dict[str, tuple[int, float]]]()
"""Points and seconds by label, for the summary."""

Tree = Mapping[str, bytes | None]
"""What lies in a directory: content by relative path, None for a folder."""


@dataclass(frozen=True)
class Case:
    """A command under test.

    Attributes:
        argv: the command line without the output; its first word chooses the hooks.
        exit_code: of an undisturbed run.
        record: the file that says a run is complete.
        varying: what is taken out of the record before records are compared, once.
        scratch: files that a run uses for itself and readers pass over; whole JSON or absent.
    """

    argv: tuple[str, ...]
    exit_code: int
    record: str = "run.json"
    varying: re.Pattern[bytes] = re.compile(
        rb'"timings": \{[^{}]*\},?\s*|,\s*"sha256": "[0-9a-f]{64}"\s*\}\s*\Z'  # and the digest of all
    )
    scratch: frozenset[str] = frozenset({"outcome.json"})

    def command(self, output: Path) -> list[str]:
        """The whole command line."""
        return [*self.argv, "--output", str(output)]

    def stable(self, name: str, content: bytes | None) -> bytes | None:
        """Content as far as it must be the same in every run."""
        return self.varying.sub(b"", content) if name == self.record and content else content


@dataclass(frozen=True)
class Ended:
    """How a run ended: an exit code, minus a signal, or ``hung``; and the points it told of."""

    how: int | str
    points: tuple[Point, ...]
    log: Path

    @property
    def last_words(self) -> str:
        """The end of what it wrote to standard output and error."""
        return self.log.read_text(errors="replace")[-600:] if self.log.exists() else ""


class Server:
    """A warm process and ``lanes`` forks of it, each of which runs one process at a time."""

    def __init__(self, logs: Path, lanes: int) -> None:
        """Start; :meth:`warm_up` comes next."""
        self.lanes = lanes
        self._logs = logs
        logs.mkdir(parents=True, exist_ok=True)
        self._idle: queue.Queue[tuple[int, BufferedRWPair]] = queue.Queue()
        with ExitStack() as theirs:
            pairs = [socket.socketpair() for _ in range(lanes)]
            numbers = [theirs.enter_context(their).fileno() for _, their in pairs]
            self._process = subprocess.Popen(
                [sys.executable, str(CHILD), "serve", *map(str, numbers)],
                cwd=REPOSITORY,
                # The order of points must be the same in every process.
                env={**os.environ, "PYTHONPATH": str(REPOSITORY), "PYTHONHASHSEED": "0"},
                stdin=subprocess.DEVNULL,
                pass_fds=numbers,
            )
        self._pipes = []
        for i, (ours, _) in enumerate(pairs):
            self._pipes.append(ours.makefile("rwb"))
            self._idle.put((i, self._pipes[i]))
            ours.close()

    def warm_up(self, case: Case, output: Path) -> None:
        """Run the case once into ``output``, in the process that all others are forked from."""
        first, answer = self._ask({"argv": case.command(output)}, 0, self._pipes[0])
        assert first.how == case.exit_code, first.last_words
        assert not answer["threads"], f"a run leaves threads behind, forking is not safe: {answer['threads']}"

    def run(
        self,
        argv: Sequence[str],
        output: Path,
        *,
        watch: bool = False,
        kill: tuple[int, str] | None = None,
        plant: str | None = None,
    ) -> Ended:
        """One run in a fresh process; waits for a lane.

        Args:
            argv: command line.
            output: its output directory.
            watch: wrap functions and tell of all points.
            kill: number of a point and moment; implies ``watch``.
            plant: a fault of :data:`tests.crash.child.PLANTS`.
        """
        request = {
            "argv": list(argv),
            "output": str(output),
            "watch": watch or kill is not None,
            "kill": kill,
            "plant": plant,
            "patience": PATIENCE,
        }
        lane, pipe = self._idle.get()
        try:
            return self._ask(request, lane, pipe)[0]
        finally:
            self._idle.put((lane, pipe))

    def _ask(self, request: dict[str, Any], lane: int, pipe: BufferedRWPair) -> tuple[Ended, dict[str, Any]]:
        log = self._logs / f"lane-{lane}.log"
        log.unlink(missing_ok=True)
        pipe.write(json.dumps({**request, "log": str(log)}).encode() + b"\n")
        pipe.flush()
        line = pipe.readline()
        text = log.read_text(errors="replace")[-2000:] if log.exists() else ""
        assert line, f"the fork server is gone\n{text}"
        answer = json.loads(line)
        points = tuple(Point(**{**p, "moments": tuple(p["moments"])}) for p in answer["points"])
        return Ended(answer["ended"], points, log), answer

    def close(self) -> None:
        """End all processes."""
        for pipe in self._pipes:
            pipe.close()
        self._process.wait(PATIENCE)


# --- what a reader may find


def tree(folder: Path) -> dict[str, bytes | None]:
    """Everything below a folder."""
    return {
        path.relative_to(folder).as_posix(): None if path.is_dir() else path.read_bytes()
        for path in sorted(folder.rglob("*"))
    }


def reader_complaints(case: Case, found: Tree, versions: Sequence[Tree]) -> list[str]:
    """What a reader could trip over in a directory whose run was killed.

    Whatever has its final name is whole and one of ``versions``, the results of undisturbed runs; where a
    record is, all files of its version are there.
    """
    complaints = []
    known = set().union(*versions)
    for name, content in found.items():
        if SCRATCH.match(name) or name == ".lock":
            continue  # a killed run's own
        final = TEMPORARY.sub("", name)
        if final not in known and final not in case.scratch:
            complaints.append(f"{name}: no run leaves such a file")
        elif name != final or name == case.record:
            pass  # readers pass over unfinished files; of the record below
        elif name in case.scratch:
            if not _whole_json(content):
                complaints.append(f"{name}: not whole")
        elif not any(name in version and version[name] == content for version in versions):
            complaints.append(f"{name}: {_what_is_wrong(name, content, versions)}")
    if case.record in found:
        complaints += _record_complaints(case, found, versions)
    return complaints


def _record_complaints(case: Case, found: Tree, versions: Sequence[Tree]) -> list[str]:
    """A record vouches for every file of its version."""
    record = case.stable(case.record, found[case.record])
    same = [v for v in versions if case.record in v and case.stable(case.record, v[case.record]) == record]
    if not same:
        return [f"{case.record}: {'another' if _whole_json(found[case.record]) else 'not whole'}"]
    files = {n: c for n, c in same[0].items() if n not in (case.record, "index.html")}
    wrong = [name for name, content in files.items() if name not in found or found[name] != content]
    return [f"{case.record} is there, but {name} is missing or another" for name in wrong]


def _what_is_wrong(name: str, content: bytes | None, versions: Sequence[Tree]) -> str:
    right = next(v[name] for v in versions if name in v)
    if content is None or right is None:
        return "a folder in a file's place, or the other way round"
    text = f"{len(content)} bytes of {len(right)}" if right.startswith(content) else "another content"
    if name.endswith(".parquet"):
        try:
            pq.read_table(BytesIO(content))
        except (OSError, ValueError) as error:
            text += f", not readable ({' '.join(str(error).split())[:80]})"
    return text


def _whole_json(content: bytes | None) -> bool:
    try:
        json.loads(content or b"")
    except ValueError:
        return False
    return True


def differences(case: Case, found: Tree, reference: Tree) -> list[str]:
    """Where a directory is not byte for byte the reference; the record without what varies."""
    complaints = [f"{name}: left over" for name in found if name not in reference]
    for name, content in reference.items():
        if name not in found:
            complaints.append(f"{name}: missing")
        elif case.stable(name, found[name]) != case.stable(name, content):
            complaints.append(f"{name}: {_what_is_wrong(name, found[name], [reference])}")
    return complaints


def durability_complaints(points: Sequence[Point], record: str = "run.json") -> list[str]:
    """What a power failure could undo, which a killed process does not show.

    Before a file is renamed its bytes are forced to disk, and before the record is renamed every folder with
    a renamed file is.
    """
    complaints = []
    dirty: set[str] = set()  # files with bytes that are not forced
    loose: dict[str, str] = {}  # renamed files by folder whose entry is not forced
    for point in points:
        folder = str(Path(point.path).parent)
        if point.does in ("write", "truncate"):
            dirty.add(point.path.removesuffix(".tmp"))
        elif point.does == "fsync" and point.label == FOLDER:
            loose.pop(point.path, None)
        elif point.does == "fsync":
            dirty.discard(point.path.removesuffix(".tmp"))
        elif point.does == "rename":
            if point.path in dirty:
                complaints.append(f"{point.path}: renamed before it was forced to disk")
            if point.path == record:
                complaints += [f"{name}: its folder is not forced to disk" for name in loose.values()]
            loose[folder] = point.path
    return complaints + [f"{name}: its folder is never forced to disk" for name in loose.values()]


# --- the run under test


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


class Site:
    """Two collections, files of their reports in several formats, and a warm process.

    Among the files are a gzip one, a Parquet one, duplicates, a torn one and one that is no report file.
    """

    def __init__(self, base: Path, lanes: int = 2) -> None:
        """Write inputs, run once, and start the server."""
        self.base = base
        self.server = Server(base / "logs", lanes)
        screens = self._collection("screens", "loloha", 24, "epsilon_longitudinal: 2.0\nepsilon_first: 1.0")
        plan = self._collection("plan", "grr", 6, "epsilon: 1.0")
        self.collections = [base / "screens.yaml", base / "plan.yaml"]
        sent = with_duplicates(fleet(screens, 200, 3))
        now, older = base / "in", base / "older-in"
        write(now, screens, [b for b in sent if b.epoch != 1], prefix="screens-")
        write(now, screens, [b for b in sent if b.epoch == 1], compression="gzip", prefix="screens-")
        bought = fleet(plan, 150, 3)
        write(now, plan, with_duplicates([b for b in bought if b.epoch < 2]), "report", prefix="plan-")
        write(now, plan, [b for b in bought if b.epoch == 2], "parquet", prefix="plan-")
        write(now, collection("grr", 5, "stranger"), fleet(collection("grr", 5, "stranger"), 20, 1))
        whole = (now / "screens-epoch-000000.pb").read_bytes()
        (now / "torn.pb.gz").write_bytes(gzip.compress(whole[:3000], mtime=0)[:-200])
        # An older run had fewer reports of the same epochs, and an epoch that the inputs no longer have.
        earlier = [
            ReportColumns(b.digest, 9 if b.epoch == 2 else b.epoch, b.report_ids, b.payloads)
            for b in sent[:3]
        ]
        earlier += [ReportColumns(b.digest, 9, b.report_ids, b.payloads) for b in sent[3:5]]
        write(older, screens, earlier, prefix="screens-")
        (older / "torn.pb").write_bytes(whole[:700])
        self.case, self._older_case = self._case(now), self._case(older)
        self.server.warm_up(self.case, base / "reference")
        self.reference = tree(base / "reference")
        self._trials = iter(range(1_000_000))
        self._known: dict[str, tuple[Point, ...]] = {}

    def _collection(self, name: str, protocol: str, size: int, parameters: str) -> Any:
        path = self.base / f"{name}.yaml"
        path.write_text(YAML.format(name=name, size=size, protocol=protocol, parameters=parameters))
        return load_collection(path)

    def _case(self, folder: Path) -> Case:
        files = [arg for path in self.collections for arg in ("--collection", str(path))]
        return Case(("run", *files, "--input", str(folder / "*")), exit_code=4)

    @functools.cached_property
    def older(self) -> dict[str, bytes | None]:
        """What an older run over other inputs left, with a page that was made of it."""
        folder = self.base / "older"
        ended = self.server.run(self._older_case.command(folder), folder)
        assert ended.how == self._older_case.exit_code, ended.last_words
        (folder / "index.html").write_text("<p>a page of the older run\n")
        return tree(folder)

    def fresh(self) -> Path:
        """A path that nothing has."""
        return self.base / "trials" / f"{next(self._trials):06d}"

    def points(self, scene: Scene) -> tuple[Point, ...]:
        """All points of a run in a scene."""
        if scene.name not in self._known:
            output = self.fresh()
            scene.prepare(self, output)
            ended = self.server.run(self.case.command(output), output, watch=True)
            assert ended.how == self.case.exit_code, ended.last_words
            self._known[scene.name] = ended.points
        return self._known[scene.name]

    def close(self) -> None:
        """End the processes."""
        self.server.close()


@dataclass(frozen=True)
class Scene:
    """What lies in the output directory before the run that is killed.

    Attributes:
        name: for messages.
        prepare: puts it there.
        versions: what a reader may find afterwards.
    """

    name: str
    prepare: Callable[[Site, Path], None]
    versions: Callable[[Site], Sequence[Tree]]


def _nothing(site: Site, output: Path) -> None:
    output.parent.mkdir(parents=True, exist_ok=True)


def _older_run(site: Site, output: Path) -> None:
    for name, content in site.older.items():
        if content is None:
            (output / name).mkdir(parents=True)
        else:
            (output / name).parent.mkdir(parents=True, exist_ok=True)
            (output / name).write_bytes(content)


def _leftovers(site: Site, output: Path) -> None:
    """As if a run had been killed in the midst of every file at once."""
    _nothing(site, output)
    for name, content in site.reference.items():
        path = output / name
        if content is None:
            path.mkdir(parents=True)
        elif name != site.case.record:
            (output / f"{name}.0123abcd.tmp").write_bytes(content[:99])
    half = output / ".run-0123abcd.tmp" / "estimates" / "half.parquet"
    half.parent.mkdir(parents=True)
    half.write_bytes(b"PAR1")
    (output / ".lock").touch()
    for name in (site.case.record, *site.case.scratch):
        (output / f"{name}.0123abcd.tmp").write_bytes(b"{")


EMPTY = Scene("empty", _nothing, lambda site: [site.reference])
OVER = Scene("over an older run", _older_run, lambda site: [site.older, site.reference])
LEFT = Scene("leftovers", _leftovers, lambda site: [site.reference])
SCENES = (EMPTY, OVER, LEFT)


# --- trials


@dataclass(frozen=True)
class Trial:
    """A point at which a run is killed, in a scene."""

    scene: Scene
    point: Point
    moment: str
    plant: str | None = None

    def __str__(self) -> str:
        p = self.point
        return f"{self.scene.name}: {self.moment} {p.number} ({p.label}: {p.does} {p.path})"


def try_one(site: Site, trial: Trial) -> list[str]:
    """Kill a run at a point, look, run again, compare: what is wrong."""
    output, case = site.fresh(), site.case
    trial.scene.prepare(site, output)
    argv = case.command(output)
    kill = (trial.point.number, trial.moment)
    ended = site.server.run(argv, output, kill=kill, plant=trial.plant)
    complaints = []
    if ended.how != -9:
        complaints.append(f"not killed but ended with {ended.how}: {ended.last_words}")
    elif ended.points != (trial.point,):
        complaints.append(f"killed at another point: {ended.points}")
    found = tree(output)
    complaints += [f"killed: {c}" for c in reader_complaints(case, found, trial.scene.versions(site))]
    again = site.server.run(argv, output, plant=trial.plant)
    if again.how != case.exit_code:
        complaints.append(f"run again: ended with {again.how}: {again.last_words}")
    complaints += [f"run again: {c}" for c in differences(case, tree(output), site.reference)]
    if not complaints:
        shutil.rmtree(output)
    return [f"{trial}: {c}" for c in complaints]


def try_again_and_again(site: Site, kills: Sequence[tuple[int, str]]) -> list[str]:
    """Kill one run after the other in the same directory, then let one finish: what is wrong."""
    output, case = site.fresh(), site.case
    argv = case.command(output)
    _nothing(site, output)
    complaints = []
    for kill in kills:
        ended = site.server.run(argv, output, kill=kill)
        if ended.how != -9:
            complaints.append(f"not killed at {kill} but ended with {ended.how}: {ended.last_words}")
        found = reader_complaints(case, tree(output), [site.reference])
        complaints += [f"killed at {kill}: {c}" for c in found]
    last = site.server.run(argv, output)
    if last.how != case.exit_code:
        complaints.append(f"run again: ended with {last.how}: {last.last_words}")
    complaints += [f"run again: {c}" for c in differences(case, tree(output), site.reference)]
    return [f"{kills}: {c}" for c in complaints]


def at_once(site: Site, tries: Iterable[Callable[[], list[str]]]) -> list[str]:
    """All complaints of some tries, as many at a time as there are lanes."""
    with ThreadPoolExecutor(site.server.lanes) as pool:
        return [c for found in pool.map(lambda one: one(), tries) for c in found]


def try_all(site: Site, trials: Iterable[Trial]) -> list[str]:
    """All complaints about some trials."""
    return at_once(site, [functools.partial(try_one, site, trial) for trial in trials])


def choose(points: Sequence[Point], wanted: int) -> list[tuple[Point, str]]:
    """About ``wanted`` pairs of point and moment: every label has its share, spread over the run.

    Labels with few points are taken whole; the others share what is left.
    """
    by_label: dict[str, list[tuple[Point, str]]] = {}
    for point in points:
        by_label.setdefault(point.label, []).extend((point, moment) for moment in point.moments)
    shares: Counter[str] = Counter()
    left = min(wanted, sum(map(len, by_label.values())))
    while left:
        for label, all_of_it in by_label.items():
            if left and shares[label] < len(all_of_it):
                shares[label] += 1
                left -= 1
    chosen = [pair for label, pairs in by_label.items() for pair in spread(pairs, shares[label])]
    return sorted(chosen, key=lambda pair: (pair[0].number, (BEFORE, HALF, AFTER).index(pair[1])))


def spread(items: Sequence[Any], wanted: int) -> list[Any]:
    """``wanted`` of the items at even distances, first and last among them."""
    if wanted == 1:
        return [items[len(items) // 2]]
    return evenly(items, wanted)
