//! A device's folder: state and waiting reports in one store, a lock, and a sentinel that shows a loss; or memory.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf, absolute};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::counter::FileCounter;
use crate::disk::{StoreError, Stored, damaged, disk_error, make_folder, make_lasting_folder};
use crate::error::{DeviceError, Result};
use crate::lock::Lock;
use crate::outbox::WaitingReport;
use crate::state::DeviceState;
use crate::store::{RowStore, Table, Transaction};
use prost::Message;

/// For another process that uses the folder.
const PATIENCE: Duration = Duration::from_secs(30);

/// Key of the row of the state.
const STATE: u64 = 1;

/// What keeps a device's state.
pub(crate) enum Storage {
    /// Records that end with the process.
    Memory(Mutex<DeviceState>),
    Folder(DeviceFolder),
}

impl Storage {
    /// The records; nobody else reads or changes them meanwhile.
    pub fn transaction(&self) -> Result<Records<'_>> {
        match self {
            Self::Memory(state) => {
                let kept = state.lock().unwrap_or_else(PoisonError::into_inner);
                Ok(Records { state: kept.clone(), reports: BTreeMap::new(), place: Place::Memory(kept) })
            }
            Self::Folder(folder) => folder.transaction(),
        }
    }

    /// Keep that the person has withdrawn, and nothing else; called again after a failure, it goes on.
    pub fn withdraw(&self) -> Result<()> {
        match self {
            Self::Memory(state) => {
                *state.lock().unwrap_or_else(PoisonError::into_inner) = DeviceState::withdrawn();
                Ok(())
            }
            Self::Folder(folder) => folder.withdraw().map_err(|error| folder.in_words(error)),
        }
    }
}

/// The records of a device within a transaction; what is not saved does not last.
pub(crate) struct Records<'a> {
    pub state: DeviceState,
    reports: BTreeMap<u64, Vec<u8>>,
    place: Place<'a>,
}

enum Place<'a> {
    Memory(MutexGuard<'a, DeviceState>),
    Folder(&'a DeviceFolder, Box<Newest>),
}

impl Records<'_> {
    /// Keep the state and all other changes; durable when this returns.
    pub fn save(&mut self) -> Result<()> {
        match &mut self.place {
            Place::Memory(kept) => {
                kept.clone_from(&self.state);
                Ok(())
            }
            Place::Folder(folder, newest) => newest.save(&self.state).map_err(|error| folder.in_words(error)),
        }
    }

    /// Reports that wait, the first due first.
    pub fn waiting(&self) -> Vec<WaitingReport> {
        let mut waiting: Vec<_> = self.reports.values().filter_map(|row| Some(WaitingReport::unpack(row)?.0)).collect();
        waiting.sort();
        waiting
    }

    pub fn put(&mut self, waiting: &WaitingReport, report: &[u8]) -> Result<()> {
        let (key, content) = (waiting.key(), waiting.pack(report));
        if let Place::Folder(folder, newest) = &mut self.place {
            newest.rows.put(Table::Outbox, key, &content).map_err(|error| folder.in_words(error))?;
        }
        self.reports.insert(key, content);
        Ok(())
    }

    /// Forget a report; whether it was there.
    pub fn remove(&mut self, waiting: &WaitingReport) -> Result<bool> {
        let key = waiting.key();
        if self.reports.remove(&key).is_none() {
            return Ok(false);
        }
        if let Place::Folder(folder, newest) = &mut self.place {
            newest.rows.remove(Table::Outbox, key).map_err(|error| folder.in_words(error))?;
        }
        Ok(true)
    }

    pub fn postpone(&mut self, waiting: &WaitingReport, due: u64) -> Result<()> {
        let Some((_, report)) = self.reports.get(&waiting.key()).and_then(|row| WaitingReport::unpack(row)) else {
            return Ok(());
        };
        let report = report.to_vec();
        self.put(&WaitingReport { due, ..waiting.clone() }, &report)
    }
}

/// A transaction of a store that is known to be the newest, by its sentinel: that gets each new number after the store
/// has changed, and before anything is done that relies on the change.
struct Newest {
    rows: Transaction, // ends before the lock does
    sentinel: FileCounter,
    _lock: Lock,
}

impl Newest {
    fn save(&mut self, state: &DeviceState) -> Stored<()> {
        commit(&mut self.rows, state)?;
        self.sentinel.write(self.rows.counter)
    }
}

fn commit(rows: &mut Transaction, state: &DeviceState) -> Stored<()> {
    rows.put(Table::State, STATE, &state.encode_to_vec())?;
    rows.commit()
}

pub(crate) struct DeviceFolder {
    store: RowStore,
    lock: PathBuf,
    sentinel: PathBuf,
}

impl DeviceFolder {
    /// The folder, made where there never was a state.
    pub fn open(folder: &Path, sentinel: Option<&Path>) -> Result<Self> {
        let whole = |path: &Path| absolute(path).map_err(|error| disk_error(&error, path));
        let folder = whole(folder)?;
        let sentinel = sentinel.map_or_else(|| Ok(folder.join("sentinel")), whole)?;
        let made = Self { store: RowStore::new(&folder), lock: folder.join("lock"), sentinel };
        made.make(&folder).map_err(|error| made.in_words(error))?;
        Ok(made)
    }

