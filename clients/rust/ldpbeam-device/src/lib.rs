//! A device of ldpbeam: it makes of a person's value the bytes of one report for each epoch.
//!
//! The specification is docs/wire.md of the project, the reference implementation `ldpbeam/client`.

#![forbid(unsafe_code)]

mod counter;
pub mod definition;
mod device;
mod disk;
mod draws;
pub mod error;
mod exact;
mod folder;
mod last_report;
mod lock;
pub mod number;
mod outbox;
pub mod participation;
pub mod protocols;
pub mod randomness;
mod sender;
pub mod slices;
mod spans;
mod spending;
mod state;
mod store;
pub mod strings;
pub mod values;
pub mod wire;

pub use definition::Definition;
pub use device::{Clock, Device, Options};
pub use draws::MemoKind;
pub use error::{DeviceError, Result};
pub use outbox::{DropCounts, Outbox, WaitingReport};
pub use sender::{Answer, Sender};
pub use slices::Slice;
pub use spending::{AtCap, CollectionSpending, Spending};
pub use values::{Held, Value};
