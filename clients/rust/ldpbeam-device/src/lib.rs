//! A device of ldpbeam: it makes of a person's value the bytes of one report for each epoch.
//!
//! The specification is docs/wire.md of the project, the reference implementation `ldpbeam/client`.

#![forbid(unsafe_code)]

pub mod definition;
pub mod error;
pub mod number;
pub mod participation;
pub mod protocols;
pub mod randomness;
pub mod slices;
pub mod strings;
pub mod values;
pub mod wire;

pub use definition::Definition;
pub use error::{DeviceError, Result};
pub use slices::Slice;
pub use values::{Held, Value};
