//! The device for Kotlin and Swift: what UniFFI makes bindings of, and nothing besides.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use ldpbeam_device as core;

uniffi::setup_scaffolding!();

/// An error of the device, by its code of docs/errors.md.
#[derive(Debug, uniffi::Error)]
pub enum Failure {
    Device { code: String, text: String },
}

type Result<T> = std::result::Result<T, Failure>;

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self::Device { text, .. } = self;
        f.write_str(text)
    }
}

impl From<core::DeviceError> for Failure {
    fn from(error: core::DeviceError) -> Self {
        Self::Device { code: error.code().to_owned(), text: error.to_string() }
    }
}

#[derive(uniffi::Enum)]
pub enum One {
    Text { text: String },
    Integer { number: i64 },
    Decimal { number: f64 },
    Index { place: i64 },
}

#[derive(uniffi::Enum)]
pub enum Held {
    Single { value: One },
    Each { values: Vec<One> },
    Named { values: HashMap<String, One> },
}

impl From<One> for core::Value {
    fn from(one: One) -> Self {
        match one {
            One::Text { text } => Self::Text(text),
            One::Integer { number } => Self::Integer(number),
            One::Decimal { number } => Self::Number(number),
            One::Index { place } => Self::Index(place),
        }
    }
}

impl From<Held> for core::Held {
    fn from(held: Held) -> Self {
        match held {
            Held::Single { value } => Self::One(value.into()),
            Held::Each { values } => Self::Each(values.into_iter().map(Into::into).collect()),
            Held::Named { values } => Self::Named(values.into_iter().map(|(name, one)| (name, one.into())).collect()),
        }
    }
}

/// What a device does whose budget is spent: no more reports, or reports that no value enters.
#[derive(uniffi::Enum)]
pub enum AtCap {
    Stop,
    Noise,
}

/// Whether permanent responses follow from the device's secret, or are drawn and kept.
#[derive(uniffi::Enum)]
pub enum Memo {
    Derived,
    Stored,
}

/// What a program asks of its device; the Kotlin and the Swift above give each a default.
#[derive(uniffi::Record)]
pub struct Settings {
    pub budget: Option<f64>,
    pub at_cap: AtCap,
    pub memo: Memo,
    pub outbox: i32,
    pub spread: f64,
    pub sentinel: Option<String>,
    pub max_jump: f64,
    pub slice: Option<HashMap<String, String>>,
}

/// A report that waits; `due` is in seconds since 1970.
#[derive(uniffi::Record)]
pub struct WaitingReport {
    pub due: i64,
    pub digest: String,
    pub epoch: i64,
}

/// Reports that waited and were never sent, since the device began: too many waited, or they were damaged.
#[derive(uniffi::Record)]
pub struct DropCounts {
    pub full: i64,
    pub damaged: i64,
}

/// What a device has spent on one version of a collection.
#[derive(uniffi::Record)]
pub struct CollectionSpending {
    pub name: String,
    pub version: i64,
    pub digest: String,
    pub times: i64,
    pub epsilon: f64,
    pub stopped: bool,
}

#[derive(uniffi::Record)]
pub struct Spending {
    pub collections: Vec<CollectionSpending>,
    pub epsilon: f64,
    pub budget: Option<f64>,
}

#[derive(uniffi::Record)]
pub struct Request {
    pub report: WaitingReport,
    pub body: Vec<u8>,
}

/// What a collector has answered; status 0 where it has not.
#[derive(uniffi::Record)]
pub struct Answer {
    pub status: u16,
    pub retry_after: String,
    pub body: Vec<u8>,
}

/// A device with its folder; threads may share it.
#[derive(uniffi::Object)]
pub struct DeviceHandle(core::Device);

#[uniffi::export]
impl DeviceHandle {
    #[uniffi::constructor]
    pub fn open(definition: &str, folder: &str, settings: Settings) -> Result<Self> {
        let options = core::Options {
            budget: settings.budget,
            at_cap: match settings.at_cap {
                AtCap::Stop => core::AtCap::Stop,
                AtCap::Noise => core::AtCap::Noise,
            },
            memo: match settings.memo {
                Memo::Derived => core::MemoKind::Derived,
                Memo::Stored => core::MemoKind::Stored,
            },
            outbox: settings.outbox.max(0) as usize,
            spread: settings.spread,
            sentinel: settings.sentinel.map(PathBuf::from),
            max_jump: settings.max_jump,
            slice: settings.slice.map(|labels| labels.into_iter().collect()),
            ..core::Options::default()
        };
        Ok(Self(core::Device::open(core::Definition::parse(definition)?, folder, options)?))
    }

