//! Answers `ldpbeam audit --client "audit DEFINITION FOLDER derived|stored [FAULT]"`, line by line (docs/audit.md).
//!
//! Each device has a folder of its own in FOLDER. A FAULT is one that the audit must find; none is in the library.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, Write, stdin, stdout};
use std::path::{Path, PathBuf};

use ldpbeam_device::{Definition, Device, DeviceError, Held, MemoKind, Options, Slice, Value};
use serde_json::{Value as Json, json};

/// A definition whose second round hardly ever changes an answer.
fn without_second_round(text: &str) -> String {
    let mut definition: Json = serde_json::from_str(text).expect("a definition");
    let round = &mut definition["protocol"]["instant"];
    if let Some(size) = round["size"].as_str().map(str::to_owned) {
        *round = json!({ "size": size, "keep": (u64::MAX - (1 << 32)).to_string(), "each": "1" });
    } else {
        *round = json!({ "one": u64::MAX.to_string(), "zero": "1" });
    }
    definition.to_string()
}

struct Client {
    definition: Definition,
    folder: PathBuf,
    memo: MemoKind,
    fault: String,
    devices: HashMap<String, Device>,
}

impl Client {
    fn open(&self, name: &str) -> Result<Device, DeviceError> {
        #[cfg(feature = "test-randomness")]
        if self.fault == "weak-generator" {
            let seed = name.parse::<u64>().expect("a number") % 16;
            ldpbeam_device::randomness::script_system(&seed.to_le_bytes());
        }
        let options = Options { outbox: 0, max_jump: f64::INFINITY, memo: self.memo, ..Options::default() };
        Device::open(self.definition.clone(), self.folder.join(name), options)
    }

    fn answer(&mut self, line: &str) -> Result<String, DeviceError> {
        let mut words = line.splitn(4, ' ');
        let mut next = || words.next().unwrap_or_default();
        let (first, second, third, slice) = (next(), next(), next(), next());
        if first == "reopen" {
            self.devices.insert(second.to_owned(), self.open(second)?);
            return Ok("ok".to_owned());
        }
        if self.fault == "memo-lost" {
            self.devices.remove(first);
            let _ = fs::remove_dir_all(self.folder.join(first));
        }
        if !self.devices.contains_key(first) {
            self.devices.insert(first.to_owned(), self.open(first)?);
        }
        let (held, indices) = self.held(second);
        let slice: Option<Slice> = (!slice.is_empty()).then(|| serde_json::from_str(slice).expect("a slice"));
        let epoch = third.parse().expect("an epoch");
        let report = self.devices[first].report(&held, Some(epoch), slice.as_ref())?;
        let Some(mut report) = report else { return Ok("error silent".to_owned()) };
        if self.fault == "id-from-the-value" {
            // Behind the digest and the epoch, whose last byte alone has no highest bit; epoch 0 is absent.
            let more = report[10..].iter().take_while(|&&byte| byte >= 128).count();
            let id = if report[9] == 0x10 { 12 + more } else { 10 };
            report[id] = report[id] & 0xfc | indices[0] as u8 & 3;
        }
        Ok(report.iter().fold(String::new(), |mut digits, byte| {
            let _ = write!(digits, "{byte:02x}");
            digits
        }))
    }

    fn held(&self, given: &str) -> (Held, Vec<i64>) {
        if let Some(hex) = given.strip_prefix("text:") {
            let bytes = (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).expect("hexadecimal"));
            let text = String::from_utf8(bytes.collect()).expect("UTF-8");
            return (Held::One(Value::Text(text)), vec![0]);
        }
        let shift = i64::from(self.fault == "off-by-one");
        let index = |(one, domain): (&str, i64)| {
            let given: i64 = one.trim_start_matches("index:").parse().expect("an index");
            (given + shift) % domain
        };
        let sizes = self.definition.protocol.parts().iter().map(|part| part.domain_size.cast_signed());
        let indices: Vec<i64> = given.split(',').zip(sizes).map(index).collect();
        let mut values = indices.iter().copied().map(Value::Index);
        let held = match self.definition.attributes {
            None => Held::One(values.next().expect("a value")),
            Some(_) => Held::Each(values.collect()),
        };
        (held, indices)
    }
}

fn main() {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let [definition, folder, memo, rest @ ..] = given.as_slice() else {
        panic!("needs DEFINITION FOLDER derived|stored [FAULT]");
    };
    let fault = rest.first().cloned().unwrap_or_default();
    let mut text = fs::read_to_string(definition).expect("a definition");
    if fault == "second-round-skipped" {
        text = without_second_round(&text);
    }
    let memo = if memo == "stored" { MemoKind::Stored } else { MemoKind::Derived };
    let definition = Definition::parse(&text).expect("a definition");
    let folder = Path::new(folder).to_owned();
    let mut client = Client { definition, folder, memo, fault, devices: HashMap::new() };
    for line in stdin().lock().lines() {
        let answer = client.answer(&line.expect("a line")).unwrap_or_else(|error| format!("error {}", error.code()));
        let mut output = stdout().lock();
        writeln!(output, "{answer}").and_then(|()| output.flush()).expect("somebody who listens");
    }
}
