//! Rows in one SQLite file: many change at once, and damage is noticed (docs/device-state.md).

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode, OpenFlags, params};
use sha2::{Digest, Sha256};

use crate::disk::{At, StoreError, Stored, damaged, file_size, open_file, remove_file, sync_folder};

const KIND: &[u8] = b"ldpbeam device\0";
const VERSION: u16 = 1;

const SETTINGS: &str = "PRAGMA secure_delete = ON; PRAGMA synchronous = EXTRA; PRAGMA temp_store = MEMORY; \
                        PRAGMA cell_size_check = ON";

/// For another program that reads the file, such as one that copies it.
const WAIT: Duration = Duration::from_secs(5);

/// Keys of a table are below 2 to this power; those above it are the table's number.
const KEY_BITS: u32 = 56;
const ROOT: i64 = 0;

#[derive(Clone, Copy)]
pub(crate) enum Table {
    State,
    Outbox,
}

const TABLES: [&str; 2] = ["state", "outbox"];

impl Table {
    fn first(self) -> i64 {
        (self as i64 + 1) << KEY_BITS
    }
}

/// What all rows of a table have together: their number, and the xor of their digests.
#[derive(Clone, Copy, Default, PartialEq)]
struct Summary {
    count: i64,
    xor: [u8; 32],
}

impl Summary {
    fn change(&mut self, count: i64, digest: &[u8]) {
        self.count += count;
        for (sum, byte) in self.xor.iter_mut().zip(digest) {
            *sum ^= byte;
        }
    }
}

pub(crate) struct RowStore {
    pub path: PathBuf,
    journal: PathBuf,
}

impl RowStore {
    pub fn new(folder: &Path) -> Self {
        Self { path: folder.join("device.sqlite"), journal: folder.join("device.sqlite-journal") }
    }

    /// Make the store where [`Self::exists`] says that there is none.
    pub fn creation(&self, counter: u64) -> Stored<Transaction> {
        if file_size(&self.path)?.is_none() {
            // The journal of a file that is gone may lie here: beside an empty file SQLite removes it.
            open_file(&self.path, OpenOptions::new().write(true).create_new(true))?;
        }
        let rows = self.begun(counter)?;
        let table = "CREATE TABLE rows (key INTEGER PRIMARY KEY, digest BLOB, content BLOB)";
        rows.execute(table, ())?;
        Ok(rows)
    }

    /// Whether there is a store; what a creation left that was cut off is none.
    pub fn exists(&self) -> Stored<bool> {
        if file_size(&self.path)?.unwrap_or(0) == 0 {
            return Ok(false);
        }
        if file_size(&self.journal)?.is_none() {
            return Ok(true);
        }
        let connection = self.connection()?; // plays the journal back
        let count = connection.query_row("SELECT count(*) FROM sqlite_master", (), |row| row.get(0));
        count.map(|count: i64| count > 0).map_err(|error| sqlite_error(&error, &self.path))
    }

    /// Remove the file and its journal, whatever they hold; on disk when this returns.
    pub fn remove(&self) -> Stored<()> {
        remove_file(&self.journal)?;
        remove_file(&self.path)?;
        self.sync_folder()
    }

    pub fn sync_folder(&self) -> Stored<()> {
        sync_folder(self.path.parent().unwrap_or(Path::new(".")))
    }

    /// The rows, to be read and changed all at once; what is not committed is undone.
    pub fn transaction(&self) -> Stored<Transaction> {
        if !self.exists()? {
            return Err(io::Error::from(ErrorKind::NotFound)).at(&self.path);
        }
        let mut rows = self.begun(0)?;
        let root = rows.sound(ROOT, ROOT)?.pop().map(|row| row.content).unwrap_or_default();
        let Some((version, rest)) = root.split_first_chunk() else {
            return Err(damaged("its first row is damaged or gone"));
        };
        let Some((counter, summaries)) = rest.split_first_chunk() else {
            return Err(damaged("its first row is damaged or gone"));
        };
        match u16::from_le_bytes(*version) {
            VERSION => rows.counter = u64::from_le_bytes(*counter),
            other => return Err(StoreError::Version(other)),
        }
        if summaries.len() != 40 * TABLES.len() {
            return Err(damaged("its first row is of other tables"));
        }
        for (summary, found) in rows.summaries.iter_mut().zip(summaries.chunks_exact(40)) {
            let (count, xor) = found.split_at(8);
            summary.count = i64::from_le_bytes(count.try_into().expect("eight bytes"));
            summary.xor.copy_from_slice(xor);
        }
        Ok(rows)
    }

