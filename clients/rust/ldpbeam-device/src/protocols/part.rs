//! The protocols of one domain, by how they make payloads.

use std::collections::BTreeMap;

use super::hash::{Family, draw_affine, upper_half};
use super::rounds::{BitRound, LinearRound, NoiseRound, SymbolRound, WindowRound, bit_of, pack};
use super::{Memo, bit_length, bytes_for, damaged, integer_of, trimmed};
use crate::definition::Node;
use crate::error::Result;
use crate::randomness::{FULL, Source, Words};

/// A protocol for one domain.
#[derive(Clone, Debug)]
pub struct Part {
    pub domain_size: u64,
    pub payload_size: usize,
    encoding: Encoding,
}

#[derive(Clone, Debug)]
enum Encoding {
    Direct { permanent: Option<SymbolRound>, instant: SymbolRound },
    Unary { permanent: Option<BitRound>, instant: BitRound },
    LocalHash { family: Family, permanent: Option<SymbolRound>, instant: SymbolRound },
    BitFlip { d: usize, entry_size: Option<usize>, is_permanent: bool, round: BitRound },
    Subset { w: u64, keep: u64 },
    PublicString { threshold: u64, instant: BitRound },
    OneBitMean { instant: LinearRound },
    OneBitRrpm { segment: u64, permanent: LinearRound, instant: Option<BitRound> },
    LaplaceMean { margin: i128, instant: NoiseRound },
    PiecewiseMean { instant: WindowRound },
}

type Reported = (Vec<u8>, Option<Memo>);

/// The stated size of payloads, which must be the encoding's.
pub(super) fn require_size(node: &Node, size: usize) -> Result<usize> {
    node.integer("domain_size", 2, (1 << 53) - 1)?;
    node.integer("payload_size", size as u64, size as u64)?;
    Ok(size)
}

fn little_endian(number: u64, size: usize) -> Vec<u8> {
    number.to_le_bytes()[..size].to_vec()
}

impl Part {
    pub(crate) fn parse(node: &Node, most: u64) -> Result<Self> {
        let domain_size = node.integer("domain_size", 2, most)?;
        let instant = || node.node("instant");
        let symbols = |size: u64| -> Result<_> {
            let permanent = node.optional("permanent")?.map(|round| SymbolRound::parse(&round, size)).transpose()?;
            Ok((permanent, SymbolRound::parse(&instant()?, size)?))
        };
        let bits = |key: &str| node.optional(key)?.map(|round| BitRound::parse(&round)).transpose();
        let (encoding, size) = match node.text("encoding")? {
            "direct" => {
                let (permanent, instant) = symbols(domain_size)?;
                (Encoding::Direct { permanent, instant }, bytes_for(bit_length(domain_size - 1)))
            }
            "unary" => {
                let instant = BitRound::parse(&instant()?)?;
                (Encoding::Unary { permanent: bits("permanent")?, instant }, bytes_for(domain_size))
            }
            "local_hash" => {
                let family = Family::parse(&node.node("hash")?, domain_size)?;
                let (permanent, instant) = symbols(family.g())?;
                let size = family.size();
                (Encoding::LocalHash { family, permanent, instant }, size)
            }
            "bit_flip" => {
                let d = node.integer("d", 1, domain_size)?;
                let width = bytes_for(bit_length(2 * domain_size - 1));
                let samples = d != domain_size;
                if samples {
                    node.integer("entry_size", width as u64, width as u64)?;
                }
                let (permanent, instant) = (bits("permanent")?, bits("instant")?);
                let ((Some(round), None) | (None, Some(round))) = (permanent, instant) else {
                    return Err(node.wrong("instant", "not one round"));
                };
                let entry_size = samples.then_some(width);
                let size = entry_size.map_or(bytes_for(d), |width| d as usize * width);
                (Encoding::BitFlip { d: d as usize, entry_size, is_permanent: permanent.is_some(), round }, size)
            }
            "subset" => {
                let w = node.integer("w", 1, domain_size - 1)?;
                let keep = instant()?.weight("keep", 1, FULL - 1)? as u64;
                (Encoding::Subset { w, keep }, bytes_for(domain_size))
            }
            "public_string" => {
                let threshold = node.integer("threshold", 1, 1 << 32)?;
                (Encoding::PublicString { threshold, instant: BitRound::parse(&instant()?)? }, 17)
            }
            "one_bit_mean" => (Encoding::OneBitMean { instant: LinearRound::parse(&instant()?, domain_size)? }, 1),
            "one_bit_rrpm" => {
                let segment = node.integer("segment", 1, domain_size - 1)?;
                if (domain_size - 1) % segment != 0 {
                    return Err(node.wrong("segment", "not a divisor of the largest value"));
                }
                let permanent = LinearRound::parse(&node.node("permanent")?, domain_size)?;
                (Encoding::OneBitRrpm { segment, permanent, instant: bits("instant")? }, 1)
            }
            "laplace_mean" => {
                let margin = node.weight("margin", 0, 1 << 50)?.cast_signed();
                (Encoding::LaplaceMean { margin, instant: NoiseRound::parse(&instant()?)? }, 8)
            }
            "piecewise_mean" => {
                let instant = WindowRound::parse(&instant()?, domain_size)?;
                let last = domain_size + instant.width - 2;
                (Encoding::PiecewiseMean { instant }, bytes_for(bit_length(last)))
            }
            _ => return Err(node.wrong("encoding", "not known to this client")),
        };
        Ok(Self { domain_size, payload_size: require_size(node, size)?, encoding })
    }

