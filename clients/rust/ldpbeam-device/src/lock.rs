//! One process, and one thread of it, at a time: a lock in a file of its own, which holds nothing.

use std::fs::{File, OpenOptions};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::disk::{At, StoreError, Stored, open_file};

/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(5);

/// A lock that is held, until it is dropped.
pub(crate) struct Lock {
    _file: File,
}

impl Lock {
    /// Take the lock; the file is made where it is missing, and a link in its place refused.
    pub fn acquire(path: &Path, wait: Duration) -> Stored<Self> {
        let end = Instant::now() + wait;
        loop {
            let file = open_file(path, OpenOptions::new().read(true).write(true).create(true).truncate(false))?;
            if try_lock(&file, path)? {
                if is_named(&file, path)? {
                    return Ok(Self { _file: file });
                }
                continue; // its last holder has removed it meanwhile
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(StoreError::Held);
            }
            sleep(PAUSE.min(left));
        }
    }
}

/// Lock an open file, unless somebody else has it locked; whether it is locked.
#[cfg(unix)]
fn try_lock(file: &File, path: &Path) -> Stored<bool> {
    use rustix::fs::{FlockOperation, flock};
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
        locked => locked.map(|()| true).map_err(std::io::Error::from).at(path),
    }
}

#[cfg(not(unix))]
fn try_lock(file: &File, path: &Path) -> Stored<bool> {
    match file.try_lock() {
        Err(std::fs::TryLockError::WouldBlock) => Ok(false),
        Err(std::fs::TryLockError::Error(error)) => Err(error).at(path),
        Ok(()) => Ok(true),
    }
}

/// Whether the locked file still has the name.
#[cfg(unix)]
fn is_named(file: &File, path: &Path) -> Stored<bool> {
    use std::os::unix::fs::MetadataExt;
    let own = file.metadata().at(path)?;
    Ok(std::fs::symlink_metadata(path).is_ok_and(|there| (there.dev(), there.ino()) == (own.dev(), own.ino())))
}

#[cfg(not(unix))]
fn is_named(_: &File, _: &Path) -> Stored<bool> {
    Ok(true) // an open file keeps its name
}
