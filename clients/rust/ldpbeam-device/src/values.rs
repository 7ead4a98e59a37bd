//! What a person gives as a device's value, and the index that it stands for (docs/wire.md, "Values").

use crate::definition::{Definition, Domain};
use crate::error::{DeviceError, Result};
use crate::number::Decimal;
use crate::protocols::Protocol;

/// What a person would write: of a `range` the number, which goes into its bucket and is clamped to the ends; of a
/// `size` the value itself; of `labels` the label; of `strings` the text. A number may be text.
#[derive(Clone, PartialEq)]
pub enum Value {
    Text(String),
    Integer(i64),
    Number(f64),
    /// A value by its place in the domain, counted from 0.
    Index(i64),
}

/// What a device holds: one value, or one for each attribute, in their order or by their names.
#[derive(Clone, PartialEq)]
pub enum Held {
    One(Value),
    Each(Vec<Value>),
    Named(Vec<(String, Value)>),
}

impl From<Value> for Held {
    fn from(value: Value) -> Self {
        Self::One(value)
    }
}

/// One index for each attribute, or the only one; of strings the fingerprints.
pub fn indices_of(definition: &Definition, held: &Held) -> Result<Vec<u32>> {
    if let Some(strings) = &definition.strings {
        return match held {
            Held::One(Value::Text(text)) => Ok(strings.fingerprints(text)),
            _ => Err(DeviceError::value("the value is no text, where the domain has strings", "Give the text itself.")),
        };
    }
    let given = in_order(definition, held)?;
    let indices: Vec<u32> =
        given.into_iter().zip(&definition.domains).map(|(one, domain)| index_of(one, domain)).collect::<Result<_>>()?;
    if let Protocol::Together { sum_limit, .. } = &definition.protocol
        && indices.iter().map(|&one| u64::from(one)).sum::<u64>() > *sum_limit
    {
        let message = format!("the counters of a device must add up to at most {sum_limit}");
        return Err(DeviceError::value(message, ""));
    }
    Ok(indices)
}

fn in_order<'a>(definition: &Definition, held: &'a Held) -> Result<Vec<&'a Value>> {
    let Some(names) = &definition.attributes else {
        return match held {
            Held::One(value) => Ok(vec![value]),
            _ => Err(DeviceError::value("needs one value, since the collection has no attributes", "")),
        };
    };
    let found = match held {
        Held::Each(values) if values.len() == names.len() => Some(values.iter().collect()),
        Held::Named(values) if values.len() == names.len() => {
            names.iter().map(|name| values.iter().find(|(known, _)| known == name).map(|(_, value)| value)).collect()
        }
        _ => None,
    };
    found.ok_or_else(|| {
        let many = names.len();
        DeviceError::value(format!("needs one value for each of the {many} attributes, in their order or by name"), "")
    })
}

/// The rule of docs/wire.md.
pub fn index_of(value: &Value, domain: &Domain) -> Result<u32> {
    let last = domain.size - 1;
    let number = match value {
        Value::Index(index) => {
            let found = u32::try_from(*index).ok().filter(|index| *index <= last);
            return found.ok_or_else(|| DeviceError::value(format!("an index of this domain lies in 0 to {last}"), ""));
        }
        Value::Text(text) if domain.labels.is_some() => return labelled(text, domain),
        _ if domain.labels.is_some() => {
            return Err(DeviceError::value(
                "the value is a number, where the domain has labels",
                "Give the label itself, or its index.",
            ));
        }
        Value::Text(text) => Decimal::of_text(text),
        Value::Integer(number) => Decimal::of_text(&number.to_string()),
        Value::Number(number) => Decimal::of_float(*number),
    };
    let Some(number) = number else {
        return Err(DeviceError::value(
            "the value is not a finite number in decimal digits",
            "Give one such as 20 or 0.5, or an index for its place.",
        ));
    };
    match &domain.maximum {
        None => number.integer(last).ok_or_else(|| {
            DeviceError::value(format!("the value is not one of the whole numbers 0 to {last}"), "Give one of them.")
        }),
        Some(_) if number.is_negative() => Ok(0),
        Some(maximum) if maximum.is_last => Ok(number.nearest(last)),
        Some(maximum) => Ok(number.bucket(domain.size, &maximum.end, last)),
    }
}

fn labelled(text: &str, domain: &Domain) -> Result<u32> {
    let labels = domain.labels.iter().flatten().zip(0..);
    let found = labels.fold(domain.other, |found, (label, i)| if label == text { Some(i) } else { found });
    found.ok_or_else(|| {
        let remedy = "Add the label, or other: LABEL to the collection's domain.";
        DeviceError::value("the value is none of the domain's", remedy)
    })
}
