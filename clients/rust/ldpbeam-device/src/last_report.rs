//! The last report of a span of epochs, kept so that the same bytes can be had again.

use crate::definition::Definition;
use crate::draws::{Drawn, Draws};
use crate::error::{DeviceError, Result};
use crate::randomness::{Derivation, PADS, Words, packed};
use crate::state::{DeviceMemo, Span};
use crate::wire::encode_report;

/// Reports up to this length are kept as they are, bytes; of longer ones what they follow from.
const SHORT: usize = 256;

/// A report to be kept: its bytes, and what they follow from.
pub(crate) struct Made<'a> {
    pub message: Vec<u8>,
    pub values: &'a [u32],
    /// Of the slice.
    pub digest: u64,
    pub noise: bool,
}

pub(crate) struct LastReport {
    pads: Derivation,
}

impl LastReport {
    pub fn new(definition: &Definition, secret: &[u8]) -> Self {
        Self { pads: Derivation::new(secret, &definition.full_digest, PADS) }
    }

    pub fn message(drawn: &Drawn, epoch: i64, digest: u64) -> Vec<u8> {
        encode_report(digest, epoch, drawn.report_id, &drawn.payload)
    }

    /// Write into a span what its last report can be had from again; None for an epoch without one.
    pub fn keep(&self, span: &mut Span, made: Option<&Made>, keeps_memo: bool) -> Result<()> {
        let Some(made) = made else {
            span.silent = true;
            return Ok(());
        };
        span.noise = made.noise;
        if made.message.len() <= SHORT || keeps_memo {
            span.report.clone_from(&made.message);
        } else {
            span.values = self.padded(packed(made.values), span.last_epoch)?;
            span.digest = Some(made.digest);
        }
        Ok(())
    }

    /// The report of a span's last epoch; None where there was none.
    pub fn restore(
        &self,
        definition: &Definition,
        draws: &Draws,
        span: &Span,
        memo: Option<&DeviceMemo>,
    ) -> Result<Option<Vec<u8>>> {
        if span.silent || !span.report.is_empty() {
            return Ok((!span.silent).then(|| span.report.clone()));
        }
        let (epoch, digest) = (span.last_epoch, span.digest.unwrap_or(definition.digest));
        let drawn = if span.noise {
            draws.noise(definition, epoch, memo)?
        } else {
            let plain = self.padded(span.values.clone(), epoch)?;
            let word = |four: &[u8]| u32::from_le_bytes(four.try_into().expect("four bytes"));
            let values: Vec<u32> = plain.chunks_exact(4).map(word).collect();
            if !definition.protocol.accepts(&values) {
                return Err(DeviceError::state_damaged(
                    "the values of the last report are none of the collection's",
                    "Restore the folder from a copy.",
                ));
            }
            draws.report(definition, &values, epoch, memo)?
        };
        Ok(Some(Self::message(&drawn, epoch, digest)))
    }

    /// Values with a pad of the epoch's own, or without it again.
    fn padded(&self, mut values: Vec<u8>, epoch: i64) -> Result<Vec<u8>> {
        let mut pad = self.pads.stream(0, 0, epoch.cast_unsigned(), &[]);
        for eight in values.chunks_mut(8) {
            for (byte, other) in eight.iter_mut().zip(pad.next()?.to_le_bytes()) {
                *byte ^= other;
            }
        }
        Ok(values)
    }
}
