//! What limit files hold: from text and back. No I/O.

use crate::probe::{LimitKind, LimitValue};
use crate::quantity::parse_bytes;
use enforcer_gate::{Bytes, Limit, Micros, PAGE_SIZE};
use std::fmt::{self, Display};

/// The kernel's `cpu.max` for a quota without a period, in microseconds.
const PERIOD_DEFAULT: u64 = 100_000;

/// What a limit file should hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// This value.
    Value(LimitValue),
    /// A weight for so many CPU shares, by either conversion.
    Shares(u64),
}

/// Reads what a limit file shows or takes; amounts of memory also with the suffixes of Kubernetes. `None` where that is
/// no value of this file. Memory is cut down to whole pages, as the kernel does.
pub fn parse(file: LimitKind, text: &str) -> Option<LimitValue> {
    let text = text.trim();
    let number = |text: &str| text.parse::<u64>().ok();
    Some(match file {
        LimitKind::MemoryMax
        | LimitKind::MemoryHigh
        | LimitKind::SwapMax
        | LimitKind::MemoryMin
        | LimitKind::MemoryLow => LimitValue::Memory(match text {
            "max" => Limit::Max,
            _ => Limit::Bytes(Bytes::new(parse_bytes(text).ok()?.get() / PAGE_SIZE * PAGE_SIZE)),
        }),
        LimitKind::CpuMax => {
            let (quota, period) = text.split_once(' ').unwrap_or((text, ""));
            let quota = if quota == "max" { None } else { Some(Micros::new(number(quota)?)) };
            let period = if period.is_empty() { PERIOD_DEFAULT } else { number(period)? };
            LimitValue::Cpu { quota, period: Micros::new((period > 0).then_some(period)?) }
        }
        LimitKind::CpuWeight => {
            LimitValue::Weight(number(text).filter(|weight| (1..=10_000).contains(weight))?)
        }
        LimitKind::CpusetCpus => LimitValue::Cpus(cpus(text)?),
        LimitKind::PidsMax => LimitValue::Count(if text == "max" { None } else { Some(number(text)?) }),
    })
}

/// A list of CPUs (`0-3,7`), none of them beyond what a value has room for.
fn cpus(text: &str) -> Option<u128> {
    let ranges = text.split(',').filter(|range| !range.is_empty());
    ranges
        .map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last) = (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?);
            let count = (last.checked_sub(first)? < 128 && last < 128).then(|| last - first + 1)?;
            Some((u128::MAX >> (128 - count)) << first)
        })
        .try_fold(0, |all, range| Some(all | range?))
}

/// `FILE=VALUE`, where `cpu.shares=N` stands for the weight of so many shares.
pub fn parse_expected(text: &str) -> Result<(LimitKind, Expected), String> {
    let (name, value) = text.split_once('=').ok_or("it is FILE=VALUE")?;
    if name == "cpu.shares" {
        let shares = value.parse().ok().filter(|shares| super::weight::SHARES.contains(shares));
        let shares = shares.ok_or("cpu.shares is a number from 2 to 262144")?;
        return Ok((LimitKind::CpuWeight, Expected::Shares(shares)));
    }
    let file = LimitKind::ALL.iter().find(|file| file.name() == name).ok_or_else(|| {
        let names: Vec<_> = LimitKind::ALL.iter().map(|file| file.name()).collect();
        format!("the file is one of {}, cpu.shares", names.join(", "))
    })?;
    let value = parse(*file, value).ok_or_else(|| format!("that is no value of {name}"))?;
    Ok((*file, Expected::Value(value)))
}

/// As people read it; [`raw`] is what the file takes.
pub fn shown(value: LimitValue) -> impl Display {
    fmt::from_fn(move |f| match value {
        LimitValue::Memory(limit) => limit.fmt(f),
        LimitValue::Cpu { .. } | LimitValue::Weight(_) | LimitValue::Cpus(_) | LimitValue::Count(_) => {
            raw(value).fmt(f)
        }
    })
}

