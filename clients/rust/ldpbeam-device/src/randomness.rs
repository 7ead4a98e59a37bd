//! Random words: where a device's draws come from (docs/wire.md, "Random words").

use std::collections::BTreeMap;

use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};

use crate::error::{DeviceError, Result};

/// Number of values of an unlimited word.
pub const FULL: u128 = 1 << 64;

/// In place of an attribute's position: what several attributes draw together.
pub const WHOLE: u32 = u32::MAX;

/// Labels of the derivations of a device: of its words, of the pads of values that it keeps, of its ledger's marks.
pub const WORDS: &[u8] = b"ldpbeam device 1\0";
pub const PADS: &[u8] = b"ldpbeam masks 1\0";
pub const MARKS: &[u8] = b"ldpbeam marks 1\0";

/// What words are for; the numbers are part of every label.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    Once = 1,
    Fresh = 3,
    ReportId = 4,
    Noise = 5,
    SendingTime = 6,
    Participation = 7,
}

const PERMANENT: u8 = 2;

/// A stream of independent uniform words.
pub trait Words {
    /// The next word, uniform in 0 .. 2^64 − 1.
    fn next(&mut self) -> Result<u64>;

    /// The next words.
    fn fill(&mut self, words: &mut [u64]) -> Result<()> {
        for word in words {
            *word = self.next()?;
        }
        Ok(())
    }

    /// A uniform integer below a limit in 1 .. 2^64: the first word below the largest multiple of the limit.
    fn below(&mut self, limit: u128) -> Result<u64> {
        let end = FULL - FULL % limit;
        loop {
            let word = u128::from(self.next()?);
            if word < end {
                return Ok((word % limit) as u64);
            }
        }
    }
}

/// The operating system's cryptographic generator, asked once per draw: a buffer would survive a fork, and two
/// processes would repeat each other's noise.
pub struct SystemWords;

impl Words for SystemWords {
    fn next(&mut self) -> Result<u64> {
        let mut bytes = [0; 8];
        system_bytes(&mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    fn fill(&mut self, words: &mut [u64]) -> Result<()> {
        let mut bytes = vec![0; 8 * words.len()];
        system_bytes(&mut bytes)?;
        for (word, eight) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_le_bytes(eight.try_into().expect("eight bytes"));
        }
        Ok(())
    }
}

/// Fill with random bytes of the operating system.
pub fn system_bytes(bytes: &mut [u8]) -> Result<()> {
    #[cfg(feature = "test-randomness")]
    if let Some(words) = script().as_mut() {
        for eight in bytes.chunks_mut(8) {
            eight.copy_from_slice(&words.next()?.to_le_bytes()[..eight.len()]);
        }
        return Ok(());
    }
    getrandom::fill(bytes).map_err(|_| {
        DeviceError::randomness(
            "the system gives no random bytes, and without them no report is private",
            "Start the device again; see why the system refuses.",
        )
    })
}

#[cfg(feature = "test-randomness")]
fn script() -> std::sync::MutexGuard<'static, Option<DerivedWords>> {
    static SCRIPT: std::sync::Mutex<Option<DerivedWords>> = std::sync::Mutex::new(None);
    SCRIPT.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// From now on the operating system's bytes are the words of the stream with this key.
#[cfg(feature = "test-randomness")]
pub fn script_system(key: &[u8]) {
    *script() = Some(DerivedWords::new(key));
}

/// Where the words of one report come from, or of the draws for life.
pub trait Origin {
    /// The words of an attribute, by its position, or of all of them together ([`WHOLE`]).
    fn words(&mut self, part: u32) -> &mut dyn Words;

    /// The words of the permanent answer of a memoised input.
    fn permanent(&mut self, part: u32, input: u64) -> Box<dyn Words + '_>;
}

/// The words of one attribute of a report.
pub struct Source<'a> {
    origin: &'a mut dyn Origin,
    part: u32,
}

impl<'a> Source<'a> {
    pub fn new(origin: &'a mut dyn Origin, part: u32) -> Self {
        Self { origin, part }
    }

    pub fn permanent(&mut self, input: u64) -> Box<dyn Words + '_> {
        self.origin.permanent(self.part, input)
    }

    pub fn part(&mut self, part: u32) -> Source<'_> {
        Source::new(self.origin, part)
    }
}

impl Words for Source<'_> {
    fn next(&mut self) -> Result<u64> {
        self.origin.words(self.part).next()
    }

    fn fill(&mut self, words: &mut [u64]) -> Result<()> {
        self.origin.words(self.part).fill(words)
    }

    fn below(&mut self, limit: u128) -> Result<u64> {
        self.origin.words(self.part).below(limit)
    }
}

impl Words for &mut dyn Words {
    fn next(&mut self) -> Result<u64> {
        (**self).next()
    }

    fn fill(&mut self, words: &mut [u64]) -> Result<()> {
        (**self).fill(words)
    }

    fn below(&mut self, limit: u128) -> Result<u64> {
        (**self).below(limit)
    }
}

