//! A device that turns its value of an epoch into the bytes of one report.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::definition::Definition;
use crate::draws::{Drawn, Draws, MemoKind};
use crate::error::{DeviceError, Result};
use crate::folder::{DeviceFolder, Records, Storage};
use crate::last_report::{LastReport, Made};
use crate::outbox::{self, Outbox, WaitingReport};
use crate::slices::{Slice, digest_of};
use crate::spans;
use crate::spending::{AtCap, Costs, Spending, add_up};
use crate::state::{CollectionState, DeviceState};
use crate::values::{Held, indices_of};

/// Gives the seconds since 1970.
pub type Clock = Arc<dyn Fn() -> f64 + Send + Sync>;

/// What a program asks of its device.
#[derive(Clone)]
pub struct Options {
    /// The most ε that this device may spend, over all collections of the folder and all their versions.
    pub budget: Option<f64>,
    pub at_cap: AtCap,
    pub memo: MemoKind,
    /// The most reports that wait to be sent; beyond it the oldest are dropped. 0 where the program itself sends what
    /// [`Device::report`] returns.
    pub outbox: usize,
    /// Seconds after a report from which its sending time is drawn, at most the rest of its epoch.
    pub spread: f64,
    /// File that says that the device has a state, and how often it has changed, best kept where it is not lost together
    /// with the folder; one in the folder where this is None.
    pub sentinel: Option<PathBuf>,
    /// Seconds by which an epoch, or the clock, may be after the last one. A larger jump is refused at first, and
    /// believed once the clock has shown such times for a day.
    pub max_jump: f64,
    pub clock: Clock,
    /// Labels that every report says in clear, unless [`Device::report`] is given others.
    pub slice: Option<Slice>,
}

impl Default for Options {
    fn default() -> Self {
        let now = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64());
        Self {
            budget: None,
            at_cap: AtCap::Stop,
            memo: MemoKind::Derived,
            outbox: 256,
            spread: 0.0,
            sentinel: None,
            max_jump: 400.0 * 86400.0,
            clock: Arc::new(now),
            slice: None,
        }
    }
}

/// One device's side of a collection; made by [`Device::open`], or by [`Device::ephemeral`] for tests.
///
/// A device that loses its state and draws again spends its privacy again. So the state is durable before a report that
/// needs it is returned, and a device whose state is lost or damaged refuses to report. Threads may share it.
pub struct Device {
    definition: Definition,
    storage: Storage,
    options: Options,
    secret: Vec<u8>,
    draws: Draws,
    costs: Costs,
    last_report: LastReport,
}

impl Device {
    /// The device whose state is in a folder, or a new one where there never was a state. Processes may have the same
    /// folder open at once.
    pub fn open(definition: Definition, path: impl AsRef<Path>, options: Options) -> Result<Self> {
        if options.budget.is_some_and(|budget| !(budget > 0.0 && budget.is_finite())) {
            return Err(DeviceError::options("a budget is a positive number, or none", "Give another."));
        }
        if options.spread.is_nan() || options.spread < 0.0 {
            return Err(DeviceError::options("a spread is 0 or a positive number of seconds", "Give another."));
        }
        check_slice(&definition, options.slice.as_ref())?;
        let folder = DeviceFolder::open(path.as_ref(), options.sentinel.as_deref())?;
        Self::new(definition, Storage::Folder(folder), options)
    }

    /// A device that ends with the process: for tests and audits, never for people's values. It draws from the operating
    /// system.
    pub fn ephemeral(definition: Definition, slice: Option<Slice>) -> Result<Self> {
        check_slice(&definition, slice.as_ref())?;
        // It has no report to lose, and trusts every clock.
        let max_jump = f64::INFINITY;
        let options = Options { memo: MemoKind::Stored, outbox: 0, max_jump, slice, ..Options::default() };
        Self::new(definition, Storage::Memory(Mutex::new(DeviceState::new()?)), options)
    }

    fn new(definition: Definition, storage: Storage, options: Options) -> Result<Self> {
        let mut records = storage.transaction()?;
        records.state.require_no_withdrawal()?;
        let secret = records.state.secret.clone();
        let draws = Draws::new(&definition, options.memo, &secret)?;
        let costs = Costs::new(&definition, &secret, options.budget, options.at_cap);
        let last_report = LastReport::new(&definition, &secret);
        if collection_state(&definition, &draws, &records.state)?.is_none() {
            add_collection(&definition, &draws, &mut records.state)?;
            records.save()?;
        }
        drop(records);
        Ok(Self { definition, storage, options, secret, draws, costs, last_report })
    }

