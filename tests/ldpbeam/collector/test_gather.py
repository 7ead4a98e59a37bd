"""Bodies that wait are committed together, up to a limit, and a store that fails is said to have failed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

import pytest

from ldpbeam.admission import ReportColumns
from ldpbeam.collector import gather as module
from ldpbeam.collector.checks import Verdict
from ldpbeam.collector.gather import Gather
from ldpbeam.collector.store import FileStore
from ldpbeam.errors import Reason
from tests.ldpbeam.collector.serving import ONE, names, report


def committed(folder: Path, bodies: Sequence[bytes]) -> list[int]:
    """How many reports each commit has where all bodies wait before the first one."""
    store, sizes = FileStore(folder, 3600.0, 1 << 24), list[int]()
    store.open()
    real = store.commit

    def noted(columns: Sequence[ReportColumns]) -> None:
        sizes.append(sum(map(len, columns)))
        real(columns)

    async def run() -> None:
        gather = Gather(store, {ONE.digest: ONE})
        putting = [asyncio.ensure_future(gather.put(body)) for body in bodies]
        await asyncio.sleep(0)
        running = asyncio.ensure_future(gather.run())
        assert all(verdict.reason is None for verdict in await asyncio.gather(*putting))
        gather.stop()
        await running

    with mock.patch.object(store, "commit", noted):
        asyncio.run(run())
    store.close()
    return sizes


@pytest.mark.parametrize(
    ("limit", "most", "sizes"),
    [("_COMMIT_REQUESTS", 3, [3, 3, 1]), ("_COMMIT_BYTES", 2 * len(report(1)) - 1, [2, 2, 2, 1])],
)
def test_a_commit_ends_at_its_limit_and_the_rest_is_next(
    tmp_path: Path, limit: str, most: int, sizes: list[int]
) -> None:
    with mock.patch.object(module, limit, most):
        assert committed(tmp_path, [report(i) for i in range(1, 8)]) == sizes
    assert names(tmp_path) == list(range(1, 8))


def test_who_no_longer_waits_for_an_answer_takes_nobody_elses(tmp_path: Path) -> None:
    """A connection ends while its body is being committed: the report is safe, and the others hear theirs."""
    store = FileStore(tmp_path, 3600.0, 1 << 24)
    store.open()

    async def run() -> list[Verdict]:
        gather = Gather(store, {ONE.digest: ONE})
        putting = [asyncio.ensure_future(gather.put(body)) for body in (report(1), report(2), b"\xff")]
        await asyncio.sleep(0)
        putting[0].cancel()
        await asyncio.sleep(0)
        running = asyncio.ensure_future(gather.run())
        verdicts = await asyncio.gather(*putting[1:])
        gather.stop()
        await running
        assert gather.counts.reports.total() == 2
        assert gather.counts.refused == {("", "malformed"): 1}
        return verdicts

    assert [verdict.reason for verdict in asyncio.run(run())] == [None, Reason.MALFORMED]
    store.close()
    assert names(tmp_path) == [1, 2]


def test_a_store_that_cannot_publish_has_failed_until_it_can(tmp_path: Path) -> None:
    store = FileStore(tmp_path, 3600.0, 1 << 24)
    store.open()

    async def run() -> None:
        gather = Gather(store, {ONE.digest: ONE})
        with mock.patch.object(store, "publish", side_effect=OSError("a bad disk")):
            await gather.publish()
        assert (gather.failed, gather.counts.failures) == (True, 1)
        await gather.publish()
        assert (gather.failed, gather.counts.failures) == (False, 1)

    asyncio.run(run())
    store.close()
