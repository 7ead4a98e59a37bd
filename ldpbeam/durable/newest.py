"""A store that is known to be the newest, by a sentinel.

The sentinel is a file that holds how often the store has changed. It gets each new number after the store has
changed, and before anything is done that relies on the change. So a store with a smaller number is an older
copy, and a store that is gone is missed. One with a larger number was changed by a process that ended right
after; what that process did is made durable before it is relied on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from ldpbeam.durable.counter import FileCounter
from ldpbeam.durable.errors import DamageError, LostError, OlderError, SentinelError
from ldpbeam.durable.folder import sync_folder
from ldpbeam.durable.lock import Lock
from ldpbeam.durable.store import RowStore, Transaction


class NewestStore:
    """A store, its sentinel, and the lock beside it."""

    def __init__(
        self, path: Path, kind: str, version: int, tables: Sequence[str], sentinel: Path | None = None
    ) -> None:
        self.store = RowStore(path, kind, version, tables)
        self.sentinel = FileCounter(sentinel or path.with_name("sentinel"))

    def lock(self) -> Lock:
        """The lock, not held: another object for each call, so that no fork shares one."""
        return Lock(self.store.path.with_name("lock"))

    def never_was(self) -> bool:
        return self._known() is None and not self.store.exists()

    def create(self, fill: Callable[[Transaction], object] = lambda _: None, changes: int = 0) -> None:
        """Make a store where there is none; on disk when this returns."""
        with self.store.creation(changes) as rows:
            fill(rows)
            self.commit(rows)

    @contextmanager
    def transaction(self, wait: float | None = None) -> Iterator[Transaction]:
        """The rows, to be changed with :meth:`commit`."""
        with ExitStack() as held:
            try:
                if wait is not None:
                    held.enter_context(self.lock().held(wait))
                rows = held.enter_context(self.store.transaction())
            except FileNotFoundError:
                raise LostError("it is gone, and the sentinel knows of it") from None
            known = self._known()
            if known is not None and rows.counter < known:
                raise OlderError(f"it has changed {rows.counter} times, and the sentinel knows of {known}")
            if known is None or rows.counter > known:
                # The process that changed it may have ended before the folder was on disk.
                sync_folder(self.store.path.parent)
                self.sentinel.write(rows.counter)
            yield rows

    def commit(self, rows: Transaction) -> None:
        """Make the changes of a transaction for good, and let the sentinel know."""
        rows.commit()
        self.sentinel.write(rows.counter)

    def _known(self) -> int | None:
        try:
            return self.sentinel.read()
        except DamageError as error:
            raise SentinelError(str(error)) from None