    /// What a new device draws for life.
    pub(super) fn new_memo(&self, source: &mut Source) -> Result<Memo> {
        Ok(match &self.encoding {
            Encoding::LocalHash { family, permanent: Some(_), .. } => Memo::with_seed(family.draw(source)?),
            Encoding::BitFlip { d, entry_size: Some(_), is_permanent: true, .. } => {
                let buckets = sampled(*d, self.domain_size, source)?;
                let seed = buckets.into_iter().flat_map(u32::to_le_bytes).collect();
                Memo { seed: Some(trimmed(seed)), ..Memo::default() }
            }
            Encoding::OneBitRrpm { segment, .. } => Memo::with_seed(source.below(u128::from(*segment))?.into()),
            _ => Memo::default(),
        })
    }

    /// The payload of one report about a value of the domain, and the memo after it, if it is new.
    pub(super) fn report(&self, value: u32, memo: &Memo, source: &mut Source) -> Result<Reported> {
        let wide = u64::from(value);
        let payload = match &self.encoding {
            Encoding::Direct { permanent, instant } => {
                let (answer, after) = symbol(permanent.as_ref(), wide, memo, source)?;
                return Ok((little_endian(instant.draw(answer, source)?, self.payload_size), after));
            }
            Encoding::Unary { permanent, instant } => {
                let (count, place) = (self.domain_size as usize, value as usize);
                let Some(permanent) = permanent else {
                    return Ok((instant.draw_bits(count, |i| i == place, source)?, None));
                };
                let drawn = permanent.draw_bits(count, |i| i == place, &mut *source.permanent(wide))?;
                let (answer, after) = memo.answer(wide, drawn);
                return Ok((instant.draw_bits(count, |i| bit_of(&answer, i), source)?, after));
            }
            Encoding::LocalHash { family, permanent, instant } => {
                let seed = if permanent.is_some() { memo.integer(family.last())? } else { family.draw(source)? };
                let (answer, after) = symbol(permanent.as_ref(), family.hash(seed, value), memo, source)?;
                return Ok((family.encode(seed, instant.draw(answer, source)?), after));
            }
            Encoding::BitFlip { d, entry_size, is_permanent, round } => {
                return self.bit_flip((*d, *entry_size, *is_permanent), round, value, memo, source);
            }
            Encoding::OneBitRrpm { segment, permanent, instant } => {
                let alpha = memo.integer(u128::from(segment - 1))? as u64;
                let point = wide / segment + u64::from(wide % segment + alpha >= *segment);
                let drawn = permanent.draw(point * segment, &mut *source.permanent(point))?;
                let (answer, after) = memo.answer(point, vec![u8::from(drawn)]);
                let mut bit = bit_of(&answer, 0);
                if let Some(instant) = instant {
                    bit = instant.draw(bit, source)?;
                }
                return Ok((vec![u8::from(bit)], after));
            }
            Encoding::Subset { w, keep } => self.subset(*w, *keep, value, source)?,
            Encoding::PublicString { threshold, instant } => {
                let seed = draw_affine(source)?;
                let bit = instant.draw(upper_half(seed, value) < *threshold, source)?;
                [seed.to_le_bytes().as_slice(), &[u8::from(bit)]].concat()
            }
            Encoding::OneBitMean { instant } => vec![u8::from(instant.draw(wide, source)?)],
            Encoding::LaplaceMean { margin, instant } => {
                let most = i128::from(self.domain_size - 1) + margin;
                let noisy = (i128::from(value) + instant.draw(source)?).clamp(-margin, most);
                (noisy as i64).to_le_bytes().to_vec()
            }
            Encoding::PiecewiseMean { instant } => little_endian(instant.draw(wide, source)?, self.payload_size),
        };
        Ok((payload, None))
    }

