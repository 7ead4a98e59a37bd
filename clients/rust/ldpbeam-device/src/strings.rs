//! Texts that nobody listed: a value is the fingerprints of a text's prefixes (docs/wire.md, "Strings").

use std::collections::BTreeSet;

use sha2::{Digest, Sha256};

/// Behind the end of a text, and in place of one that cannot be written.
const END: char = '\0';
const OTHER: char = '\u{1}';

/// How texts become values.
#[derive(Clone, Debug)]
pub struct Strings {
    pub max_length: usize,
    pub symbols: BTreeSet<char>,
    /// Whether A to Z are taken for a to z.
    pub fold: bool,
    /// Whether other symbols are left out and long texts cut; else such a text is one that cannot be written.
    pub drop: bool,
    /// Of the prefixes, ascending; the last is `max_length`.
    pub lengths: Vec<usize>,
}

impl Strings {
    /// The fingerprint of each prefix of a text.
    pub fn fingerprints(&self, text: &str) -> Vec<u32> {
        let padded = self.padded(text);
        self.lengths.iter().map(|&length| fingerprint(&padded[..length])).collect()
    }

    /// A text as all devices write it: `max_length` signs, ends included.
    fn padded(&self, text: &str) -> Vec<char> {
        let folded = text.chars().map(|sign| if self.fold { sign.to_ascii_lowercase() } else { sign });
        let mut signs: Vec<char> = if self.drop {
            folded.filter(|sign| self.symbols.contains(sign)).take(self.max_length).collect()
        } else {
            folded.collect()
        };
        if signs.len() > self.max_length || !signs.iter().all(|sign| self.symbols.contains(sign)) {
            signs = vec![OTHER];
        }
        signs.resize(self.max_length, END);
        signs
    }
}

/// 32 bits of a prefix, ends included, so that its length is part of it.
fn fingerprint(prefix: &[char]) -> u32 {
    let mut hashed = Sha256::new_with_prefix(b"ldpbeam prefix 1\0");
    hashed.update(prefix.iter().collect::<String>());
    crate::definition::first_word(&hashed.finalize().into()) as u32
}
