//! What `ldpbeam definition` prints of a collection, checked before a device uses it (docs/wire.md).

use serde_json::{Map, Value};

use crate::error::{DeviceError, Result};
use crate::number::Decimal;
use crate::participation::{self, Participation};
use crate::protocols::{Part, Protocol};
use crate::strings::Strings;

const FORMAT: &str = "ldpbeam device definition 1";

/// Of collections in which a device reports only a few times in its life.
const WITH_PARTICIPATION: &str = "ldpbeam device definition 2";

/// Values of a domain, and functions of a family, at most.
const MOST: u64 = 1 << 24;

/// Values that a fingerprint can have.
const FINGERPRINTS: u64 = 1 << 32;

/// Integers up to this one are exact in every reader of JSON.
const EXACT: u64 = (1 << 53) - 1;

/// A collection as its devices need it.
#[derive(Clone, Debug)]
pub struct Definition {
    pub name: String,
    pub version: u32,
    /// SHA-256 of the canonical collection.
    pub full_digest: [u8; 32],
    /// Its first 8 bytes, little-endian: what every report carries where there are no slices.
    pub digest: u64,
    pub epochs: Epochs,
    pub participation: Option<Participation>,
    pub slices: Vec<Dimension>,
    /// One, or one for each attribute; none for strings.
    pub domains: Vec<Domain>,
    pub strings: Option<Strings>,
    /// Names of the attributes; None for a collection of one domain.
    pub attributes: Option<Vec<String>>,
    pub protocol: Protocol,
    pub spending: Prices,
}

/// Epochs 0 .. count − 1, of `length` seconds each, from `origin` on (since 1970).
#[derive(Clone, Copy, Debug)]
pub struct Epochs {
    pub length: i64,
    pub origin: i64,
    pub count: i64,
}

/// One thing that devices say in clear, and the labels that it can have.
#[derive(Clone, Debug)]
pub struct Dimension {
    pub name: String,
    pub labels: Vec<String>,
}

#[derive(Clone, Debug)]
pub struct Domain {
    pub size: u32,
    /// One per value, where the collection lists them.
    pub labels: Option<Vec<String>>,
    /// The value that a label that is not listed counts as.
    pub other: Option<u32>,
    pub maximum: Option<Maximum>,
}

/// The end of a range from 0.
#[derive(Clone, Debug)]
pub struct Maximum {
    pub end: Decimal,
    /// Whether it is the last value, so that the values are the whole numbers of the range.
    pub is_last: bool,
}

/// What reports cost, by the collection's guarantee.
#[derive(Clone, Debug)]
pub struct Prices {
    /// A report, where nothing is memoised.
    pub report: f64,
    /// For each attribute (or prefix length), or the only domain; none where nothing is memoised.
    pub parts: Vec<Price>,
}

/// What memoised inputs cost: `epsilon` each, for at most `inputs` different ones.
#[derive(Clone, Copy, Debug)]
pub struct Price {
    pub epsilon: f64,
    pub inputs: u64,
}

/// The first 8 bytes as a little-endian integer.
pub(crate) fn first_word(digest: &[u8; 32]) -> u64 {
    u64::from_le_bytes(digest[..8].try_into().expect("eight bytes"))
}

impl Definition {
    /// The definition in JSON; damage is refused, never guessed.
    pub fn parse(json: &str) -> Result<Self> {
        let value: Value = serde_json::from_str(json).map_err(|_| complaint("definition", "not JSON"))?;
        Self::of(&Node::new(&value, "definition".to_owned())?)
    }

    fn of(all: &Node) -> Result<Self> {
        let participation = all.optional("participation")?.map(|node| parse_participation(&node)).transpose()?;
        let format = if participation.is_some() { WITH_PARTICIPATION } else { FORMAT };
        if all.text("format")? != format {
            return Err(all.wrong("format", format!("not {format}")));
        }
        let epochs = all.node("epochs")?;
        let domain = all.optional("domain")?;
        let attributes = all.list("attributes")?;
        if domain.is_none() == attributes.is_empty() {
            return Err(all.wrong("domain", "neither one domain nor attributes"));
        }
        let strings = match &domain {
            Some(node) if node.has("strings") => Some(parse_strings(&node.node("strings")?)?),
            _ => None,
        };
        let domains = match &domain {
            Some(_) if strings.is_some() => Vec::new(),
            Some(node) => vec![parse_domain(node)?],
            None => attributes.iter().map(|one| parse_domain(&one.node("domain")?)).collect::<Result<_>>()?,
        };
        let names = attributes.iter().map(|one| one.text("name").map(str::to_owned)).collect::<Result<_>>()?;
        let protocol = all.node("protocol")?;
        let protocol = match &strings {
            Some(strings) => Protocol::parse_prefixes(&protocol, strings.lengths.len(), FINGERPRINTS)?,
            None => Protocol::parse(&protocol, attributes.len(), MOST)?,
        };
        let full_digest = all.bytes("full_digest")?;
        let digest: [u8; 8] = all.bytes("digest")?;
        if full_digest[..8] != digest {
            return Err(all.wrong("digest", "not the beginning of full_digest"));
        }
        let has_other_size = |(i, part): (usize, &Part)| {
            part.domain_size != domains.get(i).map_or(FINGERPRINTS, |domain| u64::from(domain.size))
        };
        if protocol.parts().iter().enumerate().any(has_other_size) {
            return Err(all.wrong("protocol", "of another size than its domain"));
        }
        Ok(Self {
            name: all.text("name")?.to_owned(),
            version: all.integer("version", 1, u64::from(u32::MAX))? as u32,
            full_digest,
            digest: u64::from_le_bytes(digest),
            epochs: Epochs {
                length: epochs.integer("length_seconds", 1, EXACT)?.cast_signed(),
                origin: epochs.integer("origin_seconds", 0, EXACT)?.cast_signed(),
                count: epochs.integer("count", 1, EXACT)?.cast_signed(),
            },
            participation,
            slices: parse_slices(all)?,
            domains,
            strings,
            attributes: if attributes.is_empty() { None } else { Some(names) },
            spending: parse_prices(&all.node("spending")?, protocol.parts().len())?,
            protocol,
        })
    }
}

