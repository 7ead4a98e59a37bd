"""What stays on a disk, whatever stops the machine: a lock, whole files, a counter, rows in a store.

It needs the standard library only, and nothing that only POSIX systems have; a device imports it.

**What all of them promise.** When a call returns, its change outlasts a kill and a loss of power; a counter
alone may have its number before after a loss of power. A change that was cut off is there whole or not at
all. No call follows a symbolic link, empties a file that it opens, or writes under a name that somebody can
foretell. Damage is an error, never another content.

**What none of them promises.** A disk that loses what it says that it holds can lose it here too. Somebody
who may write to the folder can replace its files; a digest is no signature.
"""
