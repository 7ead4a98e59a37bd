//! Families of hash functions (docs/wire.md, `local_hash`).

use super::{bit_length, bytes_for};
use crate::definition::Node;
use crate::error::Result;
use crate::randomness::{FULL, Words};

/// Multipliers a with |a| < 2^13, as signed integers, map neighbouring values alike; they are exchanged.
const REACH: u64 = 1 << 13;
const EXCHANGE: u64 = 0x9e37_79b9_7f4a_7c15;

/// Functions of values to symbols 0 .. g − 1; a seed names one.
#[derive(Clone, Debug)]
pub enum Family {
    Linear { g: u64, digits: u32, seeds: u64 },
    Affine { g: u64, symbol_size: usize },
    Interval { g: u64, functions: u64, multipliers: Vec<u64>, domain_size: u64 },
    Listed { g: u64, functions: u64 },
}

impl Family {
    pub fn parse(node: &Node, domain_size: u64) -> Result<Self> {
        Ok(match node.text("family")? {
            "linear" => {
                let g = node.integer("g", 2, 1 << 28)?;
                let digits = node.integer("digits", 1, 28)? as u32;
                let seeds = node.integer("seeds", 1, 1 << 28)?;
                if g.checked_pow(digits) != Some(seeds + 1) || seeds + 1 < domain_size {
                    return Err(node.wrong("seeds", "not g^digits − 1, or too few"));
                }
                Self::Linear { g, digits, seeds }
            }
            "affine" => {
                let g = node.integer("g", 2, 1 << 16)?;
                let least = if g > 256 { 2 } else { 1 };
                Self::Affine { g, symbol_size: node.integer("symbol_size", least, 2)? as usize }
            }
            "interval" => {
                let g = node.integer("g", 2, domain_size.min(64))?;
                let functions = node.integer("functions", 2, 1 << 16)?;
                let multipliers = node.integers("multipliers", Some(g as usize - 1), 1, functions - 1)?;
                Self::Interval { g, functions, multipliers, domain_size }
            }
            "listed" => {
                Self::Listed { g: node.integer("g", 2, 1 << 16)?, functions: node.integer("functions", 2, 1 << 16)? }
            }
            _ => return Err(node.wrong("family", "not known to this client")),
        })
    }

    /// Number of symbols.
    pub fn g(&self) -> u64 {
        match self {
            Self::Linear { g, .. } | Self::Affine { g, .. } | Self::Interval { g, .. } | Self::Listed { g, .. } => *g,
        }
    }

    /// Bytes of a seed and a symbol.
    pub fn size(&self) -> usize {
        let cells = match self {
            Self::Affine { symbol_size, .. } => return 16 + symbol_size,
            Self::Linear { g, seeds, .. } => g * seeds,
            Self::Interval { g, functions, .. } | Self::Listed { g, functions } => g * functions,
        };
        bytes_for(bit_length(cells - 1))
    }

    pub fn draw(&self, words: &mut dyn Words) -> Result<u128> {
        Ok(match self {
            Self::Linear { seeds, .. } => {
                let seeds = u128::from(*seeds);
                1 + u128::from(words.below(FULL - FULL % seeds)?) % seeds
            }
            Self::Affine { .. } => draw_affine(words)?,
            Self::Interval { functions, .. } | Self::Listed { functions, .. } => u128::from(words.next()? % functions),
        })
    }

    /// The largest seed.
    pub fn last(&self) -> u128 {
        match self {
            Self::Linear { seeds, .. } => u128::from(*seeds),
            Self::Affine { .. } => u128::MAX,
            Self::Interval { functions, .. } | Self::Listed { functions, .. } => u128::from(functions - 1),
        }
    }

    pub fn hash(&self, seed: u128, value: u32) -> u64 {
        let small = seed as u64;
        match self {
            Self::Linear { g, digits, .. } => {
                let (mut seed, mut value, mut total) = (small, u64::from(value), 0);
                for _ in 0..*digits {
                    total += (seed % g) * (value % g);
                    seed /= g;
                    value /= g;
                }
                total % g
            }
            Self::Affine { g, .. } => (upper_half(seed, value) * g) >> 32,
            Self::Interval { g, functions, multipliers, domain_size } => {
                // Always all cuts: a loop that stops at the value would show it by its time.
                let cut = |(i, a): (u64, u64)| {
                    let place = i * functions + a * small % functions;
                    ((2 * place + 1) * (domain_size - 1)).div_ceil(2 * (g - 1) * functions)
                };
                (0..).zip(multipliers.iter().copied()).map(|one| u64::from(cut(one) <= u64::from(value))).sum()
            }
            Self::Listed { g, .. } => {
                let listed = u128::from(public_word(2 * small)) | u128::from(public_word(2 * small + 1)) << 64;
                (upper_half(listed, value) * g) >> 32
            }
        }
    }

    pub fn encode(&self, seed: u128, symbol: u64) -> Vec<u8> {
        match self {
            Self::Affine { symbol_size, .. } => [&seed.to_le_bytes(), &symbol.to_le_bytes()[..*symbol_size]].concat(),
            Self::Linear { g, .. } => self.number((seed as u64).saturating_sub(1) * g + symbol),
            Self::Interval { g, .. } | Self::Listed { g, .. } => self.number(seed as u64 * g + symbol),
        }
    }

    fn number(&self, cell: u64) -> Vec<u8> {
        cell.to_le_bytes()[..self.size()].to_vec()
    }
}

/// A multiplier a and a summand c: a + 2^64·c.
pub fn draw_affine(words: &mut dyn Words) -> Result<u128> {
    let a = words.next()?;
    let is_degenerate = a.wrapping_add(REACH - 1) < 2 * REACH - 1;
    let a = if is_degenerate { a ^ EXCHANGE } else { a };
    Ok(u128::from(a) | u128::from(words.next()?) << 64)
}

/// Upper 32 bits of a·value + c modulo 2^64.
pub fn upper_half(seed: u128, value: u32) -> u64 {
    let (a, c) = (seed as u64, (seed >> 64) as u64);
    a.wrapping_mul(u64::from(value)).wrapping_add(c) >> 32
}

/// Word `index` of the public list: SplitMix64 (Steele and others, 2014), started at 0.
fn public_word(index: u64) -> u64 {
    let word = (index + 1).wrapping_mul(EXCHANGE);
    let word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}