fn parse_participation(node: &Node) -> Result<Participation> {
    let of = node.integer("of", 1, participation::LONGEST)?;
    Ok(Participation { reports: node.integer("reports", 1, of)? as u32, of: of as u32 })
}

fn parse_slices(all: &Node) -> Result<Vec<Dimension>> {
    if !all.has("slices") {
        return Ok(Vec::new());
    }
    let parse = |node: &Node| {
        let labels = node.texts("labels")?.unwrap_or_default();
        if labels.is_empty() || !are_different(&labels) {
            return Err(node.wrong("labels", "not different labels"));
        }
        Ok(Dimension { name: node.text("name")?.to_owned(), labels })
    };
    let slices: Vec<Dimension> = all.list("slices")?.iter().map(parse).collect::<Result<_>>()?;
    if !are_different(slices.iter().map(|one| &one.name)) {
        return Err(all.wrong("slices", "without a name of its own for each dimension"));
    }
    Ok(slices)
}

fn parse_domain(node: &Node) -> Result<Domain> {
    let size = node.integer("size", 2, MOST)? as u32;
    let labels = node.texts("labels")?;
    if labels.as_ref().is_some_and(|some| some.len() != size as usize || !are_different(some)) {
        return Err(node.wrong("labels", "not one different label per value"));
    }
    let has_other = node.has("other");
    let other = has_other.then(|| node.integer("other", 0, u64::from(size) - 1)).transpose()?;
    if has_other && labels.is_none() {
        return Err(node.wrong("other", "for labels only"));
    }
    let has_maximum = node.has("maximum");
    if has_maximum && labels.is_some() {
        return Err(node.wrong("maximum", "for ranges only"));
    }
    let maximum = has_maximum.then(|| node.positive("maximum")).transpose()?.and_then(|end| {
        let is_last = end + 1.0 == f64::from(size);
        Some(Maximum { end: Decimal::of_float(end)?, is_last })
    });
    Ok(Domain { size, labels, other: other.map(|one| one as u32), maximum })
}

fn parse_strings(node: &Node) -> Result<Strings> {
    let max_length = node.integer("max_length", 1, 64)?;
    let listed: Vec<char> = node.text("symbols")?.chars().collect();
    let lengths = node.integers("lengths", None, 1, max_length)?;
    if !are_different(&listed) {
        return Err(node.wrong("symbols", "not different symbols"));
    }
    if !lengths.is_sorted_by(|a, b| a < b) || lengths.last() != Some(&max_length) {
        return Err(node.wrong("lengths", "not ascending up to max_length"));
    }
    Ok(Strings {
        max_length: max_length as usize,
        symbols: listed.into_iter().collect(),
        fold: node.flag("fold")?,
        drop: node.flag("drop")?,
        lengths: lengths.into_iter().map(|length| length as usize).collect(),
    })
}

fn parse_prices(node: &Node, parts: usize) -> Result<Prices> {
    let parse = |part: &Node| {
        Ok(Price { epsilon: part.positive("epsilon")?, inputs: part.integer("inputs", 0, FINGERPRINTS)? })
    };
    let memoised: Vec<Price> = node.list("parts")?.iter().map(parse).collect::<Result<_>>()?;
    if !memoised.is_empty() && memoised.len() != parts {
        return Err(node.wrong("parts", "neither empty nor one for each part"));
    }
    Ok(Prices { report: node.positive("report")?, parts: memoised })
}

fn are_different<T: Ord>(some: impl IntoIterator<Item = T>) -> bool {
    let mut seen = std::collections::BTreeSet::new();
    some.into_iter().all(|one| seen.insert(one))
}

