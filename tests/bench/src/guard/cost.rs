//! What a write costs with the guard, with the drift sentinel's programs and without either.

use super::{Options, enforcing};
use crate::clock::now_ns;
use crate::stats::Spread;
use anyhow::{Context, Result};
use enforcer::guard::Guard;
use enforcer::probe::{LimitKind, Need, Probe, ProbeOptions};
use enforcer_gate::Bytes;
use enforcer_vm_tests::scratch::Scratch;
use serde::Serialize;
use std::fs::File;
use std::io::Write;

/// One writer with and without one part.
#[derive(Debug, Serialize)]
pub(super) struct Outcome {
    writer: &'static str,
    part: &'static str,
    /// Nanoseconds a write.
    without_ns: Spread,
    with_ns: Spread,
    with_over_without: Spread,
}

/// What is in the kernel while it is measured.
enum Part {
    Guard(Box<Guard>),
    Sentinel(Box<Probe>),
}

/// Who writes.
struct Writer {
    name: &'static str,
    file: File,
    text: &'static [u8],
    count: usize,
}

pub(super) fn run(options: &Options) -> Result<Vec<Outcome>> {
    let cgroup = Scratch::new("guard-cost");
    cgroup.write("memory.max", "64M");
    let open = |path: &str| File::options().write(true).open(path).with_context(|| format!("open {path}"));
    let path = cgroup.path().to_str().context("a plain path")?;
    let mut writers = [
        Writer { name: "/dev/null", file: open("/dev/null")?, text: b"64M", count: options.unrelated },
        Writer {
            name: "another cgroup file",
            file: open(&format!("{path}/cgroup.max.depth"))?,
            text: b"max",
            count: options.unrelated / 4,
        },
        Writer {
            name: "a guarded limit",
            file: open(&format!("{path}/memory.max"))?,
            text: b"64M",
            count: options.unrelated / 4,
        },
    ];
    let mut outcomes = Vec::new();
    for (part, load) in PARTS {
        let mut times = writers.each_ref().map(|_| (Vec::new(), Vec::new()));
        for _ in 0..options.pairs {
            for with in [false, true] {
                let mut loaded = with.then(|| load(&cgroup)).transpose()?;
                for (writer, times) in writers.iter_mut().zip(&mut times) {
                    let took = writer.measure(&mut loaded)?;
                    if with { times.1.push(took) } else { times.0.push(took) }
                }
            }
        }
        for (writer, (without, with)) in writers.iter().zip(&times) {
            let ratios: Vec<f64> = without.iter().zip(with).map(|(without, with)| with / without).collect();
            let spread = |values: &[f64]| Spread::of(values).context("no pair");
            outcomes.push(Outcome {
                writer: writer.name,
                part,
                without_ns: spread(without)?,
                with_ns: spread(with)?,
                with_over_without: spread(&ratios)?,
            });
        }
    }
    Ok(outcomes)
}

type Load = fn(&Scratch) -> Result<Part>;
const PARTS: [(&str, Load); 2] = [("guard", guard), ("drift sentinel", sentinel)];

fn guard(cgroup: &Scratch) -> Result<Part> {
    Ok(Part::Guard(Box::new(enforcing(cgroup, Bytes::from_mib(1))?)))
}

fn sentinel(_cgroup: &Scratch) -> Result<Part> {
    let needs = LimitKind::ALL.iter().map(|file| Need::LimitWrite(*file));
    Ok(Part::Sentinel(Box::new(Probe::load(&ProbeOptions::only(needs))?)))
}

impl Writer {
    /// Nanoseconds a write; what the part told is taken off its ring afterwards.
    fn measure(&mut self, loaded: &mut Option<Part>) -> Result<f64> {
        let began = now_ns();
        for _ in 0..self.count {
            self.file.write_all(self.text).context(self.name)?;
        }
        let took = now_ns() - began;
        match loaded {
            None => {}
            Some(Part::Guard(guard)) => while guard.try_next().is_some() {},
            Some(Part::Sentinel(probe)) => probe.drain(|_| {})?,
        }
        #[expect(clippy::cast_precision_loss, reason = "nanoseconds of one run are far below 2^52")]
        Ok(took as f64 / self.count as f64)
    }
}

pub(super) fn print(outcomes: &[Outcome]) {
    println!(
        "{:<16} {:<22} {:>12} {:>10} {:>8} {:>17}",
        "part", "write to", "without ns", "with ns", "ratio", "ratio min..max"
    );
    for Outcome { writer, part, without_ns, with_ns, with_over_without: ratio } in outcomes {
        println!(
            "{part:<16} {writer:<22} {:>12.0} {:>10.0} {:>8.3} {:>8.3}..{:<8.3}",
            without_ns.median, with_ns.median, ratio.median, ratio.min, ratio.max
        );
    }
}
