//! The number that a person gives, exactly (docs/wire.md, "Values").

/// Most characters of a number's text, blanks around it left out.
const LONGEST: usize = 400;

/// A finite decimal: its digits before and after the point, with at least one before it.
#[derive(Clone, Debug)]
pub struct Decimal {
    negative: bool,
    whole: Vec<u8>,
    fraction: Vec<u8>,
}

impl Decimal {
    /// The number that a text stands for; None where it is none.
    pub fn of_text(text: &str) -> Option<Self> {
        let trimmed = text.trim_matches([' ', '\t']);
        if trimmed.len() > LONGEST {
            return None; // a longer text of fewer characters has signs that are no digits
        }
        let (negative, unsigned) = signed(trimmed);
        let (digits, power) = match unsigned.split_once(['e', 'E']) {
            None => (unsigned, 0),
            Some((digits, power)) => (digits, exponent(power)?),
        };
        let (before, after) = digits.split_once('.').unwrap_or((digits, ""));
        let mut whole = digits_of(before)?;
        let mut fraction = digits_of(after)?;
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let places = power.unsigned_abs() as usize;
        if power >= 0 {
            fraction.resize(fraction.len().max(places), 0);
            whole.extend(fraction.drain(..places));
        } else {
            whole.splice(0..0, vec![0; places]);
            fraction.splice(0..0, whole.split_off(whole.len() - places));
        }
        Some(Self { negative, whole, fraction })
    }

    /// The shortest decimal of a float; None where it is not finite.
    pub fn of_float(number: f64) -> Option<Self> {
        number.is_finite().then(|| Self::of_text(&format!("{number:e}")))?
    }

    /// Whether it is below 0.
    pub fn is_negative(&self) -> bool {
        self.negative && self.whole.iter().chain(&self.fraction).any(|&digit| digit != 0)
    }

    /// The number, if it is an integer that is not negative, at most `most`.
    pub fn integer(&self, most: u32) -> Option<u32> {
        let exact = !self.is_negative() && self.fraction.iter().all(|&digit| digit == 0);
        let whole = saturated(self.whole.iter().copied());
        (exact && whole <= u64::from(most)).then_some(whole as u32)
    }

    /// The integer nearest to a number that is not negative, the even one of two; at most `most`.
    pub fn nearest(&self, most: u32) -> u32 {
        let whole = saturated(self.whole.iter().copied());
        let end = self.fraction.iter().rposition(|&digit| digit != 0).map_or(0, |last| last + 1);
        let half = self.fraction[..end].cmp(&[5]);
        let up = half.is_gt() || half.is_eq() && whole % 2 == 1;
        whole.saturating_add(u64::from(up)).min(u64::from(most)) as u32
    }

    /// The floor of self·size / end for a number that is not negative, at most `most`.
    pub fn bucket(&self, size: u32, end: &Self, most: u32) -> u32 {
        let places = self.fraction.len().max(end.fraction.len());
        let held = times(&self.scaled(places), size);
        let (mut below, mut above) = (0, most);
        while below < above {
            let middle = below + (above - below).div_ceil(2);
            if at_most(&times(&end.scaled(places), middle), &held) {
                below = middle;
            } else {
                above = middle - 1;
            }
        }
        below
    }

    /// The digits of self·10^places, which is an integer.
    fn scaled(&self, places: usize) -> Vec<u8> {
        let mut digits = [self.whole.as_slice(), &self.fraction].concat();
        digits.resize(self.whole.len() + places, 0);
        digits
    }
}

fn signed(text: &str) -> (bool, &str) {
    match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    }
}

fn exponent(text: &str) -> Option<i32> {
    let (negative, digits) = signed(text);
    let known = (1..=4).contains(&digits.len());
    let power = saturated(digits_of(digits).filter(|_| known)?.into_iter()) as i32;
    Some(if negative { -power } else { power })
}

fn digits_of(text: &str) -> Option<Vec<u8>> {
    text.bytes().map(|sign| sign.is_ascii_digit().then(|| sign - b'0')).collect()
}

/// The integer with these digits, or a number above all u32.
fn saturated(digits: impl Iterator<Item = u8>) -> u64 {
    digits.fold(0, |number: u64, digit| number.saturating_mul(10).saturating_add(u64::from(digit)))
}

/// The product of an integer, in digits, and a factor.
fn times(digits: &[u8], factor: u32) -> Vec<u8> {
    let mut product = vec![0; digits.len() + 10];
    let mut carry = 0;
    for (place, at) in product.iter_mut().rev().enumerate() {
        let digit = digits.len().checked_sub(place + 1).map_or(0, |i| digits[i]);
        carry += u64::from(digit) * u64::from(factor);
        *at = (carry % 10) as u8;
        carry /= 10;
    }
    product
}

fn at_most(a: &[u8], b: &[u8]) -> bool {
    let length = a.len().max(b.len());
    let padded = |one: &[u8]| [vec![0; length - one.len()].as_slice(), one].concat();
    padded(a) <= padded(b)
}