    pub fn report(
        &self,
        value: Held,
        epoch: Option<i64>,
        slice: Option<HashMap<String, String>>,
    ) -> Result<Option<Vec<u8>>> {
        let slice = slice.map(|labels| labels.into_iter().collect());
        Ok(self.0.report(&value.into(), epoch, slice.as_ref())?)
    }

    pub fn spent(&self) -> Result<Spending> {
        let spent = self.0.spent()?;
        let one = |one: core::CollectionSpending| CollectionSpending {
            name: one.name,
            version: one.version.into(),
            digest: one.digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect(),
            times: one.times as i64,
            epsilon: one.epsilon,
            stopped: one.stopped,
        };
        let collections = spent.collections.into_iter().map(one).collect();
        Ok(Spending { collections, epsilon: spent.epsilon, budget: spent.budget })
    }

    pub fn withdraw(&self) -> Result<()> {
        Ok(self.0.withdraw()?)
    }

    pub fn waiting(&self) -> Result<Vec<WaitingReport>> {
        Ok(self.0.outbox()?.waiting()?.into_iter().map(Into::into).collect())
    }

    pub fn read(&self, report: WaitingReport) -> Result<Option<Vec<u8>>> {
        Ok(self.0.outbox()?.read(&report.into())?)
    }

    pub fn acknowledge(&self, sent: Vec<WaitingReport>) -> Result<()> {
        let sent: Vec<core::WaitingReport> = sent.into_iter().map(Into::into).collect();
        Ok(self.0.outbox()?.acknowledge(&sent)?)
    }

    pub fn dropped(&self) -> Result<DropCounts> {
        let counts = self.0.outbox()?.dropped()?;
        Ok(DropCounts { full: counts.full as i64, damaged: counts.damaged as i64 })
    }
}

impl From<WaitingReport> for core::WaitingReport {
    fn from(one: WaitingReport) -> Self {
        let digest = u64::from_str_radix(&one.digest, 16).unwrap_or_default();
        Self { due: one.due as u64, digest: digest.to_be_bytes(), epoch: one.epoch }
    }
}

impl From<core::WaitingReport> for WaitingReport {
    fn from(one: core::WaitingReport) -> Self {
        let digest = format!("{:016x}", u64::from_be_bytes(one.digest));
        Self { due: one.due as i64, digest, epoch: one.epoch }
    }
}

/// Which report is posted next, and what an answer means; the Kotlin and the Swift above post.
#[derive(uniffi::Object)]
pub struct SenderHandle {
    device: Arc<DeviceHandle>,
    sender: Mutex<core::Sender>,
}

impl SenderHandle {
    fn lock(&self) -> MutexGuard<'_, core::Sender> {
        self.sender.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[uniffi::export]
impl SenderHandle {
    #[uniffi::constructor]
    pub fn new(device: Arc<DeviceHandle>) -> Self {
        Self { device, sender: Mutex::default() }
    }

    pub fn next(&self) -> Result<Option<Request>> {
        let next = self.lock().next(&self.device.0.outbox()?, now())?;
        Ok(next.map(|(report, body)| Request { report: report.into(), body }))
    }

    pub fn answered(&self, report: WaitingReport, answer: Answer) -> Result<()> {
        let Answer { status, retry_after, body } = answer;
        let answer = core::Answer { status, retry_after, body };
        Ok(self.lock().answered(&self.device.0.outbox()?, report.into(), &answer, now())?)
    }

    /// Nothing is sent before, seconds since 1970.
    pub fn next_attempt(&self) -> f64 {
        self.lock().next_attempt
    }

    /// Reports that the collector has taken.
    pub fn sent(&self) -> i64 {
        self.lock().sent as i64
    }

    /// Reports that it refused for good, by its reason.
    pub fn dropped(&self) -> HashMap<String, i64> {
        self.lock().dropped.iter().map(|(reason, count)| (reason.clone(), *count as i64)).collect()
    }
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}
