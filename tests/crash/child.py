"""A process of ours that numbers what it does and dies by SIGKILL at one of these points.

Nothing in the packages knows of it: real functions are wrapped by their names, which :data:`HOOKS` lists.
Every call of one is a point; a process can be told to die before it, after it, or with half of its bytes
written.

    python tests/crash/child.py list run --collection c.yaml --input 'in/*' --output out
    python tests/crash/child.py kill 17:before run --collection c.yaml --input 'in/*' --output out

``serve`` is for the harness: it runs the command once, so that everything is imported and compiled, and then
forks one process per request.
"""

from __future__ import annotations

import functools
import gc
import importlib
import inspect
import io
import json
import logging
import os
import re
import signal
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

BEFORE, HALF, AFTER = "before", "half", "after"
TEMPORARY = re.compile(r"\.[0-9a-f]+\.tmp$")
"""How names of unfinished files end."""
SCRATCH = re.compile(r"^\.run-[0-9a-f]{8}\.tmp(/|$)")
"""Where a run writes before it exchanges its results for what is there; a folder of the output."""
NEW = ".run.tmp/"
"""What that folder is called here, in every process alike."""


def final(name: str) -> str:
    """The path that a file in the folder of a run has in the end."""
    return name.removeprefix(NEW)


# --- points


@dataclass(frozen=True)
class Point:
    """One call: its number from 0 on, what it belongs to, what it does, and to which file or folder."""

    number: int
    label: str
    does: str
    path: str
    moments: tuple[str, ...]


class Points:
    """Numbers calls and ends the process at one of them.

    ``kill`` is (number, moment); with None every call is only noted. Any thread may make a call. ``tell``
    hears of the point before the process ends, ``folder`` is the output.
    """

    def __init__(
        self,
        folder: str,
        kill: tuple[int, str] | None = None,
        tell: Callable[[list[Point]], object] = lambda _: None,
    ) -> None:
        self.folder = Path(folder).resolve()
        self.noted: list[Point] = []
        self._kill = kill
        self._tell = tell
        self._lock = threading.Lock()

    def inside(self, path: Any, dir_fd: int | None = None) -> str | None:
        """The path relative to the output with the temporary part named alike, None if it lies elsewhere."""
        try:
            if isinstance(path, int):
                text = Path(f"/proc/self/fd/{path}").readlink()
            else:
                text = Path(os.fsdecode(path))
                if dir_fd is not None:
                    text = Path(f"/proc/self/fd/{dir_fd}").readlink() / text
                text = text.absolute()
                text = text.parent.resolve() / text.name  # a link is not followed: it would be replaced
        except OSError:
            return None
        if not self._holds(text):
            return None
        name = SCRATCH.sub(NEW, str(text.relative_to(self.folder)))
        return name.rstrip("/") if name == NEW else TEMPORARY.sub(".tmp", name)

    def _holds(self, path: Path) -> bool:
        return path == self.folder or self.folder in path.parents

    @contextmanager
    def call(self, label: str, does: str, path: str = "", half: bool = False) -> Iterator[bool]:
        """Around a call. Gives whether only half of it is to be done before :meth:`end` is called."""
        moments = (BEFORE, HALF, AFTER) if half else (BEFORE, AFTER)
        with self._lock:
            point = Point(len(self.noted), label, does, path, moments)
            self.noted.append(point)
            if self._kill == (point.number, BEFORE):
                self.end(point)
        try:
            yield self._kill == (point.number, HALF)
        finally:
            if self._kill in ((point.number, HALF), (point.number, AFTER)):
                self.end(point)

    def end(self, point: Point) -> None:
        """Die here, as the kernel's out-of-memory killer would have it."""
        self._tell([point])
        os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(60)


# --- wrappers: what a call of a function means


Wrapper = Callable[[Callable[..., Any], Points, str, str], Callable[..., Any]]


def whole(real: Callable[..., Any], points: Points, label: str, does: str) -> Callable[..., Any]:
    """A function whose every call is one point."""

    @functools.wraps(real)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        with points.call(label, does):
            return real(*args, **kwargs)

    return wrapped


def opening_input(real: Callable[..., Any], points: Points, label: str, does: str) -> Callable[..., Any]:
    """A function that opens a file for reading: the call and the handle's reads are points."""

    @functools.wraps(real)
    def wrapped(path: str, *args: Any, **kwargs: Any) -> Any:
        where = points.inside(path)
        name = Path(path).name if where is None else where
        belongs = label if where is None else _belongs(where, MANIFEST)
        with points.call(belongs, does, name):
            handle = real(path, *args, **kwargs)
        return _Handle(handle, points, belongs, name)

    return wrapped