/// One stream for everything, and the memoised inputs that it was asked about: (part, input).
pub struct Single<W> {
    pub words: W,
    pub inputs: Vec<(u32, u64)>,
}

impl<W: Words> Single<W> {
    pub fn new(words: W) -> Self {
        Self { words, inputs: Vec::new() }
    }
}

impl<W: Words> Origin for Single<W> {
    fn words(&mut self, _: u32) -> &mut dyn Words {
        &mut self.words
    }

    fn permanent(&mut self, part: u32, input: u64) -> Box<dyn Words + '_> {
        self.inputs.push((part, input));
        let words: &mut dyn Words = &mut self.words;
        Box::new(words)
    }
}

/// The streams of one device and collection: all follow from the device's secret and the full digest.
pub struct Derivation {
    secret: Hmac<Sha256>,
    label: Vec<u8>,
}

impl Derivation {
    pub fn new(secret: &[u8], full_digest: &[u8; 32], label: &[u8]) -> Self {
        Self { secret: keyed(secret), label: [label, full_digest].concat() }
    }

    pub fn key(&self, purpose: u8, part: u32, number: u64, about: &[u8]) -> [u8; 32] {
        let mut mac = self.secret.clone();
        mac.update(&self.label);
        mac.update(&[purpose]);
        mac.update(&part.to_le_bytes());
        mac.update(&number.to_le_bytes());
        mac.update(about);
        mac.finalize().into_bytes().into()
    }

    pub fn stream(&self, purpose: u8, part: u32, number: u64, about: &[u8]) -> DerivedWords {
        DerivedWords::new(&self.key(purpose, part, number, about))
    }

    /// The first word of a purpose that needs one: of part 0.
    pub fn word(&self, purpose: Purpose, epoch: i64) -> Result<u64> {
        self.stream(purpose as u8, 0, epoch.cast_unsigned(), &[]).next()
    }
}

pub fn keyed(key: &[u8]) -> Hmac<Sha256> {
    Hmac::new_from_slice(key).expect("HMAC takes keys of every length")
}

/// The words of one stream, in order.
pub struct DerivedWords {
    key: Hmac<Sha256>,
    block: [u8; 32],
    drawn: u64,
}

impl DerivedWords {
    fn new(key: &[u8]) -> Self {
        Self { key: keyed(key), block: [0; 32], drawn: 0 }
    }
}

impl Words for DerivedWords {
    fn next(&mut self) -> Result<u64> {
        let at = (self.drawn % 4) as usize;
        if at == 0 {
            let mut mac = self.key.clone();
            mac.update(&(self.drawn / 4).to_le_bytes());
            self.block = mac.finalize().into_bytes().into();
        }
        self.drawn += 1;
        let word = &self.block[8 * at..8 * at + 8];
        Ok(u64::from_le_bytes(word.try_into().expect("eight bytes")))
    }
}

/// The words of one purpose, a stream for each attribute; of a report, permanent answers have streams of their own.
pub struct Derived<'a> {
    derivation: &'a Derivation,
    purpose: Purpose,
    number: u64,
    about: Vec<u8>,
    streams: BTreeMap<u32, DerivedWords>,
    /// The memoised inputs that were asked about: (part, input).
    pub inputs: Vec<(u32, u64)>,
}

impl<'a> Derived<'a> {
    /// What is drawn once for life.
    pub fn once(derivation: &'a Derivation) -> Self {
        Self::new(derivation, Purpose::Once, 0, Vec::new())
    }

    /// A report about values: copies of a device must not share coins.
    pub fn report(derivation: &'a Derivation, epoch: i64, values: &[u32]) -> Self {
        let about = Sha256::digest(packed(values)).to_vec();
        Self::new(derivation, Purpose::Fresh, epoch, about)
    }

    /// A report about no value.
    pub fn noise(derivation: &'a Derivation, epoch: i64) -> Self {
        Self::new(derivation, Purpose::Noise, epoch, Vec::new())
    }

    fn new(derivation: &'a Derivation, purpose: Purpose, number: i64, about: Vec<u8>) -> Self {
        let number = number.cast_unsigned();
        Self { derivation, purpose, number, about, streams: BTreeMap::new(), inputs: Vec::new() }
    }
}

impl Origin for Derived<'_> {
    fn words(&mut self, part: u32) -> &mut dyn Words {
        let Self { derivation, purpose, number, about, streams, .. } = self;
        streams.entry(part).or_insert_with(|| derivation.stream(*purpose as u8, part, *number, about))
    }

    fn permanent(&mut self, part: u32, input: u64) -> Box<dyn Words + '_> {
        if self.purpose == Purpose::Fresh {
            self.inputs.push((part, input));
            Box::new(self.derivation.stream(PERMANENT, part, input, &[]))
        } else {
            Box::new(self.words(part))
        }
    }
}

/// The values' indices, of all attributes in their order: 4 bytes each, whatever they are.
pub fn packed(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}
