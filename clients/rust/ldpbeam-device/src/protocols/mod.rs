//! How values become a payload: the device side of every encoding (docs/wire.md, "Encodings").

mod hash;
mod part;
mod rounds;

use crate::definition::Node;
use crate::error::{DeviceError, Result};
use crate::randomness::{FULL, Origin, Source, WHOLE, Words};

pub use part::Part;

/// A device keeps it for life: what it drew once, and the permanent answer of each input so far. Integers are
/// little-endian and without zeros at their end, as the state holds them. It has no Debug: together with the reports
/// answers give the values away.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Memo {
    pub seed: Option<Vec<u8>>,
    /// In the order in which they were drawn.
    pub answers: Vec<(u64, Vec<u8>)>,
    /// Of the attributes that the device reports.
    pub parts: Vec<Memo>,
}

impl Memo {
    fn with_seed(seed: u128) -> Self {
        Self { seed: Some(trimmed(seed.to_le_bytes().to_vec())), ..Self::default() }
    }

    /// What was drawn once, an integer up to `most`.
    fn integer(&self, most: u128) -> Result<u128> {
        let seed = self.seed.as_deref().and_then(integer_of).filter(|seed| *seed <= most);
        seed.ok_or_else(damaged)
    }

    /// The permanent answer of an input: the one in the memo, or else `drawn`; and the memo after it, if it is new.
    fn answer(&self, input: u64, drawn: Vec<u8>) -> (Vec<u8>, Option<Self>) {
        if let Some((_, answer)) = self.answers.iter().find(|(known, _)| *known == input) {
            return (answer.clone(), None);
        }
        let drawn = trimmed(drawn);
        let mut after = self.clone();
        after.answers.push((input, drawn.clone()));
        (drawn, Some(after))
    }

    fn without_answers(&self) -> Self {
        let parts = self.parts.iter().map(Self::without_answers).collect();
        Self { seed: self.seed.clone(), answers: Vec::new(), parts }
    }

    /// The memo with another one for a part.
    fn with_part(&self, i: usize, part: Self) -> Self {
        let mut after = self.clone();
        after.parts[i] = part;
        after
    }
}

fn trimmed(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.truncate(bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1));
    bytes
}

fn integer_of(bytes: &[u8]) -> Option<u128> {
    let mut padded = [0; 16];
    padded.get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(u128::from_le_bytes(padded))
}

fn damaged() -> DeviceError {
    DeviceError::state_damaged(
        "the device's memo is not one of the collection's protocol",
        "Restore the folder from a copy.",
    )
}

/// `bits` in whole bytes.
fn bytes_for(bits: u64) -> usize {
    bits.div_ceil(8) as usize
}

/// Digits of a number in base 2.
fn bit_length(number: u64) -> u64 {
    u64::from(u64::BITS - number.leading_zeros())
}

/// A protocol, of one domain or of several attributes; its integers fit together.
#[derive(Clone, Debug)]
pub enum Protocol {
    One(Part),
    /// Each device reports one attribute, or one prefix length, drawn once by weights.
    Sample {
        index_size: usize,
        payload_size: usize,
        weights: Vec<u64>,
        parts: Vec<Part>,
    },
    /// Every report speaks about every attribute.
    Split {
        parts: Vec<Part>,
    },
    /// One bit about each of several counters.
    Together {
        sum_limit: u64,
        parts: Vec<Part>,
    },
}

impl Protocol {
    pub(crate) fn parse(node: &Node, attributes: usize, most: u64) -> Result<Self> {
        if attributes == 0 {
            return Part::parse(node, most).map(Self::One);
        }
        let parts: Vec<Part> = node.list("parts")?.iter().map(|one| Part::parse(one, most)).collect::<Result<_>>()?;
        if parts.len() != attributes {
            return Err(node.wrong("parts", "not one per attribute"));
        }
        let sizes = parts.iter().map(|part| part.payload_size);
        let (protocol, size) = match node.text("encoding")? {
            "sample" => return Self::sampled(node, vec![1; attributes], parts),
            "split" => (Self::Split { parts: parts.clone() }, sizes.sum()),
            "together" => {
                let sum_limit = node.integer("sum_limit", 1, u64::MAX)?;
                (Self::Together { sum_limit, parts }, bytes_for(attributes as u64))
            }
            _ => return Err(node.wrong("encoding", "not known to this client")),
        };
        part::require_size(node, size)?;
        Ok(protocol)
    }

    /// What one length is to strings, one attribute is to `sample`.
    pub(crate) fn parse_prefixes(node: &Node, lengths: usize, most: u64) -> Result<Self> {
        if node.text("encoding")? != "prefixes" {
            return Err(node.wrong("encoding", "not that of strings"));
        }
        let weights = node.integers("weights", Some(lengths), 1, 1 << 32)?;
        let level = Part::parse(&node.node("level")?, most)?;
        Self::sampled(node, weights, vec![level; lengths])
    }