/// An object of the JSON, and how to complain about it.
pub(crate) struct Node<'a> {
    fields: &'a Map<String, Value>,
    place: String,
}

impl<'a> Node<'a> {
    fn new(value: &'a Value, place: String) -> Result<Self> {
        match value {
            Value::Object(fields) => Ok(Self { fields, place }),
            _ => Err(complaint(&place, "not an object")),
        }
    }

    pub fn wrong(&self, key: &str, why: impl AsRef<str>) -> DeviceError {
        complaint(&format!("{}.{key}", self.place), why.as_ref())
    }

    fn field(&self, key: &str) -> &'a Value {
        self.fields.get(key).unwrap_or(&Value::Null)
    }

    pub fn has(&self, key: &str) -> bool {
        !self.field(key).is_null()
    }

    pub fn node(&self, key: &str) -> Result<Self> {
        Self::new(self.field(key), format!("{}.{key}", self.place))
    }

    pub fn optional(&self, key: &str) -> Result<Option<Self>> {
        self.has(key).then(|| self.node(key)).transpose()
    }

    fn array(&self, key: &str) -> Result<&'a Vec<Value>> {
        self.field(key).as_array().ok_or_else(|| self.wrong(key, "not a list"))
    }

    pub fn list(&self, key: &str) -> Result<Vec<Self>> {
        let place = |i| format!("{}.{key}[{i}]", self.place);
        self.array(key)?.iter().enumerate().map(|(i, one)| Self::new(one, place(i))).collect()
    }

    pub fn text(&self, key: &str) -> Result<&'a str> {
        self.field(key).as_str().ok_or_else(|| self.wrong(key, "not a text"))
    }

    fn texts(&self, key: &str) -> Result<Option<Vec<String>>> {
        if !self.has(key) {
            return Ok(None);
        }
        let text = |one: &Value| one.as_str().map(str::to_owned).ok_or_else(|| self.wrong(key, "not texts"));
        self.array(key)?.iter().map(text).collect::<Result<_>>().map(Some)
    }

    fn checked(&self, found: &Value, key: &str, least: u64, most: u64) -> Result<u64> {
        let within = found.as_u64().filter(|number| (least..=most).contains(number));
        within.ok_or_else(|| self.wrong(key, format!("not an integer in {least} .. {most}")))
    }

    pub fn integer(&self, key: &str, least: u64, most: u64) -> Result<u64> {
        self.checked(self.field(key), key, least, most)
    }

    /// `count` integers, or any number of them.
    pub fn integers(&self, key: &str, count: Option<usize>, least: u64, most: u64) -> Result<Vec<u64>> {
        let found = self.array(key)?;
        if count.is_some_and(|count| count != found.len()) {
            return Err(self.wrong(key, "not as many integers as there must be"));
        }
        found.iter().map(|one| self.checked(one, key, least, most)).collect()
    }

    fn flag(&self, key: &str) -> Result<bool> {
        self.field(key).as_bool().ok_or_else(|| self.wrong(key, "not true or false"))
    }

    fn positive(&self, key: &str) -> Result<f64> {
        let found = self.field(key).as_f64().filter(|number| number.is_finite() && *number > 0.0);
        found.ok_or_else(|| self.wrong(key, "not a positive number"))
    }

    fn weight_of(&self, found: &Value, key: &str, least: u128, most: u128) -> Result<u128> {
        let digits = found.as_str().filter(|text| text.len() <= 39 && text.bytes().all(|sign| sign.is_ascii_digit()));
        let weight: Option<u128> = digits.and_then(|text| text.parse().ok());
        weight
            .filter(|weight| (least..=most).contains(weight))
            .ok_or_else(|| self.wrong(key, "not a decimal integer, or out of range"))
    }

    /// An integer as decimal text.
    pub fn weight(&self, key: &str, least: u128, most: u128) -> Result<u128> {
        self.weight_of(self.field(key), key, least, most)
    }

    pub fn weights(&self, key: &str, most: u128) -> Result<Vec<u128>> {
        self.array(key)?.iter().map(|one| self.weight_of(one, key, 0, most)).collect()
    }

    fn bytes<const N: usize>(&self, key: &str) -> Result<[u8; N]> {
        let digits = self.text(key)?.as_bytes();
        let is_hex = digits.len() == 2 * N && digits.iter().all(|sign| matches!(sign, b'0'..=b'9' | b'a'..=b'f'));
        if !is_hex {
            return Err(self.wrong(key, format!("not {N} bytes")));
        }
        let value = |sign: u8| if sign <= b'9' { sign - b'0' } else { sign - b'a' + 10 };
        Ok(std::array::from_fn(|i| value(digits[2 * i]) << 4 | value(digits[2 * i + 1])))
    }
}

fn complaint(place: &str, why: &str) -> DeviceError {
    DeviceError::definition(format!("{place} is {why}"), "Print it anew with `ldpbeam definition`.")
}
