//! Why a device cannot report, or must not. No text holds a value or a label.

use std::borrow::Cow;
use std::fmt;

/// What happened, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detail {
    pub message: Cow<'static, str>,
    pub remedy: Cow<'static, str>,
}

pub type Result<T> = std::result::Result<T, DeviceError>;

macro_rules! codes {
    ($($variant:ident $constructor:ident $code:literal)*) => {
        /// An error of a device, one variant for each code of docs/errors.md.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum DeviceError {
            $($variant(Detail),)*
        }

        impl DeviceError {
            $(pub(crate) fn $constructor(
                message: impl Into<Cow<'static, str>>,
                remedy: impl Into<Cow<'static, str>>,
            ) -> Self {
                Self::$variant(Detail { message: message.into(), remedy: remedy.into() })
            })*

            /// Stable identifier, such as E-DEVICE-EPOCH.
            pub fn code(&self) -> &'static str {
                match self {
                    $(Self::$variant(_) => $code,)*
                }
            }

            fn detail(&self) -> &Detail {
                match self {
                    $(Self::$variant(detail) => detail,)*
                }
            }
        }
    };
}

codes! {
    Budget budget "E-DEVICE-BUDGET"
    Busy busy "E-DEVICE-BUSY"
    Clock clock "E-DEVICE-CLOCK"
    Definition definition "E-DEVICE-DEFINITION"
    Epoch epoch "E-DEVICE-EPOCH"
    Memo memo "E-DEVICE-MEMO"
    Options options "E-DEVICE-OPTIONS"
    Outbox outbox "E-DEVICE-OUTBOX"
    Randomness randomness "E-DEVICE-RANDOMNESS"
    SentinelDamaged sentinel_damaged "E-DEVICE-SENTINEL-DAMAGED"
    Slice slice "E-DEVICE-SLICE"
    StateDamaged state_damaged "E-DEVICE-STATE-DAMAGED"
    StateLost state_lost "E-DEVICE-STATE-LOST"
    StateOlder state_older "E-DEVICE-STATE-OLDER"
    StateOther state_other "E-DEVICE-STATE-OTHER"
    StateVersion state_version "E-DEVICE-STATE-VERSION"
    Value value "E-DEVICE-VALUE"
    Withdrawn withdrawn "E-DEVICE-WITHDRAWN"
    DiskDenied disk_denied "E-DISK-DENIED"
    DiskFailed disk_failed "E-DISK-FAILED"
    DiskFiles disk_files "E-DISK-FILES"
    DiskFull disk_full "E-DISK-FULL"
    DiskLink disk_link "E-DISK-LINK"
    DiskLocks disk_locks "E-DISK-LOCKS"
}

impl DeviceError {
    pub fn message(&self) -> &str {
        &self.detail().message
    }

    /// What to do; empty where the message says it.
    pub fn remedy(&self) -> &str {
        &self.detail().remedy
    }
}

impl fmt::Display for DeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Detail { message, remedy } = self.detail();
        let blank = if remedy.is_empty() { "" } else { " " };
        write!(f, "{message}.{blank}{remedy} [{}]", self.code())
    }
}

impl std::error::Error for DeviceError {}