def opening(real: Callable[..., Any], points: Points, label: str, does: str) -> Callable[..., Any]:
    """The builtin open: where it opens something in the output for writing, all its doings are points."""

    @functools.wraps(real)
    def wrapped(path: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        where = points.inside(path) if set(mode) & set("wax+") else None
        if where is None:
            return real(path, mode, *args, **kwargs)
        belongs = _belongs(where, label)
        with points.call(belongs, does, where):
            handle = real(path, mode, *args, **kwargs)
        return _Handle(handle, points, belongs, where)

    return wrapped


def opening_descriptor(real: Callable[..., Any], points: Points, label: str, does: str) -> Callable[..., Any]:
    """os.open: likewise, where the flags allow writing."""

    @functools.wraps(real)
    def wrapped(path: Any, flags: int, *args: Any, dir_fd: int | None = None, **kwargs: Any) -> Any:
        where = points.inside(path, dir_fd) if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) else None
        if where is None:
            return real(path, flags, *args, dir_fd=dir_fd, **kwargs)
        with points.call(_belongs(where, label), does, where):
            return real(path, flags, *args, dir_fd=dir_fd, **kwargs)

    return wrapped


def writing_descriptor(real: Callable[..., Any], points: Points, label: str, does: str) -> Callable[..., Any]:
    """os.write to a file in the output."""

    @functools.wraps(real)
    def wrapped(descriptor: int, data: Any) -> Any:
        where = points.inside(descriptor)
        if where is None:
            return real(descriptor, data)
        with points.call(_belongs(where, label), does, where, half=True) as half:
            return real(descriptor, data[: len(data) // 2] if half else data)

    return wrapped


def changing(real: Callable[..., Any], points: Points, label: str, does: str) -> Callable[..., Any]:
    """A function that changes something in the output, which an argument names."""

    @functools.wraps(real)
    def wrapped(*args: Any, dir_fd: int | None = None, **kwargs: Any) -> Any:
        given = kwargs if dir_fd is None else {**kwargs, "dir_fd": dir_fd}
        path = args[1] if does == "rename" else [*args, *kwargs.values()][0]
        if hasattr(path, "fileno"):
            path = path.fileno()
        where = points.inside(path, dir_fd)
        if where is None:
            return real(*args, **given)
        belongs = _belongs(where, label)
        if does == "fsync" and stat.S_ISDIR(os.fstat(path).st_mode):
            belongs = FOLDER
        with points.call(belongs, does, where):
            return real(*args, **given)

    return wrapped


class _Handle:
    """A file handle whose reads and writes are points; everything else is the real one's."""

    def __init__(self, handle: Any, points: Points, label: str, path: str) -> None:
        self._handle = handle
        self._points = points
        self._label = label
        self._path = path

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._handle, name)
        if name not in ("read", "read1", "readinto", "flush", "close", "truncate"):
            return found
        if name == "close" and self._handle.closed:
            return found
        return functools.partial(self._noted, name, found)

    def _noted(self, name: str, real: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        with self._points.call(self._label, name, self._path):
            return real(*args, **kwargs)

    def write(self, data: Any) -> Any:
        with self._points.call(self._label, "write", self._path, half=True) as half:
            if half:
                self._handle.write(data[: len(data) // 2])
                self._handle.flush()
                return None
            return self._handle.write(data)

    def __enter__(self) -> _Handle:
        self._handle.__enter__()
        return self

    def __exit__(self, *error: object) -> Any:
        self.close()

    def __iter__(self) -> Any:
        return iter(self._handle)


# --- what is wrapped


MANIFEST = "manifest"
FOLDER = "sync-folder"
RECORDS = ("run.json",)
"""Files that say a run has finished: whatever is done to them has the label :data:`MANIFEST`."""


def _belongs(path: str, label: str) -> str:
    return MANIFEST if final(path).removesuffix(".tmp") in RECORDS else label


@dataclass(frozen=True)
class Hook:
    """A function by name, what it belongs to and does, and what a call of it means."""

    label: str
    target: str
    does: str
    wrapper: Wrapper = whole


FILES = (
    Hook("write", "builtins:open", "open", opening),
    Hook("write", "io:open", "open", opening),  # pathlib's
    Hook("write", "os:open", "open", opening_descriptor),
    Hook("write", "os:write", "write", writing_descriptor),
    Hook("write", "os:truncate", "truncate", changing),
    Hook("write", "os:ftruncate", "truncate", changing),
    Hook("fsync", "os:fsync", "fsync", changing),
    Hook("fsync", "os:fdatasync", "fsync", changing),
    Hook("rename", "os:replace", "rename", changing),
    Hook("rename", "os:rename", "rename", changing),
    Hook("rename", "os:link", "rename", changing),
    Hook("remove", "os:remove", "remove", changing),
    Hook("remove", "os:unlink", "remove", changing),
    Hook("remove", "os:rmdir", "rmdir", changing),
    Hook("mkdir", "os:mkdir", "mkdir", changing),
)
"""Everything that changes the output directory, for any command that does so from Python."""

READING = (
    Hook("read", "apache_beam.io.filesystems:FileSystems.match", "match"),
    Hook("read", "apache_beam.io.filesystems:FileSystems.open", "open", opening_input),
)

COMPUTING = (
    Hook("decode", "ldpbeam.reports:parse", "parse"),
    Hook("dedup", "ldpbeam.dedup:_repeats", "repeats"),
    Hook("dedup", "ldpbeam.dedup:_flags", "keep_one"),
    Hook("count", "ldpbeam.transforms.stages.support:CountSupportOfEach.add_input", "add_input"),
    Hook("estimate", "ldpbeam.transforms.stages.estimate:estimate_counted", "estimate"),
    Hook("estimate", "ldpbeam.transforms.stages.estimate:make_consistent", "make_consistent"),
    Hook("encode", "pyarrow.parquet:write_table", "write_table"),
)

HOOKS: dict[str, tuple[Hook, ...]] = {"run": READING + COMPUTING + FILES}
"""By command of the command line: its first word."""


class StaleHookError(LookupError):
    """A hook names a function that is no longer there."""


def labels(command: str) -> list[str]:
    """All labels of a command's points."""
    return [*dict.fromkeys([h.label for h in HOOKS[command]]), FOLDER, MANIFEST]


def wrapped(hook: Hook, points: Points, real: Any) -> Any:
    """The function of a hook with points about it."""
    return hook.wrapper(real, points, hook.label, hook.does)


def install(hooks: Sequence[Hook], points: Points) -> None:
    """Wrap everything, for the rest of this process's life."""
    for hook in hooks:
        replace(hook.target, partial(wrapped, hook, points), hook.label)


def replace(target: str, make: Callable[[Any], Any], label: str) -> None:
    """Put ``make(real)`` in the place of the function that ``target`` names.

    Raises:
        StaleHookError: there is none.
    """
    module, _, names = target.partition(":")
    *parents, name = names.split(".")
    try:
        owner: Any = functools.reduce(getattr, parents, importlib.import_module(module))
        real = getattr(owner, name)
    except (ImportError, AttributeError) as error:
        advice = f"tests/crash/child.py hooks {target} as {label!r}; give it the new name"
        raise StaleHookError(f"{advice} ({error})") from None
    made = make(real)
    static = isinstance(inspect.getattr_static(owner, name), (staticmethod, classmethod))
    setattr(owner, name, staticmethod(made) if static else made)


# --- planted faults: the suite must notice them


def _straight_to_the_final_name(points: Points) -> None:
    """Files are written where readers look for them; there is no temporary name and no renaming."""

    mkdir = os.mkdir  # the real one: what the plant does is no point

    def direct(path: Any) -> Any:
        if not isinstance(path, str) or not points.inside(path):
            return path
        name = SCRATCH.sub("", str(Path(path).absolute().relative_to(points.folder)))
        made = points.folder / TEMPORARY.sub("", name)
        with suppress(FileExistsError):
            mkdir(made.parent)
        return str(made)

    def plant_open(real: Any) -> Any:
        return lambda path, *args, **kwargs: real(direct(path), *args, **kwargs)

    def plant_replace(real: Any) -> Any:
        return lambda old, new: None if direct(old) == direct(new) else real(old, new)

    def plant_link(real: Any) -> Any:
        return lambda old, new: real(direct(old), direct(new))

    for name in ("builtins:open", "io:open"):
        replace(name, plant_open, "plant")
    replace("os:replace", plant_replace, "plant")
    replace("os:link", plant_link, "plant")


def _temporaries_stay(points: Points) -> None:
    """A finished file is copied from its temporary name, which is then forgotten."""

    def plant(real: Any) -> Any:
        def copied(old: Any, new: Any) -> None:
            os.link(old, f"{old}.0.tmp")
            real(old, new)

        return copied

    replace("os:replace", plant, "plant")


def _record_stays(points: Points) -> None:
    """The record of the run before is left in place while its files go."""

    def plant(real: Any) -> Any:
        def unlink(path: Any, **kwargs: Any) -> None:
            if Path(path).name not in RECORDS:
                real(path, **kwargs)

        return unlink

    replace("os:unlink", plant, "plant")


def _record_first(points: Points) -> None:
    """The record is published before the files that it lists: the first rename brings it along."""

    def plant(real: Any) -> Any:
        def early(old: Any, new: Any) -> None:
            record = points.folder / RECORDS[0]
            if not record.exists():
                with io.FileIO(record, "w") as handle:
                    handle.write(b"{}\n")
            real(old, new)

        return early

    replace("os:replace", plant, "plant")


def _old_results_stay(points: Points) -> None:
    """New results come among the files of an earlier run."""

    def plant(real: Any) -> Any:
        def exchange(output: str, scratch: Path) -> None:
            real(output, scratch)
            for path in scratch.glob("old-*/*"):
                kept = Path(output, path.parent.name.removeprefix("old-"), path.name)
                if not kept.exists():
                    os.link(path, kept)

        return exchange

    for module in ("ldpbeam.pipelines.run", "ldpbeam.records.output"):
        replace(f"{module}:exchange", plant, "plant")


PLANTS: dict[str, Callable[[Points], None]] = {
    "straight_to_the_final_name": _straight_to_the_final_name,
    "temporaries_stay": _temporaries_stay,
    "record_stays": _record_stays,
    "record_first": _record_first,
    "old_results_stay": _old_results_stay,
}


# --- running a command


def main(argv: Sequence[str]) -> int:
    """The command line in this process; its exit code."""
    from ldpbeam.cli.main import main as command

    sys.argv = ["ldpbeam", *argv]
    try:
        command()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


def main_with_points(
    argv: Sequence[str],
    output: str,
    kill: tuple[int, str] | None,
    plant: str | None,
    tell: Callable[[list[Point]], None],
) -> int:
    """The same with the command's hooks; ``tell`` hears of the fatal point, or of all at the end."""
    points = Points(output, kill, tell)
    if plant:
        PLANTS[plant](points)
    install(HOOKS[argv[0]], points)
    code = main(argv)
    tell(points.noted)
    return code


# --- fork server


def serve(lanes: Sequence[int]) -> None:
    """Run the command of the first request in this process, then fork for each request that follows.

    Requests and answers are lines of JSON on the sockets ``lanes``; the first request comes on the first one.
    """
    logging.basicConfig(level=logging.ERROR)
    sockets = [io.FileIO(lane, "r+") for lane in lanes]
    first = json.loads(sockets[0].readline())
    silence(first["log"])
    code = main(first["argv"])
    threads = [t.name for t in threading.enumerate() if t is not threading.main_thread()]
    _answer(sockets[0], {"ended": code, "points": [], "threads": threads})
    gc.collect()
    gc.freeze()
    pids = []
    for socket in sockets:
        if pid := os.fork():
            pids.append(pid)
            continue
        while line := socket.readline():
            _answer(socket, _fork_one(json.loads(line)))
        os._exit(0)
    for socket in sockets:
        socket.close()
    for pid in pids:
        os.waitpid(pid, 0)


def _answer(socket: io.FileIO, content: dict[str, Any]) -> None:
    data = memoryview(json.dumps(content).encode() + b"\n")
    while data:
        data = data[socket.write(data) or 0 :]


def _fork_one(request: dict[str, Any]) -> dict[str, Any]:
    """One process for one request, waited for."""
    told = os.memfd_create("told")
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            silence(request["log"])
            code = _run_request(request, told)
        except BaseException:
            logging.exception("the child failed")
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    deadline = time.monotonic() + request["patience"]
    while not (ended := os.waitpid(pid, os.WNOHANG))[0]:
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            os.close(told)
            return {"ended": "hung", "points": []}
        time.sleep(0.002)
    with os.fdopen(told, "rb") as handle:
        handle.seek(0)
        points = json.loads(handle.read() or b"[]")
    return {"ended": os.waitstatus_to_exitcode(ended[1]), "points": points}


def _run_request(request: dict[str, Any], told: int) -> int:
    if not request["watch"]:
        if request["plant"]:
            PLANTS[request["plant"]](Points(request["output"]))
        return main(request["argv"])
    kill = request["kill"]
    real_write = os.write  # the wrapper is for the process under test

    def tell(points: list[Point]) -> None:
        data = memoryview(json.dumps([asdict(p) for p in points]).encode())
        while data:
            data = data[real_write(told, data) :]

    return main_with_points(
        request["argv"], request["output"], tuple(kill) if kill else None, request["plant"], tell
    )


def silence(log: str) -> None:
    """Standard output and error go to a file."""
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for stream in (1, 2):
        os.dup2(descriptor, stream)
    os.close(descriptor)


def show(points: Sequence[Point]) -> None:
    """One line per point, on standard error."""
    for p in points:
        sys.stderr.write(f"{p.number:5} {p.label:12} {p.does:18} {p.path:60} {','.join(p.moments)}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    what, *rest = sys.argv[1:]
    if what == "serve":
        serve([int(lane) for lane in rest])
    else:
        fatal = None
        if what == "kill":
            number, _, moment = rest.pop(0).partition(":")
            fatal = int(number), moment
        sys.exit(main_with_points(rest, rest[rest.index("--output") + 1], fatal, None, show))
