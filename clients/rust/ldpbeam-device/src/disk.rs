//! Files opened at exactly the path that was given, folders that last, and what a disk refuses.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::error::DeviceError;

/// Why a lock, a counter or a store cannot be used. No text holds anything of its content.
pub(crate) enum StoreError {
    /// Somebody else holds the lock, or the store.
    Held,
    /// What lies on the disk is not what was written.
    Damaged(String),
    /// The store is gone, and its sentinel knows of it.
    Lost,
    /// The store is an older copy: how often it has changed, and what the sentinel knows.
    Older(u64, u64),
    /// A sound store in the format of another version.
    Version(u16),
    SentinelDamaged,
    /// What the operating system refuses, and where.
    Disk(io::Error, PathBuf),
    /// The system gives no random bytes, or another error that is in words.
    Worded(DeviceError),
}

pub(crate) type Stored<T> = Result<T, StoreError>;

pub(crate) fn damaged(why: impl Into<String>) -> StoreError {
    StoreError::Damaged(why.into())
}

/// Puts the place to an error of the operating system.
pub(crate) trait At<T> {
    fn at(self, path: &Path) -> Stored<T>;
}

impl<T> At<T> for io::Result<T> {
    fn at(self, path: &Path) -> Stored<T> {
        self.map_err(|error| StoreError::Disk(error, path.to_owned()))
    }
}

/// The regular file at a path; a link is not followed, a pipe not waited for, a new file is the owner's alone.
pub(crate) fn open_file(path: &Path, options: &mut OpenOptions) -> Stored<File> {
    #[cfg(unix)]
    {
        use rustix::fs::OFlags;
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600).custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed());
    }
    #[cfg(not(unix))]
    file_size(path)?;
    let file = options.open(path).map_err(|error| if is_no_file(&error) { no_file() } else { error }).at(path)?;
    if file.metadata().at(path)?.is_file() { Ok(file) } else { Err(no_file()).at(path) }
}

/// Bytes of the regular file at a path; None where there is nothing.
pub(crate) fn file_size(path: &Path) -> Stored<Option<u64>> {
    match fs::symlink_metadata(path) {
        Ok(there) if there.is_file() => Ok(Some(there.len())),
        Ok(_) => Err(no_file()).at(path),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).at(path),
    }
}

fn no_file() -> io::Error {
    io::Error::new(ErrorKind::IsADirectory, "a link or something else that is no file lies there")
}

/// Make a folder and those above it; those that this call makes are durable when it returns.
pub(crate) fn make_folder(path: &Path) -> Stored<()> {
    if path.is_dir() {
        return Ok(());
    }
    let Some(above) = path.parent() else { return Ok(()) };
    make_folder(above)?;
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    match builder.create(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        made => made,
    }
    .at(path)?;
    sync_folder(above)
}

/// Force to disk which names a folder holds; Windows keeps names durable by itself.
pub(crate) fn sync_folder(folder: &Path) -> Stored<()> {
    if cfg!(unix) { File::open(folder).and_then(|open| open.sync_all()).at(folder) } else { Ok(()) }
}

/// Make a folder; it and those above it, up to the file system's root, are durable, whoever made them.
pub(crate) fn make_lasting_folder(path: &Path) -> Stored<()> {
    make_folder(path)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let device = fs::metadata(path).at(path)?.dev();
        for above in path.ancestors().skip(1) {
            if fs::metadata(above).at(above)?.dev() != device {
                break;
            }
            match sync_folder(above) {
                Err(StoreError::Disk(error, _)) if error.kind() == ErrorKind::PermissionDenied => {}
                synced => synced?,
            }
        }
    }
    Ok(())
}

/// Put a whole file in place; on disk when this returns.
pub(crate) fn write_file(path: &Path, content: &[u8]) -> Stored<()> {
    use std::io::Write;
    let mut digits = [0; 4];
    getrandom::fill(&mut digits).map_err(|_| io::Error::other("the system gives no random bytes")).at(path)?;
    let temporary = PathBuf::from(format!("{}.{:08x}.tmp", path.display(), u32::from_le_bytes(digits)));
    let written = open_file(&temporary, OpenOptions::new().write(true).create_new(true)).and_then(|mut file| {
        file.write_all(content).and_then(|()| file.sync_all()).at(path)?;
        fs::rename(&temporary, path).at(path)
    });
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written?;
    path.parent().map_or(Ok(()), sync_folder)
}

/// Remove a file, where it is there.
pub(crate) fn remove_file(path: &Path) -> Stored<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error).at(path),
        _ => Ok(()),
    }
}

/// Error numbers for which std has no kind.
#[cfg(unix)]
mod numbers {
    use rustix::io::Errno;

    pub const NO_FILE: [i32; 3] = [Errno::LOOP.raw_os_error(), Errno::MLINK.raw_os_error(), Errno::NXIO.raw_os_error()];
    pub const NO_LOCK: i32 = Errno::NOLCK.raw_os_error();
    pub const FILES: [i32; 2] = [Errno::MFILE.raw_os_error(), Errno::NFILE.raw_os_error()];
}

#[cfg(not(unix))]
mod numbers {
    pub const NO_FILE: [i32; 0] = [];
    pub const NO_LOCK: i32 = -1;
    pub const FILES: [i32; 1] = [4]; // ERROR_TOO_MANY_OPEN_FILES
}

fn is_no_file(error: &io::Error) -> bool {
    error.kind() == ErrorKind::IsADirectory || error.raw_os_error().is_some_and(|one| numbers::NO_FILE.contains(&one))
}

/// What a person can do about a disk that takes no more.
pub(crate) fn disk_error(error: &io::Error, place: &Path) -> DeviceError {
    let place = place.display();
    let number = error.raw_os_error().unwrap_or(0);
    if is_no_file(error) {
        return DeviceError::disk_link(
            format!("{place}: what lies there is no regular file, and is neither followed nor replaced ({error})"),
            "Move it away, or choose another directory; then run again.",
        );
    }
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => DeviceError::disk_full(
            format!("{place}: nothing more can be written ({error})"),
            "Make room, or choose another directory; then run again.",
        ),
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => DeviceError::disk_denied(
            format!("{place}: the operating system refuses access ({error})"),
            "Choose a directory that you may write to, or correct its permissions; then run again.",
        ),
        kind if kind == ErrorKind::Unsupported || number == numbers::NO_LOCK => DeviceError::disk_locks(
            format!("{place}: the file system, perhaps a network folder, has no locks ({error})"),
            "Choose a directory on a disk of this machine; then run again.",
        ),
        _ if numbers::FILES.contains(&number) => DeviceError::disk_files(
            format!("{place}: too many files are open ({error})"),
            "Close some, or raise the limit; then run again.",
        ),
        _ => DeviceError::disk_failed(
            format!("{place}: the operating system reports an error ({error})"),
            "Look at the disk; then run again.",
        ),
    }
}