    fn sampled(node: &Node, weights: Vec<u64>, parts: Vec<Part>) -> Result<Self> {
        let index_size = node.integer("index_size", if parts.len() > 256 { 2 } else { 1 }, 2)? as usize;
        let longest = parts.iter().map(|part| part.payload_size).max().unwrap_or_default();
        let payload_size = part::require_size(node, index_size + longest)?;
        Ok(Self::Sample { index_size, payload_size, weights, parts })
    }

    /// One for each attribute or prefix length, or the only one.
    pub fn parts(&self) -> &[Part] {
        match self {
            Self::One(part) => std::slice::from_ref(part),
            Self::Sample { parts, .. } | Self::Split { parts } | Self::Together { parts, .. } => parts,
        }
    }

    fn root<'a>(&self, origin: &'a mut dyn Origin) -> Source<'a> {
        Source::new(origin, if matches!(self, Self::One(_)) { 0 } else { WHOLE })
    }

    /// Whether values are inside their domains, one for each.
    pub fn accepts(&self, values: &[u32]) -> bool {
        let parts = self.parts();
        values.len() == parts.len()
            && values.iter().zip(parts).all(|(&value, part)| u64::from(value) < part.domain_size)
    }

    /// What a new device draws for life.
    pub fn new_memo(&self, origin: &mut dyn Origin) -> Result<Memo> {
        let mut source = self.root(origin);
        match self {
            Self::One(part) => part.new_memo(&mut source),
            Self::Sample { weights, parts, .. } => {
                let mut left = source.below(weights.iter().map(|&weight| u128::from(weight)).sum())?;
                let mut attribute = 0;
                while left >= weights[attribute] {
                    left -= weights[attribute];
                    attribute += 1;
                }
                let part = parts[attribute].new_memo(&mut source.part(attribute as u32))?;
                Ok(Memo { parts: vec![part], ..Memo::with_seed(attribute as u128) })
            }
            Self::Split { parts } | Self::Together { parts, .. } => {
                let memos = parts.iter().zip(0..).map(|(part, i)| part.new_memo(&mut source.part(i)));
                Ok(Memo { parts: memos.collect::<Result<_>>()?, ..Memo::default() })
            }
        }
    }

    /// The payload of one report about values that [`Self::accepts`] lets through, and the memo after it, if it is
    /// new: that one must be durable before the payload leaves the device.
    pub fn report(&self, values: &[u32], memo: &Memo, origin: &mut dyn Origin) -> Result<(Vec<u8>, Option<Memo>)> {
        let mut source = self.root(origin);
        match self {
            Self::One(part) => part.report(values[0], memo, &mut source),
            Self::Sample { index_size, payload_size, parts, .. } => {
                let attribute = memo.integer(parts.len() as u128 - 1)? as usize;
                let before = memo.parts.first().ok_or_else(damaged)?;
                let (own, after) =
                    parts[attribute].report(values[attribute], before, &mut source.part(attribute as u32))?;
                let mut payload = (attribute as u64).to_le_bytes()[..*index_size].to_vec();
                payload.extend(own);
                payload.resize(*payload_size, 0);
                Ok((payload, after.map(|after| memo.with_part(0, after))))
            }
            Self::Split { parts } => {
                let (payloads, after) = Self::each(parts, values, memo, &mut source)?;
                Ok((payloads.concat(), after))
            }
            Self::Together { parts, .. } => {
                let (payloads, after) = Self::each(parts, values, memo, &mut source)?;
                Ok((rounds::pack(payloads.len(), |i| payloads[i][0] == 1), after))
            }
        }
    }

    fn each(parts: &[Part], values: &[u32], memo: &Memo, source: &mut Source) -> Result<(Vec<Vec<u8>>, Option<Memo>)> {
        let mut after = None;
        let mut payloads = Vec::with_capacity(parts.len());
        for (i, (part, &value)) in parts.iter().zip(values).enumerate() {
            let before = memo.parts.get(i).ok_or_else(damaged)?;
            let (payload, new) = part.report(value, before, &mut source.part(i as u32))?;
            payloads.push(payload);
            after = new.map(|new| after.as_ref().unwrap_or(memo).with_part(i, new)).or(after);
        }
        Ok((payloads, after))
    }

    /// The payload of a report about uniformly drawn values, with that part of the memo that no value entered.
    pub fn noise(&self, memo: &Memo, origin: &mut dyn Origin) -> Result<Vec<u8>> {
        let parts = self.parts();
        let size = |part: &Part| match self {
            Self::Together { sum_limit, .. } => sum_limit / parts.len() as u64 + 1,
            _ => part.domain_size,
        };
        let one = matches!(self, Self::One(_));
        let mut values = Vec::with_capacity(parts.len());
        for (part, i) in parts.iter().zip(0..) {
            let mut source = Source::new(&mut *origin, if one { 0 } else { i });
            values.push(source.below(u128::from(size(part)).min(FULL))? as u32);
        }
        Ok(self.report(&values, &memo.without_answers(), origin)?.0)
    }
}
