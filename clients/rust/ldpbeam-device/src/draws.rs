//! How a device draws a report: from its secret, or from the operating system with a memo that it keeps.

use std::collections::BTreeSet;

use crate::definition::Definition;
use crate::error::Result;
use crate::protocols::Memo;
use crate::randomness::{Derivation, Derived, Purpose, Single, SystemWords, WORDS, Words};
use crate::state::DeviceMemo;

/// Whether permanent responses follow from the device's secret, or are drawn from the operating system and kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemoKind {
    #[default]
    Derived,
    Stored,
}

/// A report that has been drawn and has not left.
pub(crate) struct Drawn {
    pub payload: Vec<u8>,
    pub report_id: u64,
    /// (part, memoised input) of each permanent answer.
    pub inputs: Vec<(u32, u64)>,
    /// Where it is new.
    pub memo: Option<DeviceMemo>,
    pub noise: bool,
}

#[allow(clippy::large_enum_variant)] // a device has one
pub(crate) enum Draws {
    /// Every word follows from the secret: asked for again, a report is drawn the same.
    Derived { words: Derivation, memo: Memo, epochs: Option<BTreeSet<u32>> },
    /// Fresh words; what is memoised has to be kept.
    Stored,
}

impl Draws {
    pub fn new(definition: &Definition, kind: MemoKind, secret: &[u8]) -> Result<Self> {
        if kind == MemoKind::Stored {
            return Ok(Self::Stored);
        }
        let words = Derivation::new(secret, &definition.full_digest, WORDS);
        let memo = definition.protocol.new_memo(&mut Derived::once(&words))?;
        let epochs = definition.participation.map(|few| few.derived(&words)).transpose()?;
        Ok(Self::Derived { words, memo, epochs })
    }

    pub fn keeps_memo(&self) -> bool {
        matches!(self, Self::Stored)
    }

    /// What a new device has to keep of its draws for life: the memo, and the epochs that it reports in.
    pub fn for_life(&self, definition: &Definition) -> Result<(Option<DeviceMemo>, Vec<u32>)> {
        if !self.keeps_memo() {
            return Ok((None, Vec::new()));
        }
        let memo = definition.protocol.new_memo(&mut Single::new(SystemWords))?;
        let epochs = definition.participation.map(|few| few.chosen(&mut SystemWords)).transpose()?;
        Ok((Some(DeviceMemo::of(&memo)), epochs.into_iter().flatten().collect()))
    }

    /// A report about values; the memo is as the state has it.
    pub fn report(
        &self,
        definition: &Definition,
        values: &[u32],
        epoch: i64,
        kept: Option<&DeviceMemo>,
    ) -> Result<Drawn> {
        let protocol = &definition.protocol;
        Ok(match self {
            Self::Derived { words, memo, .. } => {
                let mut origin = Derived::report(words, epoch, values);
                let (payload, _) = protocol.report(values, memo, &mut origin)?;
                let report_id = words.word(Purpose::ReportId, epoch)?;
                Drawn { payload, report_id, inputs: origin.inputs, memo: None, noise: false }
            }
            Self::Stored => {
                let mut origin = Single::new(SystemWords);
                let before = kept.map(DeviceMemo::memo).unwrap_or_default();
                let (payload, after) = protocol.report(values, &before, &mut origin)?;
                let memo = after.as_ref().map(DeviceMemo::of);
                Drawn { payload, report_id: SystemWords.next()?, inputs: origin.inputs, memo, noise: false }
            }
        })
    }

    /// A report that depends on no value that the device ever held.
    pub fn noise(&self, definition: &Definition, epoch: i64, kept: Option<&DeviceMemo>) -> Result<Drawn> {
        let (payload, report_id) = match self {
            Self::Derived { words, memo, .. } => {
                let payload = definition.protocol.noise(memo, &mut Derived::noise(words, epoch))?;
                (payload, words.word(Purpose::ReportId, epoch)?)
            }
            Self::Stored => {
                let memo = kept.map(DeviceMemo::memo).unwrap_or_default();
                let payload = definition.protocol.noise(&memo, &mut Single::new(SystemWords))?;
                (payload, SystemWords.next()?)
            }
        };
        Ok(Drawn { payload, report_id, inputs: Vec::new(), memo: None, noise: true })
    }

    /// A word for the sending time.
    pub fn share(&self, epoch: i64) -> Result<u64> {
        match self {
            Self::Derived { words, .. } => words.word(Purpose::SendingTime, epoch),
            Self::Stored => SystemWords.next(),
        }
    }

    /// Whether the device reports in an epoch, given what the state keeps of them.
    pub fn reports_in(&self, definition: &Definition, epoch: i64, own: &[u32]) -> bool {
        if definition.participation.is_none() {
            return true;
        }
        match (self, u32::try_from(epoch)) {
            (_, Err(_)) => false,
            (Self::Derived { epochs, .. }, Ok(epoch)) => epochs.as_ref().is_none_or(|some| some.contains(&epoch)),
            (Self::Stored, Ok(epoch)) => own.contains(&epoch),
        }
    }
}
