//! What a device keeps, as proto/ldpbeam/wire/device_state.proto has it; prost writes fields in ascending order. None
//! has Debug: together with the device's reports a state gives the values away.

use prost::Message;

use crate::disk::{Stored, damaged};
use crate::error::{DeviceError, Result};
use crate::protocols::Memo;
use crate::randomness::system_bytes;

#[derive(Clone, PartialEq, Message)]
#[prost(skip_debug)]
pub(crate) struct DeviceState {
    #[prost(bytes = "vec", tag = "1")]
    pub secret: Vec<u8>,
    #[prost(message, repeated, tag = "2")]
    pub collections: Vec<CollectionState>,
    #[prost(int64, optional, tag = "3")]
    pub clock_seconds: Option<i64>,
    #[prost(bool, tag = "4")]
    pub withdrawn: bool,
    #[prost(uint64, tag = "5")]
    pub dropped: u64,
    #[prost(uint64, tag = "6")]
    pub damaged: u64,
}

#[derive(Clone, PartialEq, Message)]
#[prost(skip_debug)]
pub(crate) struct CollectionState {
    #[prost(bytes = "vec", tag = "1")]
    pub digest: Vec<u8>,
    #[prost(string, tag = "2")]
    pub name: String,
    #[prost(uint32, tag = "3")]
    pub version: u32,
    #[prost(message, optional, tag = "4")]
    pub memo: Option<DeviceMemo>,
    #[prost(message, repeated, tag = "5")]
    pub spans: Vec<Span>,
    #[prost(sint64, optional, tag = "6")]
    pub doubted_seconds: Option<i64>,
    #[prost(message, repeated, tag = "9")]
    pub levels: Vec<Level>,
    #[prost(bytes = "vec", tag = "10")]
    pub inputs: Vec<u8>,
    #[prost(double, optional, tag = "11")]
    pub spent_budget: Option<f64>,
    #[prost(uint32, repeated, tag = "12")]
    pub own_epochs: Vec<u32>,
}

#[derive(Clone, PartialEq, Message)]
#[prost(skip_debug)]
pub(crate) struct Span {
    #[prost(sint64, tag = "1")]
    pub first_epoch: i64,
    #[prost(sint64, tag = "2")]
    pub last_epoch: i64,
    #[prost(bytes = "vec", tag = "3")]
    pub report: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    pub values: Vec<u8>,
    #[prost(bool, tag = "5")]
    pub noise: bool,
    #[prost(bool, tag = "6")]
    pub silent: bool,
    #[prost(bool, tag = "7")]
    pub forgotten: bool,
    #[prost(fixed64, optional, tag = "8")]
    pub digest: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
#[prost(skip_debug)]
pub(crate) struct Level {
    #[prost(double, tag = "1")]
    pub epsilon: f64,
    #[prost(uint64, tag = "2")]
    pub times: u64,
}

#[derive(Clone, PartialEq, Message)]
#[prost(skip_debug)]
pub(crate) struct DeviceMemo {
    #[prost(bytes = "vec", optional, tag = "1")]
    pub seed: Option<Vec<u8>>,
    #[prost(message, repeated, tag = "2")]
    pub answers: Vec<Answer>,
    #[prost(message, repeated, tag = "3")]
    pub parts: Vec<DeviceMemo>,
}

#[derive(Clone, PartialEq, Message)]
#[prost(skip_debug)]
pub(crate) struct Answer {
    #[prost(uint64, tag = "1")]
    pub input: u64,
    #[prost(bytes = "vec", tag = "2")]
    pub answer: Vec<u8>,
}

impl DeviceState {
    /// Of a device that never was.
    pub fn new() -> Result<Self> {
        let mut secret = vec![0; 32];
        system_bytes(&mut secret)?;
        Ok(Self { secret, ..Self::default() })
    }

    /// All that stays of a device whose person has withdrawn.
    pub fn withdrawn() -> Self {
        Self { withdrawn: true, ..Self::default() }
    }

    /// Damage is refused, never guessed.
    pub fn unpack(content: &[u8]) -> Stored<Self> {
        let state = Self::decode(content).map_err(|_| damaged("its content cannot be read"))?;
        let length = if state.withdrawn { 0 } else { 32 };
        if state.secret.len() == length { Ok(state) } else { Err(damaged("its secret does not have 32 bytes")) }
    }

    pub fn require_no_withdrawal(&self) -> Result<()> {
        if !self.withdrawn {
            return Ok(());
        }
        Err(DeviceError::withdrawn(
            "the person of this device has withdrawn, and it reports nothing any more",
            "Ask the person; a device in another folder would draw its permanent responses again, and spend up to ε∞ \
             once more for each value.",
        ))
    }
}

impl DeviceMemo {
    pub fn of(memo: &Memo) -> Self {
        let answer = |(input, answer): &(u64, Vec<u8>)| Answer { input: *input, answer: answer.clone() };
        Self {
            seed: memo.seed.clone(),
            answers: memo.answers.iter().map(answer).collect(),
            parts: memo.parts.iter().map(Self::of).collect(),
        }
    }

    pub fn memo(&self) -> Memo {
        Memo {
            seed: self.seed.clone(),
            answers: self.answers.iter().map(|one| (one.input, one.answer.clone())).collect(),
            parts: self.parts.iter().map(Self::memo).collect(),
        }
    }
}
