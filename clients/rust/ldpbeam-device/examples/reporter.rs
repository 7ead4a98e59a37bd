//! A device that does what it is asked, for tests: requests and answers are JSON, one a line.
//!
//! A request is [call, {argument: …}]; the answer is {"ok": …}, or {"error": code, "text": …}.

use std::io::{BufRead, Write, stdin, stdout};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use ldpbeam_device::{AtCap, Definition, Device, DeviceError, Held, MemoKind, Options, Slice, Value as Given};
use serde_json::{Value, json};

/// What the clock shows, as the bits of a float.
static NOW: AtomicU64 = AtomicU64::new(0);

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(feature = "test-randomness")]
fn bytes(digits: &str) -> Vec<u8> {
    (0..digits.len() / 2).map(|i| u8::from_str_radix(&digits[2 * i..2 * i + 2], 16).expect("hexadecimal")).collect()
}

fn value_of(given: &Value) -> Given {
    match given {
        Value::String(text) => Given::Text(text.clone()),
        Value::Object(fields) => Given::Index(fields["index"].as_i64().expect("an index")),
        number => number.as_i64().map_or_else(|| Given::Number(number.as_f64().expect("a number")), Given::Integer),
    }
}

fn held_of(given: &Value) -> Held {
    match given {
        Value::Array(each) => Held::Each(each.iter().map(value_of).collect()),
        one => Held::One(value_of(one)),
    }
}

fn slice_of(given: &Value) -> Option<Slice> {
    let text = |label: &Value| label.as_str().unwrap_or_default().to_owned();
    given.as_object().map(|labels| labels.iter().map(|(name, label)| (name.clone(), text(label))).collect())
}

fn open(given: &Value) -> Result<Device, DeviceError> {
    let options = Options::default();
    let definition = Definition::parse(given["definition"].as_str().expect("a definition"))?;
    let options = Options {
        budget: given["budget"].as_f64(),
        at_cap: if given["at_cap"] == "noise" { AtCap::Noise } else { AtCap::Stop },
        memo: if given["memo"] == "stored" { MemoKind::Stored } else { MemoKind::Derived },
        outbox: given["outbox"].as_u64().map_or(options.outbox, |most| most as usize),
        spread: given["spread"].as_f64().unwrap_or(options.spread),
        sentinel: given["sentinel"].as_str().map(Into::into),
        max_jump: given["max_jump"].as_f64().unwrap_or(options.max_jump),
        clock: Arc::new(|| f64::from_bits(NOW.load(Relaxed))),
        slice: slice_of(&given["slice"]),
    };
    match given["folder"].as_str() {
        Some(folder) => Device::open(definition, folder, options),
        None => Device::ephemeral(definition, options.slice),
    }
}

fn answer(device: &mut Option<Device>, call: &str, given: &Value) -> Result<Value, DeviceError> {
    if let Some(now) = given["clock"].as_f64() {
        NOW.store(now.to_bits(), Relaxed);
    }
    #[cfg(feature = "test-randomness")]
    if let Some(key) = given["script"].as_str() {
        ldpbeam_device::randomness::script_system(&bytes(key));
    }
    if call == "open" {
        *device = None;
        *device = Some(open(given)?);
        return Ok(Value::Null);
    }
    let device = device.as_ref().expect("an open device");
    Ok(match call {
        "report" => {
            let slice = slice_of(&given["slice"]);
            let report = device.report(&held_of(&given["value"]), given["epoch"].as_i64(), slice.as_ref())?;
            json!(report.as_deref().map(hex))
        }
        "waiting" => {
            let outbox = device.outbox()?;
            let mut found = Vec::new();
            for one in outbox.waiting()? {
                let report = outbox.read(&one)?.as_deref().map(hex);
                found.push(json!([one.due, hex(&one.digest), one.epoch, report]));
            }
            json!(found)
        }
        "acknowledge" => {
            let outbox = device.outbox()?;
            let epochs = given["epochs"].as_array().expect("epochs");
            let mut waiting = outbox.waiting()?;
            waiting.retain(|one| epochs.iter().any(|epoch| epoch.as_i64() == Some(one.epoch)));
            outbox.acknowledge(&waiting)?;
            Value::Null
        }
        "dropped" => {
            let dropped = device.outbox()?.dropped()?;
            json!([dropped.full, dropped.damaged])
        }
        "spent" => {
            let spent = device.spent()?;
            let of = |one: &ldpbeam_device::CollectionSpending| {
                json!([one.name, one.version, hex(&one.digest), one.times, one.epsilon, one.stopped])
            };
            json!([spent.collections.iter().map(of).collect::<Vec<_>>(), spent.epsilon, spent.budget])
        }
        "withdraw" => {
            device.withdraw()?;
            Value::Null
        }
        other => panic!("no call {other}"),
    })
}

fn main() {
    let mut device = None;
    for line in stdin().lock().lines() {
        let request: Value = serde_json::from_str(&line.expect("a line")).expect("JSON");
        let answered = match answer(&mut device, request[0].as_str().expect("a call"), &request[1]) {
            Ok(found) => json!({ "ok": found }),
            Err(error) => json!({ "error": error.code(), "text": error.to_string() }),
        };
        let mut output = stdout().lock();
        writeln!(output, "{answered}").and_then(|()| output.flush()).expect("somebody who listens");
    }
}