    fn bit_flip(
        &self,
        (d, entry_size, is_permanent): (usize, Option<usize>, bool),
        round: &BitRound,
        value: u32,
        memo: &Memo,
        source: &mut Source,
    ) -> Result<Reported> {
        let buckets = match entry_size {
            None => (0..self.domain_size as u32).collect(),
            Some(_) if is_permanent => {
                let mut seed = memo.seed.clone().ok_or_else(damaged)?;
                seed.resize(4 * d, 0);
                seed.chunks_exact(4).map(|four| u32::from_le_bytes(four.try_into().expect("four bytes"))).collect()
            }
            Some(_) => sampled(d, self.domain_size, source)?,
        };
        // All values that were not sampled share one input, d.
        let place = buckets.iter().enumerate().fold(d, |found, (i, one)| if *one == value { i } else { found });
        let (bits, after) = if is_permanent {
            let drawn = round.draw_bits(d, |i| i == place, &mut *source.permanent(place as u64))?;
            memo.answer(place as u64, drawn)
        } else {
            (round.draw_bits(d, |i| i == place, source)?, None)
        };
        let payload = match entry_size {
            None => pack(d, |i| bit_of(&bits, i)),
            Some(size) => (0..)
                .zip(&buckets)
                .flat_map(|(i, bucket)| little_endian(2 * u64::from(*bucket) + u64::from(bit_of(&bits, i)), size))
                .collect(),
        };
        Ok((payload, after))
    }

    /// Others by Floyd's way to draw without repeats, in the numbers of the values; then perhaps the value.
    fn subset(&self, w: u64, keep: u64, value: u32, source: &mut Source) -> Result<Vec<u8>> {
        let first = self.domain_size - w;
        let places = (0..w).map(|i| source.below(u128::from(first + i))).collect::<Result<Vec<_>>>()?;
        let own = u64::from(source.next()? < keep);
        let mut payload = vec![0; self.payload_size];
        let mut put = |i: u64, bit: bool| -> bool {
            let (byte, mask) = (&mut payload[i as usize / 8], 1 << (i % 8));
            let before = *byte & mask != 0;
            *byte |= u8::from(bit) * mask;
            before
        };
        let among = |other: u64| other + u64::from(other >= u64::from(value));
        for (i, place) in (0..).zip(places) {
            let is_taken = put(among(place), false);
            let chosen = if is_taken { first - 1 + i } else { place };
            put(among(chosen), i >= own);
        }
        put(u64::from(value), own == 1);
        Ok(payload)
    }
}

/// The memoised round over symbols, where there is one.
fn symbol(round: Option<&SymbolRound>, input: u64, memo: &Memo, source: &mut Source) -> Result<(u64, Option<Memo>)> {
    let Some(round) = round else {
        return Ok((input, None));
    };
    let drawn = round.draw(input, &mut *source.permanent(input))?;
    let (answer, after) = memo.answer(input, drawn.to_le_bytes().to_vec());
    Ok((integer_of(&answer).ok_or_else(damaged)? as u64, after))
}

/// d of the buckets, ascending: d steps of a shuffle of a deck that is kept as its differences from 0 .. k − 1.
fn sampled(d: usize, domain_size: u64, words: &mut dyn Words) -> Result<Vec<u32>> {
    let mut moved = BTreeMap::new();
    let mut drawn = Vec::with_capacity(d);
    for i in 0..d as u64 {
        let j = i + ((u128::from(words.next()?) * u128::from(domain_size - i)) >> 64) as u64;
        drawn.push(moved.get(&j).map_or(j, |&one| one) as u32);
        moved.insert(j, moved.get(&i).copied().unwrap_or(i));
    }
    drawn.sort_unstable();
    Ok(drawn)
}
