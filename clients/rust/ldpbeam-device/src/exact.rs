//! Sums of floats without an error: what is spent is never rounded down.

/// Words of 64 bits: any float times any count of 64 bits, and 2^64 of these together.
const WORDS: usize = 36;

/// A sum of floats ≥ 0, as an integer of multiples of 2^−1074, the smallest float; words from the highest to the lowest.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Sum([u64; WORDS]);

impl Sum {
    pub fn new() -> Self {
        Self([0; WORDS])
    }

    /// Add a finite float ≥ 0 so many times.
    pub fn add(&mut self, float: f64, times: u64) {
        let bits = float.to_bits();
        let (exponent, fraction) = (bits >> 52 & 0x7ff, bits & ((1 << 52) - 1));
        let mantissa = if exponent == 0 { fraction } else { fraction | 1 << 52 };
        let shift = exponent.saturating_sub(1) as usize;
        let product = u128::from(mantissa) * u128::from(times); // 117 bits
        let (low, high) = (product as u64, (product >> 64) as u64);
        let inner = shift % 64;
        let mut carry = 0;
        let parts = [low, high, 0].map(|word| u128::from(word) << inner);
        for at in shift / 64..WORDS {
            let i = at - shift / 64;
            let own = parts.get(i).map_or(0, |part| *part as u64);
            let below = if i == 0 { 0 } else { parts.get(i - 1).map_or(0, |part| (part >> 64) as u64) };
            let word = &mut self.0[WORDS - 1 - at];
            let sum = u128::from(*word) + u128::from(own) + u128::from(below) + carry;
            *word = sum as u64;
            carry = sum >> 64;
        }
    }

    pub fn of<'a>(counts: impl IntoIterator<Item = (&'a f64, &'a u64)>) -> Self {
        let mut sum = Self::new();
        for (float, times) in counts {
            sum.add(*float, *times);
        }
        sum
    }

    /// The smallest float that is not below the sum.
    pub fn float_above(&self) -> f64 {
        let Some(top) = self.0.iter().position(|&word| word != 0) else { return 0.0 };
        let highest = 64 * (WORDS - top) - self.0[top].leading_zeros() as usize; // bits of the sum
        let Some(shift) = highest.checked_sub(53) else { return f64::from_bits(self.0[WORDS - 1]) };
        let bit = |at: usize| self.0[WORDS - 1 - at / 64] >> (at % 64) & 1;
        let mantissa = (shift..highest).rev().fold(0, |found, at| found << 1 | bit(at));
        let is_exact = (0..shift).all(|at| bit(at) == 0);
        // A float's bits are those of an integer: one more is the next float, also where the exponent changes.
        let bits = (shift as u64 + 1) << 52 | (mantissa & ((1 << 52) - 1));
        f64::from_bits((bits + u64::from(!is_exact)).min(f64::INFINITY.to_bits()))
    }
}