/// As the file takes and shows it.
pub fn raw(value: LimitValue) -> impl Display {
    fmt::from_fn(move |f| match value {
        LimitValue::Memory(limit) => limit.raw().fmt(f),
        LimitValue::Cpu { quota: Some(quota), period } => write!(f, "{} {}", quota.get(), period.get()),
        LimitValue::Cpu { quota: None, period } => write!(f, "max {}", period.get()),
        LimitValue::Weight(weight) => weight.fmt(f),
        LimitValue::Count(Some(count)) => count.fmt(f),
        LimitValue::Count(None) => f.write_str("max"),
        LimitValue::Cpus(cpus) => list(f, cpus),
    })
}

fn list(f: &mut fmt::Formatter<'_>, mut cpus: u128) -> fmt::Result {
    let mut separator = "";
    while cpus != 0 {
        let first = cpus.trailing_zeros();
        let count = (cpus >> first).trailing_ones();
        match count {
            1 => write!(f, "{separator}{first}")?,
            _ => write!(f, "{separator}{first}-{}", first + count - 1)?,
        }
        separator = ",";
        cpus &= !((u128::MAX >> (128 - count)) << first);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn values_of_every_file_are_read_and_shown() {
        for (file, text, raw_text, shown_text) in [
            (LimitKind::MemoryMax, "67108863\n", "67104768", "64Mi"),
            (LimitKind::MemoryHigh, "64Mi", "67108864", "64Mi"),
            (LimitKind::SwapMax, "max", "max", "max"),
            (LimitKind::MemoryMin, "0", "0", "0"),
            (LimitKind::MemoryLow, "4096", "4096", "4Ki"),
            (LimitKind::CpuMax, "50000", "50000 100000", "50000 100000"),
            (LimitKind::CpuMax, "max 50000", "max 50000", "max 50000"),
            (LimitKind::CpuWeight, "10000", "10000", "10000"),
            (LimitKind::CpusetCpus, "0-3,7,127", "0-3,7,127", "0-3,7,127"),
            (LimitKind::CpusetCpus, "\n", "", ""),
            (LimitKind::CpusetCpus, "0-127", "0-127", "0-127"),
            (LimitKind::PidsMax, "max", "max", "max"),
            (LimitKind::PidsMax, "100", "100", "100"),
        ] {
            let value = parse(file, text).unwrap_or_else(|| panic!("{text:?} is a value"));
            assert_eq!(raw(value).to_string(), raw_text, "{text:?}");
            assert_eq!(shown(value).to_string(), shown_text, "{text:?}");
        }
    }

    #[test]
    fn nonsense_is_no_value() {
        for (file, text) in [
            (LimitKind::MemoryMax, "12x"),
            (LimitKind::MemoryMax, ""),
            (LimitKind::CpuMax, "1 0"),
            (LimitKind::CpuMax, "1 2 3"),
            (LimitKind::CpuWeight, "0"),
            (LimitKind::CpuWeight, "10001"),
            (LimitKind::CpusetCpus, "3-1"),
            (LimitKind::CpusetCpus, "128"),
            (LimitKind::CpusetCpus, "0-4294967295"),
            (LimitKind::PidsMax, "-1"),
        ] {
            assert_eq!(parse(file, text), None, "{text:?}");
        }
        for text in ["", "memory.max", "memory.max=x", "memory.current=1", "cpu.shares=1"] {
            assert!(parse_expected(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn an_expected_value_is_named_with_its_file() {
        let weight = Ok((LimitKind::CpuWeight, Expected::Value(LimitValue::Weight(20))));
        assert_eq!(parse_expected("cpu.weight=20"), weight);
        assert_eq!(parse_expected("cpu.shares=512"), Ok((LimitKind::CpuWeight, Expected::Shares(512))));
    }

    proptest! {
        #[test]
        fn a_set_of_cpus_comes_back(cpus: u128) {
            let value = LimitValue::Cpus(cpus);
            prop_assert_eq!(parse(LimitKind::CpusetCpus, &raw(value).to_string()), Some(value));
        }

        #[test]
        fn any_text_is_safe(text in "\\PC{0,40}") {
            for file in LimitKind::ALL {
                let _ = parse(*file, &text);
            }
        }
    }
}
