//! Which epochs a device may report: each of them once, in order, whatever its clock shows.
//!
//! A clock that was ahead leaves a report in an epoch that has not begun. The device then goes on in the epochs that it
//! jumped over. For this it remembers which ones it has reported: as spans, of which the closest two become one where
//! there are too many. So the spans hold every epoch that was reported, and perhaps others.

use crate::definition::Epochs;
use crate::error::{DeviceError, Result};
use crate::state::{CollectionState, Span};

/// Spans of a collection.
const MOST: usize = 8;

/// Seconds. A clock that was doubted is believed once it has gone on for so long, and one that is set back by more
/// takes the device back to epochs that it jumped over.
const DAY: i64 = 86400;

const PASSED: &str = "Report each epoch once, in order. If the clock is behind, set it. If it was ahead by more than a \
                      day, set it and ask again: the device goes on with the epochs that it has not reported.";

impl Epochs {
    pub fn contains(&self, epoch: i64) -> bool {
        (0..self.count).contains(&epoch)
    }

    /// First second of an epoch, since 1970.
    pub fn start(&self, epoch: i64) -> i64 {
        self.origin.saturating_add(epoch.saturating_mul(self.length))
    }

    /// The epoch that contains a time (may lie outside the planned ones).
    pub fn index(&self, seconds: f64) -> i64 {
        let (since, length) = (seconds - self.origin as f64, self.length as f64);
        ((since - since.rem_euclid(length)) / length).round() as i64
    }
}

/// Add an epoch that is in no span; the span of it, for its report to be set.
pub(crate) fn add(entry: &mut CollectionState, epoch: i64) -> &mut Span {
    let mut current = Span { first_epoch: epoch, last_epoch: epoch, ..Span::default() };
    let mut others = Vec::with_capacity(entry.spans.len() + 1);
    for one in std::mem::take(&mut entry.spans) {
        let Span { first_epoch, last_epoch, .. } = one;
        if last_epoch == epoch - 1 {
            current.first_epoch = first_epoch;
        } else if last_epoch < epoch {
            others.push(Span { first_epoch, last_epoch, forgotten: true, ..Span::default() });
        } else {
            others.push(one);
        }
    }
    if others.len() == MOST {
        join(&mut others, epoch);
    }
    others.push(current);
    entry.spans = others;
    entry.spans.last_mut().expect("it was just added")
}

/// One span less: the two with the fewest epochs between them become one, with the later one's report.
fn join(spans: &mut Vec<Span>, epoch: i64) {
    spans.sort_by_key(|one| one.first_epoch);
    let pair =
        spans.windows(2).zip(0..).filter(|(pair, _)| !(pair[0].last_epoch < epoch && epoch < pair[1].first_epoch));
    let closest = pair.min_by_key(|(pair, i)| (pair[1].first_epoch - pair[0].last_epoch, *i)).map(|(_, i)| i);
    if let Some(i) = closest {
        spans[i + 1].first_epoch = spans[i].first_epoch;
        spans.remove(i);
    }
}

/// No epoch is drawn for again, and an earlier one only where the later ones have not begun by the clock.
pub(crate) fn require_open(epochs: &Epochs, spans: &[Span], epoch: i64, now: f64) -> Result<()> {
    let has_begun = |(i, one): &(usize, &Span)| {
        let early = if i + 1 == spans.len() { DAY } else { 0 };
        one.last_epoch > epoch && epochs.start(one.first_epoch) as f64 <= now + early as f64
    };
    if let Some(later) = spans.iter().enumerate().filter(has_begun).map(|(_, one)| one.last_epoch).max() {
        return Err(epoch_error(format!("epoch {epoch} lies before epoch {later}, which was reported"), PASSED));
    }
    if spans.iter().any(|one| (one.first_epoch..=one.last_epoch).contains(&epoch)) {
        return Err(epoch_error(format!("epoch {epoch} was reported, or lies among epochs that were"), PASSED));
    }
    Ok(())
}

/// Whether an epoch lies before the last one that was reported: then the clock had been ahead.
pub(crate) fn goes_back(entry: &CollectionState, epoch: i64) -> bool {
    entry.spans.last().is_some_and(|last| epoch < last.first_epoch)
}

/// Seconds by which an epoch is after the last one that was reported; 0 before the first report.
pub(crate) fn jump(epochs: &Epochs, entry: &CollectionState, epoch: i64) -> f64 {
    entry.spans.last().map_or(0.0, |last| (epoch - last.last_epoch) as f64 * epochs.length as f64)
}

/// Whether the clock has gone on for a day since it was doubted.
pub(crate) fn is_believed(entry: &CollectionState, shown: i64) -> bool {
    entry.doubted_seconds.is_some_and(|doubted| shown >= doubted.saturating_add(DAY))
}

/// Note the time that the clock shows, unless it has gone on from a noted one; whether it was noted.
pub(crate) fn doubt(entry: &mut CollectionState, shown: i64) -> bool {
    let is_new = entry.doubted_seconds.is_none_or(|doubted| shown < doubted);
    if is_new {
        entry.doubted_seconds = Some(shown);
    }
    is_new
}

pub(crate) fn clock_error(epoch: i64, jumped: f64) -> DeviceError {
    let days = jumped / DAY as f64;
    DeviceError::clock(
        format!("epoch {epoch} lies {days:.0} days after what the device last reported, so that the clock is in doubt"),
        "Set the clock. If it is right, ask again: the device believes it once it has shown such times for a day, or \
         at once with a larger max_jump.",
    )
}

pub(crate) fn epoch_error(message: String, remedy: &'static str) -> DeviceError {
    DeviceError::epoch(message, remedy)
}