    fn begun(&self, counter: u64) -> Stored<Transaction> {
        let connection = self.connection()?;
        let rows =
            Transaction { connection, path: self.path.clone(), counter, summaries: [Summary::default(); TABLES.len()] };
        rows.begin()?;
        Ok(rows)
    }

    fn connection(&self) -> Stored<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let open = || {
            let connection = Connection::open_with_flags(&self.path, flags)?;
            connection.busy_timeout(WAIT)?;
            connection.execute_batch(SETTINGS)?;
            let mode: String = connection.query_row("PRAGMA journal_mode = DELETE", (), |row| row.get(0))?;
            Ok((connection, mode))
        };
        let (connection, mode) = open().map_err(|error| sqlite_error(&error, &self.path))?;
        if mode == "delete" { Ok(connection) } else { Err(damaged("it asks for another journal")) }
    }
}

struct Row {
    key: i64,
    digest: [u8; 32],
    content: Vec<u8>,
}

/// Rows of a store, read and changed together.
pub(crate) struct Transaction {
    connection: Connection,
    path: PathBuf,
    pub counter: u64,
    summaries: [Summary; TABLES.len()],
}

impl Transaction {
    /// All sound rows of a table, and how many are lost; these are forgotten with the next commit.
    pub fn rows(&mut self, table: Table) -> Stored<(BTreeMap<u64, Vec<u8>>, u64)> {
        let (first, mut there) = (table.first(), Summary::default());
        let last = first + (1 << KEY_BITS) - 1;
        let mut sound = BTreeMap::new();
        for row in self.sound(first, last)? {
            there.change(1, &row.digest);
            sound.insert((row.key - first).cast_unsigned(), row.content);
        }
        let recorded = self.summaries[table as usize];
        let lost = recorded.count - there.count;
        if recorded == there {
            return Ok((sound, 0));
        }
        if lost <= 0 {
            let name = TABLES[table as usize];
            return Err(damaged(format!("its table {name} is not the one that was written last")));
        }
        self.begin()?;
        self.execute("DELETE FROM rows WHERE key BETWEEN ? AND ?", (first, last))?;
        self.summaries[table as usize] = Summary::default();
        for (key, content) in &sound {
            self.put(table, *key, content)?;
        }
        Ok((sound, lost.cast_unsigned()))
    }

    /// One row of a table; None where it is not there, or damaged.
    pub fn row(&self, table: Table, key: u64) -> Stored<Option<Vec<u8>>> {
        let key = table.first() + key.cast_signed();
        Ok(self.sound(key, key)?.pop().map(|row| row.content))
    }

    /// Add a row, or replace the one with this key.
    pub fn put(&mut self, table: Table, key: u64, content: &[u8]) -> Stored<()> {
        self.remove(table, key)?;
        let key = table.first() + key.cast_signed();
        let digest = digest(key, content);
        self.execute("INSERT INTO rows VALUES (?, ?, ?)", params![key, digest.as_slice(), content])?;
        self.summaries[table as usize].change(1, &digest);
        Ok(())
    }

    /// Remove a row, where it is there.
    pub fn remove(&mut self, table: Table, key: u64) -> Stored<()> {
        self.begin()?;
        let key = table.first() + key.cast_signed();
        let found = self.connection.query_row("SELECT digest FROM rows WHERE key = ?", (key,), |row| {
            Ok(row.get_ref(0)?.as_blob().map(<[u8]>::to_vec).unwrap_or_default())
        });
        let digest = match found {
            Err(rusqlite::Error::QueryReturnedNoRows) => return Ok(()),
            found => found.map_err(|error| sqlite_error(&error, &self.path))?,
        };
        if digest.len() != 32 {
            let name = TABLES[table as usize];
            return Err(damaged(format!("a row of its table {name} has no digest")));
        }
        self.execute("DELETE FROM rows WHERE key = ?", (key,))?;
        self.summaries[table as usize].change(-1, &digest);
        Ok(())
    }