    fn make(&self, folder: &Path) -> Stored<()> {
        let beside = self.sentinel.parent().unwrap_or(folder);
        make_folder(folder)?;
        make_folder(beside)?;
        let lock = self.acquire()?;
        let mut sentinel = FileCounter::new(&self.sentinel);
        if known(&mut sentinel)?.is_none() && !self.store.exists()? {
            // Before there is something to lose: else the state could go with its folder.
            make_lasting_folder(folder)?;
            make_lasting_folder(beside)?;
            let state = DeviceState::new().map_err(StoreError::Worded)?;
            Newest { rows: self.store.creation(0)?, sentinel, _lock: lock }.save(&state)?;
        }
        Ok(())
    }

    fn acquire(&self) -> Stored<Lock> {
        Lock::acquire(&self.lock, PATIENCE)
    }

    pub fn transaction(&self) -> Result<Records<'_>> {
        self.records().map_err(|error| self.in_words(error))
    }

    fn records(&self) -> Stored<Records<'_>> {
        let mut newest = self.newest()?;
        let (content, _) = newest.rows.rows(Table::State)?;
        let state = content.get(&STATE).filter(|_| content.len() == 1);
        let mut state = DeviceState::unpack(state.ok_or_else(|| damaged("its row is damaged or gone"))?)?;
        let (reports, lost) = newest.rows.rows(Table::Outbox)?;
        state.damaged += lost;
        Ok(Records { state, reports, place: Place::Folder(self, Box::new(newest)) })
    }

    fn newest(&self) -> Stored<Newest> {
        let opened = self.acquire().and_then(|lock| Ok((lock, self.store.transaction()?)));
        let (lock, rows) = match opened {
            Err(StoreError::Disk(error, _)) if error.kind() == ErrorKind::NotFound => return Err(StoreError::Lost),
            opened => opened?,
        };
        let mut sentinel = FileCounter::new(&self.sentinel);
        let known = known(&mut sentinel)?;
        if let Some(known) = known.filter(|known| rows.counter < *known) {
            return Err(StoreError::Older(rows.counter, known));
        }
        if known.is_none_or(|known| rows.counter > known) {
            // The process that changed it may have ended before the folder was on disk.
            self.store.sync_folder()?;
            sentinel.write(rows.counter)?;
        }
        Ok(Newest { rows, sentinel, _lock: lock })
    }

    pub fn read(&self, waiting: &WaitingReport) -> Result<Option<Vec<u8>>> {
        let row = self.newest().and_then(|newest| newest.rows.row(Table::Outbox, waiting.key()));
        let row = row.map_err(|error| self.in_words(error))?;
        Ok(row.and_then(|row| WaitingReport::unpack(&row).map(|(_, report)| report.to_vec())))
    }

    /// Overwrite everything; the sentinel and a mark stay, so that no second device begins here.
    fn withdraw(&self) -> Stored<()> {
        let lock = self.acquire()?;
        let mut sentinel = FileCounter::new(&self.sentinel);
        let number = match known(&mut sentinel) {
            Err(StoreError::SentinelDamaged) => 0,
            known => known?.unwrap_or(0),
        };
        let state = DeviceState::withdrawn();
        let cleared = self.store.transaction().and_then(|mut rows| {
            rows.clear()?;
            rows.counter = rows.counter.max(number);
            commit(&mut rows, &state).map(|()| rows.counter)
        });
        let unreadable = match &cleared {
            Err(StoreError::Damaged(_) | StoreError::Version(_)) => true,
            Err(StoreError::Disk(error, _)) => error.kind() == ErrorKind::NotFound,
            _ => false,
        };
        if !unreadable {
            return sentinel.write(cleared?);
        }
        self.store.remove()?;
        Newest { rows: self.store.creation(number)?, sentinel, _lock: lock }.save(&state)
    }

    /// An error for people.
    fn in_words(&self, error: StoreError) -> DeviceError {
        let (store, sentinel) = (self.store.path.display(), self.sentinel.display());
        match error {
            StoreError::Held => DeviceError::busy(
                format!("{store}: another process has held the device's folder for too long"),
                "End it, or ask again later.",
            ),
            StoreError::Damaged(why) => DeviceError::state_damaged(
                format!(
                    "{store}: the device's state is damaged: {why}; nothing is reported, because a new draw would \
                     spend the device's privacy again"
                ),
                format!("Restore the folder from a copy; for an older copy, remove {sentinel} too."),
            ),
            StoreError::Lost => DeviceError::state_lost(
                format!(
                    "{store}: this device reported before, and its state is gone; a new one would draw its permanent \
                     responses again, and each new draw spends up to ε∞ once more for the same value"
                ),
                format!("Restore the state from a copy, or remove {sentinel} to spend that once more."),
            ),
            StoreError::Older(changed, known) => DeviceError::state_older(
                format!(
                    "{store}: the device's state is an older copy: it has changed {changed} times, and the sentinel \
                     knows of {known}; what was spent since the copy would be spent again"
                ),
                format!("Restore the newest state, or remove {sentinel} to go on from this one."),
            ),
            StoreError::Version(found) => DeviceError::state_version(
                format!("{store}: the device's state has format {found}, and this program reads another"),
                "Use the version of the program that wrote it, or a newer one.",
            ),
            StoreError::SentinelDamaged => DeviceError::sentinel_damaged(
                format!(
                    "{sentinel}: the sentinel is damaged, so that nothing tells an older copy of the state from the \
                     newest"
                ),
                "Remove it, unless the state beside it is gone or comes from a copy.",
            ),
            StoreError::Disk(error, place) => disk_error(&error, &place),
            StoreError::Worded(error) => error,
        }
    }
}

fn known(sentinel: &mut FileCounter) -> Stored<Option<u64>> {
    sentinel.read().map_err(|error| match error {
        StoreError::Damaged(_) => StoreError::SentinelDamaged,
        other => other,
    })
}
