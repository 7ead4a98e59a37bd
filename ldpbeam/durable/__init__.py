"""What stays on a disk, whatever stops the machine: a lock, whole files, a counter, rows in a store.

It needs the standard library only, and nothing that only POSIX systems have; a device imports it.

- :class:`~ldpbeam.durable.lock.Lock` keeps other processes away. The operating system frees it when its
  holder ends.
- :func:`~ldpbeam.durable.file.replacing` and :func:`~ldpbeam.durable.file.write_file` put a file in place
  whole, with the old one there until then.
- :class:`~ldpbeam.durable.store.RowStore` keeps rows in one SQLite file and changes many at once. Each row
  has a digest, and all rows of a table have one together.
- :class:`~ldpbeam.durable.newest.NewestStore` is a store with its lock and a sentinel, a number that only
  grows (:class:`~ldpbeam.durable.counter.FileCounter`), which tells an older copy from the newest.

**What all of them promise.** When a call returns, its change outlasts a kill and a loss of power; a counter
alone may have its number before after a loss of power. A change that was cut off is there whole or not at
all. No call follows a symbolic link, empties a file that it opens, or writes under a name that somebody can
foretell. Damage is an error, never another content.

**What none of them promises.** A disk that loses what it says that it holds can lose it here too. Somebody
who may write to the folder can replace its files; a digest is no signature.
"""
