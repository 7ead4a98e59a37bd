//! Reports that wait to be sent: durable from before they leave the device until a collector has them.

use sha2::{Digest, Sha256};

use crate::error::Result;
use crate::folder::{DeviceFolder, Records};

/// A report that waits; ordered by when it is due.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WaitingReport {
    /// Seconds since 1970.
    pub due: u64,
    /// First 8 bytes of the collection's full digest, without a slice.
    pub digest: [u8; 8],
    pub epoch: i64,
}

/// Bytes in front of the report.
const HEAD: usize = 24;

impl WaitingReport {
    /// Of its row.
    pub(crate) fn key(&self) -> u64 {
        let text = format!("{:016x} {}", u64::from_be_bytes(self.digest), self.epoch);
        crate::definition::first_word(&Sha256::digest(text).into()) & ((1 << 56) - 1)
    }

    pub(crate) fn pack(&self, report: &[u8]) -> Vec<u8> {
        [&self.due.to_le_bytes(), &self.digest, &self.epoch.to_le_bytes(), report].concat()
    }

    pub(crate) fn unpack(row: &[u8]) -> Option<(Self, &[u8])> {
        let (head, report) = row.split_at_checked(HEAD)?;
        let word = |at: usize| -> [u8; 8] { head[at..at + 8].try_into().expect("eight bytes") };
        let due = u64::from_le_bytes(word(0));
        Some((Self { due, digest: word(8), epoch: i64::from_le_bytes(word(16)) }, report))
    }
}

/// Reports that waited and were never sent, since the device began: because too many waited, or damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DropCounts {
    pub full: u64,
    pub damaged: u64,
}

/// The reports of a device that wait to be sent.
pub struct Outbox<'a> {
    pub(crate) folder: &'a DeviceFolder,
}

impl Outbox<'_> {
    /// All reports that wait, the first due first.
    pub fn waiting(&self) -> Result<Vec<WaitingReport>> {
        Ok(self.folder.transaction()?.waiting())
    }

    /// A report's bytes; None where another process has sent or dropped it meanwhile.
    pub fn read(&self, waiting: &WaitingReport) -> Result<Option<Vec<u8>>> {
        self.folder.read(waiting)
    }

    /// Forget reports that a collector has, or will never take.
    pub fn acknowledge(&self, sent: &[WaitingReport]) -> Result<()> {
        let mut records = self.folder.transaction()?;
        let mut changed = false;
        for one in sent {
            changed |= records.remove(one)?;
        }
        if changed { records.save() } else { Ok(()) }
    }

    pub fn dropped(&self) -> Result<DropCounts> {
        let state = self.folder.transaction()?.state;
        Ok(DropCounts { full: state.dropped, damaged: state.damaged })
    }
}

/// Add a report; beyond `most` the oldest are dropped.
pub(crate) fn put(records: &mut Records, waiting: &WaitingReport, report: &[u8], most: usize) -> Result<()> {
    let there = records.waiting();
    for one in there.iter().take((there.len() + 1).saturating_sub(most)) {
        records.remove(one)?;
        records.state.dropped += 1;
    }
    records.put(waiting, report)
}

/// Reports of later epochs, which a clock made that was ahead, have nothing to wait for: due now.
pub(crate) fn hasten(records: &mut Records, digest: [u8; 8], epoch: i64, now: u64) -> Result<()> {
    for one in records.waiting() {
        if one.digest == digest && one.epoch > epoch && one.due > now {
            records.postpone(&one, now)?;
        }
    }
    Ok(())
}
