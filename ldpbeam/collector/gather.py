"""Many requests, one commit: bodies wait together while the store is busy with those before them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from time import monotonic

from ldpbeam.collection.collection import Collection, digest_hex
from ldpbeam.collector.checks import JudgedBodies, Verdict, judge
from ldpbeam.collector.store import Store
from ldpbeam.errors import LdpError

_COMMIT_BYTES = 8 << 20
_COMMIT_REQUESTS = 4096
"""What goes into one commit, at most."""
_PAUSE = 1.0
"""Seconds after a failed commit in which the store is left alone."""


class NotSafeError(Exception):
    """The store does not take reports now."""


@dataclass
class RequestCounts:
    """What has happened since the start; nothing of a device, nor of a payload, is in it."""

    reports: Counter[str] = field(default_factory=Counter)
    refused: Counter[tuple[str, str]] = field(default_factory=Counter)
    answers: Counter[int] = field(default_factory=Counter)
    commits: int = 0
    failures: int = 0

    def refuse(self, verdict: Verdict) -> None:
        digest = "" if verdict.digest is None else digest_hex(verdict.digest)
        assert verdict.reason is not None  # noqa: S101 - it is refused
        self.refused[digest, verdict.reason.value] += verdict.reports


class Gather:
    """Between the requests and the store; everything but the commits runs in the loop's thread."""

    def __init__(self, store: Store, collections: Mapping[int, Collection]) -> None:
        self._store, self._collections = store, collections
        self._waiting: list[tuple[bytes, asyncio.Future[Verdict]]] = []
        self._came = asyncio.Event()
        self._stopping = False
        self._refuses_until = 0.0
        self._commits = ThreadPoolExecutor(1, "commit")
        self.failed = False
        """Whether the last thing that the store was asked to do failed."""
        self.counts = RequestCounts()

    @property
    def damaged(self) -> int:
        return self._store.damaged

    @property
    def refusing(self) -> bool:
        """Whether the store has just failed."""
        return monotonic() < self._refuses_until

    async def put(self, body: bytes) -> Verdict:
        """Judge a body and make it safe."""
        if self._stopping or self.refusing:
            raise NotSafeError
        answer: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()
        self._waiting.append((body, answer))
        self._came.set()
        return await answer

    async def run(self) -> None:
        """Commit what comes until :meth:`stop`; then what is left."""
        loop = asyncio.get_running_loop()
        while self._waiting or not self._stopping:
            await self._came.wait()
            some = self._take()
            if not some:
                continue
            judged = await loop.run_in_executor(self._commits, self._commit, [body for body, _ in some])
            if isinstance(judged, JudgedBodies):
                self._answer(judged, [answer for _, answer in some])
            else:
                self.counts.failures += 1
                self.failed = True
                self._refuses_until = monotonic() + _PAUSE
                for _, answer in some:
                    if not answer.done():
                        answer.set_exception(NotSafeError())

    def _take(self) -> list[tuple[bytes, asyncio.Future[Verdict]]]:
        size = 0
        for number, (body, _) in enumerate(self._waiting, 1):
            size += len(body)
            if size >= _COMMIT_BYTES or number == _COMMIT_REQUESTS:
                some, self._waiting = self._waiting[:number], self._waiting[number:]
                return some
        some, self._waiting = self._waiting, []
        if not self._stopping:
            self._came.clear()
        return some

    def _commit(self, bodies: list[bytes]) -> JudgedBodies | Exception:
        try:
            judged = judge(bodies, self._collections)
            if judged.columns:
                self._store.commit(judged.columns)
        except (
            Exception
        ) as error:  # a disk, a broker, or a fault of ours: nobody is answered that all is well
            return error
        return judged

    def _answer(self, judged: JudgedBodies, answers: list[asyncio.Future[Verdict]]) -> None:
        if judged.columns:
            self.counts.commits += 1
            self.failed = False
        for verdict, answer in zip(judged.verdicts, answers, strict=True):
            if verdict.reason is None:
                assert verdict.digest is not None  # noqa: S101 - it is taken
                self.counts.reports[digest_hex(verdict.digest)] += verdict.reports
            else:
                self.counts.refuse(verdict)
            if not answer.done():
                answer.set_result(verdict)

    async def publish(self) -> None:
        try:
            await asyncio.to_thread(self._store.publish)
            self.failed = self.failed and self.refusing
        except (OSError, LdpError):
            self.counts.failures += 1
            self.failed = True

    def stop(self) -> None:
        """Take no more; :meth:`run` ends once everything is answered."""
        self._stopping = True
        self._came.set()

    def close(self) -> None:
        with suppress(RuntimeError):
            self._commits.shutdown()
