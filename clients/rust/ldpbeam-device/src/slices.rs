//! What a device says in clear with every report, such as its version (docs/wire.md, "Slices").

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

use crate::definition::{Definition, Dimension};
use crate::error::{DeviceError, Result};

/// A label for each dimension of the collection's `slices`.
pub type Slice = BTreeMap<String, String>;

const LABEL: &[u8] = b"ldpbeam slice 1\0";

/// The label that stands for all labels which an open dimension does not list.
const OTHER: &str = "other";

/// What reports of a slice carry as their digest; the collection's own where it has no slices.
pub fn digest_of(definition: &Definition, slice: &Slice) -> Result<u64> {
    let dimensions = &definition.slices;
    if slice.len() != dimensions.len() || !dimensions.iter().all(|one| slice.contains_key(&one.name)) {
        let names: Vec<&str> = dimensions.iter().map(|one| one.name.as_str()).collect();
        let needed = match names.as_slice() {
            [] => "no slice".to_owned(),
            some => format!("a label for each of {}, and of nothing else", some.join(", ")),
        };
        return Err(DeviceError::slice(
            format!("the collection takes {needed}"),
            "Give a slice with one label for each dimension of slices in the definition.",
        ));
    }
    if dimensions.is_empty() {
        return Ok(definition.digest);
    }
    let mut hashed = Sha256::new_with_prefix(LABEL);
    hashed.update(definition.full_digest);
    let mut ordered: Vec<&Dimension> = dimensions.iter().collect();
    ordered.sort_by(|a, b| a.name.as_bytes().cmp(b.name.as_bytes()));
    for one in ordered {
        for text in [one.name.as_str(), listed(one, &slice[&one.name])?] {
            hashed.update((text.len() as u32).to_le_bytes());
            hashed.update(text);
        }
    }
    Ok(crate::definition::first_word(&hashed.finalize().into()))
}

fn listed<'a>(dimension: &'a Dimension, label: &str) -> Result<&'a str> {
    let find = |wanted: &str| dimension.labels.iter().find(|one| *one == wanted);
    find(label).or_else(|| find(OTHER)).map(String::as_str).ok_or_else(|| {
        let name = &dimension.name;
        DeviceError::slice(
            format!("the label that the device says of {name} is none of the collection's"),
            format!("Give one of slices.{name}, or add {OTHER} to it in the collection's file."),
        )
    })
}
