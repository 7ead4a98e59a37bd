"""Several audits of one call, in two processes where there are two cores."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context

from ldpbeam.audit.audit import FALSE_ALARM, audit
from ldpbeam.audit.checks.outcome import AuditOutcome
from ldpbeam.audit.client.clients import Memoised, PythonClient, scratch
from ldpbeam.audit.client.draws import plan_of
from ldpbeam.audit.client.external import ExternalClient
from ldpbeam.collection.collection import Collection

DERIVED = "derived"

_LESS = 6
"""How much less is drawn from devices that keep a folder each: they take as many times as long."""


@dataclass(frozen=True)
class Task:
    collection: Collection
    draws: int
    client: str
    external: bool = False

    def run(self, false_alarm: float) -> AuditOutcome:
        plan = plan_of(self.draws, slow=self.client == DERIVED)
        if self.external:
            with ExternalClient(self.client, self.collection) as client:
                return audit(client, self.collection, plan, false_alarm)
        with scratch() as folder:
            python = PythonClient(self.collection, Memoised(self.client), folder)
            return audit(python, self.collection, plan, false_alarm)


def tasks_for(collections: Sequence[Collection], draws: int, command: str | None) -> list[Task]:
    """Of a command one audit per collection; of this project's client two, one for either kind of memo."""
    if command is not None:
        return [Task(collection, draws, command, external=True) for collection in collections]
    return [
        Task(collection, max(1, draws // less), memo)
        for collection in collections
        for memo, less in (("stored", 1), (DERIVED, _LESS))
    ]


def audit_all(tasks: Sequence[Task]) -> Iterator[AuditOutcome]:
    """Outcomes in the order of the tasks, each as soon as it is known; false alarms are shared equally."""
    share = FALSE_ALARM / len(tasks)
    workers = min(2, os.cpu_count() or 1, len(tasks))
    if workers < 2:
        yield from (task.run(share) for task in tasks)
        return
    # Fresh interpreters: what a fork would copy is part of what is audited.
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        yield from pool.map(_run, tasks, [share] * len(tasks))


def _run(task: Task, share: float) -> AuditOutcome:
    return task.run(share)
