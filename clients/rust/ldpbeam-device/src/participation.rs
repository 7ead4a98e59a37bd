//! Which epochs a device reports in, where its collection lets it report a few times in its life.

use std::collections::BTreeSet;

use crate::error::Result;
use crate::randomness::{Derivation, Purpose, Words};

/// Epochs of which a device may draw some, at most.
pub const LONGEST: u64 = 1 << 16;

/// `reports` of `of` epochs, drawn by each device for life, before it knows a value.
#[derive(Clone, Copy, Debug)]
pub struct Participation {
    pub reports: u32,
    pub of: u32,
}

impl Participation {
    /// The epochs of one device: every set of so many epochs has the same probability.
    pub fn chosen(self, words: &mut dyn Words) -> Result<BTreeSet<u32>> {
        let mut epochs = BTreeSet::new();
        for epoch in self.of - self.reports..self.of {
            let drawn = words.below(u128::from(epoch) + 1)? as u32;
            if !epochs.insert(drawn) {
                epochs.insert(epoch);
            }
        }
        Ok(epochs)
    }

    /// Those of a device whose words follow from its secret.
    pub fn derived(self, derivation: &Derivation) -> Result<BTreeSet<u32>> {
        self.chosen(&mut derivation.stream(Purpose::Participation as u8, 0, 0, &[]))
    }
}
