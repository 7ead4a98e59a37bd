//! What a report costs (benchmarks/phones.py): `cost DEFINITION FOLDER` prints figures, one a line.

use std::fs::read_to_string;
use std::time::Instant;

use ldpbeam_device::{Definition, Device, Held, Options, Value};

const REPORTS: i64 = 500;

/// Nanoseconds that this thread has run.
fn cpu() -> u64 {
    let text = read_to_string("/proc/thread-self/schedstat").expect("Linux");
    text.split(' ').next().and_then(|one| one.parse().ok()).expect("a number")
}

/// KiB of a line of /proc/self/status.
fn memory(key: &str) -> u64 {
    let text = read_to_string("/proc/self/status").expect("Linux");
    let line = text.lines().find(|line| line.starts_with(key)).expect("a line");
    line.split_whitespace().nth(1).and_then(|one| one.parse().ok()).expect("a number")
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [definition, folder] = arguments.as_slice() else { panic!("say a definition and a folder") };
    let text = read_to_string(definition)?;
    let (resident, began) = (memory("VmRSS:"), Instant::now());
    let options = Options { max_jump: f64::INFINITY, ..Options::default() };
    let device = Device::open(Definition::parse(&text)?, folder, options)?;
    let report = |epoch: i64| device.report(&Held::One(Value::Index(7 * epoch % 1000)), Some(epoch), None);
    report(0)?;
    println!("first {}", began.elapsed().as_micros());
    let (mut least_cpu, mut least_clock) = (u64::MAX, u128::MAX);
    for run in 0..5 {
        let (ran, clock) = (cpu(), Instant::now());
        for epoch in 1 + run * REPORTS..=(run + 1) * REPORTS {
            report(epoch)?;
        }
        least_cpu = least_cpu.min((cpu() - ran) / 1000 / REPORTS as u64);
        least_clock = least_clock.min(clock.elapsed().as_micros() / REPORTS as u128);
    }
    println!("cpu {least_cpu}\nclock {least_clock}\nmemory {}", memory("VmHWM:") - resident);
    Ok(())
}