    /// The reports that wait to be sent.
    pub fn outbox(&self) -> Result<Outbox<'_>> {
        match &self.storage {
            Storage::Folder(folder) if self.options.outbox > 0 => Ok(Outbox { folder }),
            _ => Err(DeviceError::outbox(
                "this device keeps no reports that wait",
                "Open it with a folder and outbox above 0, or send what report returns.",
            )),
        }
    }

    /// What this device has spent, over all collections of its folder.
    pub fn spent(&self) -> Result<Spending> {
        let records = self.storage.transaction()?;
        records.state.require_no_withdrawal()?;
        Ok(add_up(&records.state, self.options.budget))
    }

    /// The person opts out: all collections of the folder end here, and the folder is never used again. Called again, it
    /// does nothing, or finishes what a full disk kept it from.
    pub fn withdraw(&self) -> Result<()> {
        self.storage.withdraw()
    }

    /// A report about a value in an epoch (None: the one that the clock shows); kept in the outbox, where there is one.
    /// None, which is nothing to send, in an epoch that is none of the device's own.
    ///
    /// One report per epoch, and epochs go forward. Asked again for the last one, also by another process after a crash,
    /// the device returns the same bytes, whatever the value is by then. The slice is for this report alone.
    pub fn report(&self, value: &Held, epoch: Option<i64>, slice: Option<&Slice>) -> Result<Option<Vec<u8>>> {
        let values = indices_of(&self.definition, value)?;
        let digest = digest_of(&self.definition, slice.or(self.options.slice.as_ref()).unwrap_or(&Slice::new()))?;
        let now = (self.options.clock)();
        if !now.is_finite() {
            return Err(DeviceError::clock("the clock shows no time", "Set the clock."));
        }
        let asked = epoch.unwrap_or_else(|| self.definition.epochs.index(now));
        if !self.definition.epochs.contains(asked) {
            let message = format!("epoch {asked} is none of the collection's");
            return Err(spans::epoch_error(message, "Check the clock and the origin."));
        }
        let mut records = self.storage.transaction()?;
        let at = self.own_entry(&mut records.state)?;
        let entry = &records.state.collections[at];
        if let Some(known) = entry.spans.iter().find(|one| one.last_epoch == asked).filter(|one| !one.forgotten) {
            return self.last_report.restore(&self.definition, &self.draws, known, entry.memo.as_ref());
        }
        spans::require_open(&self.definition.epochs, &entry.spans, asked, now)?;
        self.require_trusted_clock(&mut records, at, asked, epoch.is_none().then_some(now))?;
        let goes_back = spans::goes_back(&records.state.collections[at], asked);
        let made = self.draw(&mut records, at, &values, asked)?.map(|drawn| Made {
            message: LastReport::message(&drawn, asked, digest),
            values: &values,
            digest,
            noise: drawn.noise,
        });
        let span = spans::add(&mut records.state.collections[at], asked);
        self.last_report.keep(span, made.as_ref(), self.draws.keeps_memo())?;
        if epoch.is_none() {
            // The time of a clock that was ahead would hide its next jump.
            let known = records.state.clock_seconds.unwrap_or(0);
            records.state.clock_seconds = Some(if goes_back { now as i64 } else { known.max(now as i64) });
        }
        let message = made.map(|made| made.message);
        self.put_into_outbox(&mut records, message.as_deref(), asked, now, goes_back)?;
        records.save()?;
        Ok(message)
    }

    /// The place of the collection's part of a state, unless somebody put another device's in its place meanwhile.
    fn own_entry(&self, state: &mut DeviceState) -> Result<usize> {
        state.require_no_withdrawal()?;
        if state.secret != self.secret {
            return Err(DeviceError::state_other(
                "the state is another device's than when this one was opened; to go on would mix the permanent \
                 responses of both",
                "Open the device again.",
            ));
        }
        match collection_state(&self.definition, &self.draws, state)? {
            Some(at) => Ok(at),
            // It is missing where the state was restored from a copy of before the collection was added.
            None => add_collection(&self.definition, &self.draws, state),
        }
    }

    /// A clock that is far ahead for a moment must spend no report; one that stays there is believed.
    fn require_trusted_clock(&self, records: &mut Records, at: usize, epoch: i64, now: Option<f64>) -> Result<()> {
        let (epochs, known) = (&self.definition.epochs, records.state.clock_seconds);
        let entry = &mut records.state.collections[at];
        let mut jump = spans::jump(epochs, entry, epoch);
        if let (Some(now), Some(known)) = (now, known) {
            jump = jump.max(now - known as f64);
        }
        let shown = now.map_or(epochs.start(epoch), |now| now as i64);
        if jump <= self.options.max_jump || spans::is_believed(entry, shown) {
            entry.doubted_seconds = None;
            return Ok(());
        }
        if spans::doubt(entry, shown) {
            records.save()?;
        }
        Err(spans::clock_error(epoch, jump))
    }

    /// The report about the values, charged; None where the device takes no part in the epoch.
    fn draw(&self, records: &mut Records, at: usize, values: &[u32], epoch: i64) -> Result<Option<Drawn>> {
        let entry = &records.state.collections[at];
        if !self.draws.reports_in(&self.definition, epoch, &entry.own_epochs) {
            return Ok(None);
        }
        let drawn = self.draws.report(&self.definition, values, epoch, entry.memo.as_ref())?;
        if !self.costs.charge(records, at, &drawn.inputs)? {
            let memo = records.state.collections[at].memo.as_ref();
            return self.draws.noise(&self.definition, epoch, memo).map(Some);
        }
        if drawn.memo.is_some() {
            records.state.collections[at].memo.clone_from(&drawn.memo);
        }
        Ok(Some(drawn))
    }

    /// Put the report into the outbox, if there is one; after a step back, later reports are due now.
    fn put_into_outbox(
        &self,
        records: &mut Records,
        message: Option<&[u8]>,
        epoch: i64,
        now: f64,
        goes_back: bool,
    ) -> Result<()> {
        if self.outbox().is_err() {
            return Ok(());
        }
        let digest = self.definition.digest.to_le_bytes();
        if goes_back {
            outbox::hasten(records, digest, epoch, now as u64)?;
        }
        let Some(message) = message else { return Ok(()) };
        let due = self.due(epoch, now)?;
        outbox::put(records, &WaitingReport { due, digest, epoch }, message, self.options.outbox)
    }

    /// A uniform time in the spread, but in what is left of the epoch; at once where nothing is.
    fn due(&self, epoch: i64, now: f64) -> Result<u64> {
        let rest = self.definition.epochs.start(epoch + 1).saturating_sub(now as i64).max(0);
        let left = (rest as f64).min(self.options.spread) as u64;
        let share = (u128::from(left) * u128::from(self.draws.share(epoch)?)) >> 64;
        Ok((now as u64).saturating_add(share as u64))
    }
}