    /// Remove all rows of all tables, sound or not, and pieces of earlier rows in pages.
    pub fn clear(&mut self) -> Stored<()> {
        self.begin()?;
        self.execute("DELETE FROM rows", ())?; // without WHERE it overwrites whole pages
        self.summaries = Default::default();
        Ok(())
    }

    /// Change the rows; on disk when this returns.
    pub fn commit(&mut self) -> Stored<()> {
        self.begin()?;
        if self.summaries.iter().any(|one| one.count < 0) {
            return Err(damaged("it holds rows that nobody wrote"));
        }
        self.counter += 1;
        let mut root = [VERSION.to_le_bytes().as_slice(), &self.counter.to_le_bytes()].concat();
        for one in &self.summaries {
            root.extend(one.count.to_le_bytes());
            root.extend(one.xor);
        }
        let digest = digest(ROOT, &root);
        self.execute("INSERT OR REPLACE INTO rows VALUES (?, ?, ?)", params![ROOT, digest.as_slice(), root])?;
        self.execute("COMMIT", ())
    }

    fn begin(&self) -> Stored<()> {
        if self.connection.is_autocommit() { self.execute("BEGIN IMMEDIATE", ()) } else { Ok(()) }
    }

    fn execute(&self, statement: &str, values: impl rusqlite::Params) -> Stored<()> {
        let done = self.connection.execute(statement, values);
        done.map(|_| ()).map_err(|error| sqlite_error(&error, &self.path))
    }

    /// The sound rows of the file from one key to another, in order.
    fn sound(&self, first: i64, last: i64) -> Stored<Vec<Row>> {
        let read = || {
            let statement = "SELECT key, digest, content FROM rows WHERE key BETWEEN ? AND ? ORDER BY key";
            let mut statement = self.connection.prepare(statement)?;
            let mut rows = statement.query((first, last))?;
            let mut sound = Vec::new();
            while let Some(row) = rows.next()? {
                let key = row.get(0)?;
                if let (ValueRef::Blob(known), ValueRef::Blob(content)) = (row.get_ref(1)?, row.get_ref(2)?) {
                    let digest = digest(key, content);
                    if known == digest {
                        sound.push(Row { key, digest, content: content.to_vec() });
                    }
                }
            }
            Ok(sound)
        };
        read().map_err(|error| sqlite_error(&error, &self.path))
    }
}

/// SHA-256 of a row of the file.
fn digest(key: i64, content: &[u8]) -> [u8; 32] {
    Sha256::new_with_prefix(KIND).chain_update(key.to_le_bytes()).chain_update(content).finalize().into()
}

/// An error of SQLite as one of the operating system, or as damage.
fn sqlite_error(error: &rusqlite::Error, path: &Path) -> StoreError {
    use rusqlite::ffi;
    let code = error.sqlite_error();
    let no_lock = matches!(
        code.map(|one| one.extended_code),
        Some(ffi::SQLITE_IOERR_LOCK | ffi::SQLITE_IOERR_RDLOCK | ffi::SQLITE_IOERR_CHECKRESERVEDLOCK)
    );
    let kind = match code.map(|one| one.code) {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => return StoreError::Held,
        Some(ErrorCode::DiskFull) => ErrorKind::StorageFull,
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => ErrorKind::PermissionDenied,
        Some(ErrorCode::FileLockingProtocolFailed) => ErrorKind::Unsupported,
        Some(ErrorCode::SystemIoFailure) if no_lock => ErrorKind::Unsupported,
        Some(ErrorCode::SystemIoFailure) => ErrorKind::Other,
        found => return damaged(format!("SQLite cannot read it ({found:?})")),
    };
    StoreError::Disk(io::Error::new(kind, "SQLite"), path.to_owned())
}
