//! The rounds that encodings are made of (docs/wire.md, "Rounds"). A round draws as many words for every value.

use crate::definition::Node;
use crate::error::Result;
use crate::randomness::{FULL, Words};

/// Words that are held at once.
const CHUNK: usize = 1 << 10;

/// Weights of a round over symbols: `keep` for the true one, `each` for every other.
#[derive(Clone, Copy, Debug)]
pub struct SymbolRound {
    size: u64,
    keep: u64,
    each: u64,
}

impl SymbolRound {
    pub fn parse(node: &Node, size: u64) -> Result<Self> {
        let keep = node.weight("keep", 1, FULL - 1)?;
        let each = node.weight("each", 1, keep)?;
        if node.text("size")? != size.to_string() || keep + u128::from(size - 1) * each > FULL {
            return Err(node.wrong("size", "not as many symbols as there are"));
        }
        Ok(Self { size, keep: keep as u64, each: each as u64 })
    }

    pub fn draw(&self, symbol: u64, words: &mut dyn Words) -> Result<u64> {
        let others = u128::from(self.size - 1) * u128::from(self.each);
        let word = words.below(u128::from(self.keep) + others)?;
        let lie = word.saturating_sub(self.keep) / self.each;
        Ok(if word < self.keep { symbol } else { lie + u64::from(lie >= symbol) })
    }
}

/// Weights over 2^64 of reporting 1 for a true 1, and for a true 0.
#[derive(Clone, Copy, Debug)]
pub struct BitRound {
    one: u64,
    zero: u64,
}

impl BitRound {
    pub fn parse(node: &Node) -> Result<Self> {
        let one = node.weight("one", 1, FULL - 1)?;
        Ok(Self { one: one as u64, zero: node.weight("zero", 1, one)? as u64 })
    }

    pub fn draw(&self, bit: bool, words: &mut dyn Words) -> Result<bool> {
        Ok(words.next()? < if bit { self.one } else { self.zero })
    }

    /// `count` bits, each randomised with a word of its own, packed.
    pub fn draw_bits(&self, count: usize, bit: impl Fn(usize) -> bool, words: &mut dyn Words) -> Result<Vec<u8>> {
        let mut packed = Vec::with_capacity(count.div_ceil(8));
        let mut drawn = [0; CHUNK];
        for start in (0..count).step_by(CHUNK) {
            let drawn = &mut drawn[..CHUNK.min(count - start)];
            words.fill(drawn)?;
            let is_one = |i: usize| drawn[i] < if bit(start + i) { self.one } else { self.zero };
            packed.extend(pack(drawn.len(), is_one));
        }
        Ok(packed)
    }
}

/// Bit i at bit i mod 8 of byte i div 8.
pub fn pack(count: usize, bit: impl Fn(usize) -> bool) -> Vec<u8> {
    let mut packed = vec![0; count.div_ceil(8)];
    for i in 0..count {
        packed[i / 8] |= u8::from(bit(i)) << (i % 8);
    }
    packed
}

/// A bit of packed ones; those behind the end are 0.
pub fn bit_of(packed: &[u8], i: usize) -> bool {
    packed.get(i / 8).is_some_and(|byte| byte >> (i % 8) & 1 == 1)
}

/// Weight over 2^64 of reporting 1 for the value x: zero + x·step.
#[derive(Clone, Copy, Debug)]
pub struct LinearRound {
    zero: u64,
    step: u64,
}

impl LinearRound {
    pub fn parse(node: &Node, domain_size: u64) -> Result<Self> {
        let values = u128::from(domain_size - 1);
        let step = node.weight("step", 1, (FULL - 2) / values)?;
        let zero = node.weight("zero", 1, FULL - 1 - step * values)?;
        Ok(Self { zero: zero as u64, step: step as u64 })
    }

    pub fn draw(&self, value: u64, words: &mut dyn Words) -> Result<bool> {
        Ok(words.next()? < self.zero + value * self.step)
    }
}

/// Weights of each report in the window of the value, which begins at the value, and of each of the others.
#[derive(Clone, Copy, Debug)]
pub struct WindowRound {
    pub width: u64,
    keep: u64,
    each: u64,
    others: u64,
}

impl WindowRound {
    pub fn parse(node: &Node, domain_size: u64) -> Result<Self> {
        let width = node.weight("width", 1, u128::from(domain_size))?;
        let keep = node.weight("keep", 1, FULL - 1)?;
        let each = node.weight("each", 1, keep)?;
        let others = domain_size - 1;
        if keep * width + each * u128::from(others) > FULL {
            return Err(node.wrong("each", "too large for its window"));
        }
        Ok(Self { width: width as u64, keep: keep as u64, each: each as u64, others })
    }

    pub fn draw(&self, value: u64, words: &mut dyn Words) -> Result<u64> {
        let inside = u128::from(self.keep) * u128::from(self.width);
        let word = u128::from(words.below(inside + u128::from(self.each) * u128::from(self.others))?);
        let near = value + (word / u128::from(self.keep)) as u64;
        let other = (word.saturating_sub(inside) / u128::from(self.each)) as u64;
        Ok(if word < inside { near } else { other + u64::from(other >= value) * self.width })
    }
}

/// Weights of discrete Laplace noise; sign and digit over 2^128, bits over 2^64.
#[derive(Clone, Debug)]
pub struct NoiseRound {
    negative: u128,
    tails: Vec<u128>,
    bits: Vec<u64>,
}

impl NoiseRound {
    pub fn parse(node: &Node) -> Result<Self> {
        let tails = node.weights("tails", u128::MAX)?;
        let bits = node.weights("bits", FULL - 1)?;
        if bits.len() > 64 {
            return Err(node.wrong("bits", "more than 64"));
        }
        let bits = bits.into_iter().map(|weight| weight as u64).collect();
        Ok(Self { negative: node.weight("negative", 1, u128::MAX)?, tails, bits })
    }

    pub fn draw(&self, words: &mut dyn Words) -> Result<i128> {
        let mut wide = || Ok(u128::from(words.next()?) << 64 | u128::from(words.next()?));
        let (sign, digit) = (wide()?, wide()?);
        let mut magnitude = self.tails.iter().map(|tail| i128::from(digit < *tail)).sum::<i128>() << self.bits.len();
        for (i, weight) in self.bits.iter().enumerate() {
            magnitude += i128::from(words.next()? < *weight) << i;
        }
        Ok(if sign < self.negative { -1 - magnitude } else { magnitude })
    }
}