impl fmt::Debug for Device {
    /// Which collection; nothing about the device.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({} {:016x})", self.definition.name, self.definition.digest.swap_bytes())
    }
}

fn check_slice(definition: &Definition, slice: Option<&Slice>) -> Result<()> {
    slice.map_or(Ok(()), |slice| digest_of(definition, slice).map(|_| ()))
}

/// The place of the collection's part of a state.
fn collection_state(definition: &Definition, draws: &Draws, state: &DeviceState) -> Result<Option<usize>> {
    let Some(at) = state.collections.iter().position(|entry| entry.digest == definition.full_digest) else {
        return Ok(None);
    };
    if state.collections[at].memo.is_some() == draws.keeps_memo() {
        return Ok(Some(at));
    }
    let (memo, other) = if draws.keeps_memo() { ("derived", "stored") } else { ("stored", "derived") };
    Err(DeviceError::memo(
        format!(
            "the permanent responses of {} are {memo} on this device; {other} ones would be drawn again, and spend up \
             to ε∞ once more",
            definition.name
        ),
        format!("Open the device with memo {memo}."),
    ))
}

fn add_collection(definition: &Definition, draws: &Draws, state: &mut DeviceState) -> Result<usize> {
    let (memo, own_epochs) = draws.for_life(definition)?;
    state.collections.push(CollectionState {
        digest: definition.full_digest.to_vec(),
        name: definition.name.clone(),
        version: definition.version,
        memo,
        own_epochs,
        ..CollectionState::default()
    });
    Ok(state.collections.len() - 1)
}
