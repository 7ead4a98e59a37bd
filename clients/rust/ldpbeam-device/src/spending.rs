//! What a device has spent, over all collections and versions of collections, and what a budget leaves.
//!
//! The figures are those of the guarantee: ε∞ for each distinct memoised input of each attribute, the level of a report
//! for each report where nothing is memoised. They add up, and are never too small.

use std::collections::BTreeSet;

use hmac::Mac;

use crate::definition::{Definition, Prices};
use crate::error::{DeviceError, Result};
use crate::exact::Sum;
use crate::folder::Records;
use crate::randomness::{Derivation, MARKS, keyed};
use crate::state::{CollectionState, DeviceState, Level};

/// Memoised inputs of a collection that a state tells apart. Beyond them every input counts as a new one, up to as many
/// as there are: the state stays small, and no figure is too small.
const MOST_MARKS: usize = 128;

type Mark = [u8; 8];

/// When a report would exceed the budget: refuse it and all later ones, or report about no value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AtCap {
    #[default]
    Stop,
    Noise,
}

/// What a device has spent on one version of a collection.
#[derive(Clone, Debug, PartialEq)]
pub struct CollectionSpending {
    pub name: String,
    pub version: u32,
    /// The full digest.
    pub digest: Vec<u8>,
    pub times: u64,
    pub epsilon: f64,
    pub stopped: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Spending {
    pub collections: Vec<CollectionSpending>,
    pub epsilon: f64,
    pub budget: Option<f64>,
}

/// What the reports of one collection cost, and whether the budget allows them.
pub(crate) struct Costs {
    key: [u8; 32],
    prices: Prices,
    limit: Option<f64>,
    at_cap: AtCap,
}

impl Costs {
    pub fn new(definition: &Definition, secret: &[u8], limit: Option<f64>, at_cap: AtCap) -> Self {
        let key = Derivation::new(secret, &definition.full_digest, MARKS).key(0, 0, 0, &[]);
        Self { key, prices: definition.spending.clone(), limit, at_cap }
    }

    /// Charge a report to the collection at this place; false, and nothing is charged, where the budget is spent.
    pub fn charge(&self, records: &mut Records, at: usize, inputs: &[(u32, u64)]) -> Result<bool> {
        let (added, marks) = self.price(&records.state.collections[at], inputs);
        if let Some(limit) = self.limit
            && exceeds(&records.state, at, &added, limit)
        {
            let entry = &mut records.state.collections[at];
            let is_larger = entry.spent_budget.is_none_or(|spent| spent < limit);
            if is_larger {
                entry.spent_budget = Some(limit);
            }
            if self.at_cap == AtCap::Noise {
                return Ok(false);
            }
            if is_larger {
                records.save()?;
            }
            return Err(budget_error(limit));
        }
        let entry = &mut records.state.collections[at];
        entry.spent_budget = None;
        entry.inputs = marks;
        for (epsilon, times) in added {
            match entry.levels.iter_mut().find(|one| one.epsilon == epsilon) {
                Some(known) => known.times += times,
                None => entry.levels.push(Level { epsilon, times }),
            }
        }
        Ok(true)
    }

    /// By how much a report raises the count of each level, and all marks of the entry after it.
    fn price(&self, entry: &CollectionState, inputs: &[(u32, u64)]) -> (Vec<(f64, u64)>, Vec<u8>) {
        let Prices { report, parts } = &self.prices;
        if parts.is_empty() {
            return (vec![(*report, 1)], entry.inputs.clone());
        }
        let mut known: BTreeSet<Mark> =
            entry.inputs.chunks_exact(8).map(|mark| mark.try_into().expect("eight bytes")).collect();
        let mut added: Vec<(f64, u64)> = Vec::new();
        for &(part, input) in inputs {
            let (mark, epsilon) = (self.mark(part, input as u32), parts[part as usize].epsilon);
            let most: u64 = parts.iter().filter(|one| one.epsilon == epsilon).map(|one| one.inputs).sum();
            let spent = entry.levels.iter().find(|one| one.epsilon == epsilon).map_or(0, |one| one.times);
            let place = added.iter().position(|(level, _)| *level == epsilon);
            if !known.contains(&mark) && spent + place.map_or(0, |i| added[i].1) < most {
                match place {
                    Some(i) => added[i].1 += 1,
                    None => added.push((epsilon, 1)),
                }
                if known.len() < MOST_MARKS {
                    known.insert(mark);
                }
            }
        }
        (added, known.into_iter().flatten().collect()) // ascending, so that their order does not say when one was new
    }

    /// A keyed permutation of (attribute, input): two inputs never share a mark (four Feistel rounds).
    fn mark(&self, part: u32, input: u32) -> Mark {
        let (mut left, mut right) = (part, input);
        for number in 0..4_u8 {
            let mut mac = keyed(&self.key);
            mac.update(&[number]);
            mac.update(&right.to_le_bytes());
            let tag = mac.finalize().into_bytes();
            let drawn = u32::from_le_bytes(tag[..4].try_into().expect("four bytes"));
            (left, right) = (right, left ^ drawn);
        }
        (u64::from(right) << 32 | u64::from(left)).to_le_bytes()
    }
}

/// Whether the report exceeds the limit, or an earlier one exceeded it or a larger one.
fn exceeds(state: &DeviceState, at: usize, added: &[(f64, u64)], limit: f64) -> bool {
    if state.collections[at].spent_budget.is_some_and(|spent| limit <= spent) {
        return true;
    }
    let mut sum = sum_of(state.collections.iter().flat_map(|entry| &entry.levels));
    for (epsilon, times) in added {
        sum.add(*epsilon, *times);
    }
    !added.is_empty() && sum > Sum::of([(&limit, &1)])
}

fn sum_of<'a>(levels: impl IntoIterator<Item = &'a Level>) -> Sum {
    Sum::of(levels.into_iter().map(|one| (&one.epsilon, &one.times)))
}

fn budget_error(limit: f64) -> DeviceError {
    DeviceError::budget(
        format!(
            "the device has spent its budget of {limit}, and reports no value of this collection any more; whoever \
             knows that it reported until now sees by its silence that the budget is spent"
        ),
        "Raise the budget, or open the device with at_cap noise.",
    )
}

pub(crate) fn add_up(state: &DeviceState, budget: Option<f64>) -> Spending {
    let of = |entry: &CollectionState| CollectionSpending {
        name: entry.name.clone(),
        version: entry.version,
        digest: entry.digest.clone(),
        times: entry.levels.iter().map(|one| one.times).sum(),
        epsilon: sum_of(&entry.levels).float_above(),
        stopped: entry.spent_budget.is_some_and(|spent| budget.is_some_and(|budget| budget <= spent)),
    };
    Spending {
        collections: state.collections.iter().map(of).collect(),
        epsilon: sum_of(state.collections.iter().flat_map(|entry| &entry.levels)).float_above(),
        budget,
    }
}
