use super::super::value::{parse, parse_expected};
use super::*;

const OTHER: Context = Context { who: Who::Other, age: None, with_memory: false };
const SYSTEMD: Context = Context { who: Who::Systemd, age: None, with_memory: false };
const MEMORY: Context = Context { who: Who::Other, age: None, with_memory: true };

fn change(file: &str, old: &str, new: &str) -> Change {
    let file = *LimitKind::ALL.iter().find(|kind| kind.name() == file).expect("a limit file");
    let value = |text| parse(file, text).unwrap_or_else(|| panic!("{text:?} is a value"));
    Change { file, old: value(old), new: value(new) }
}

fn judged(file: &str, old: &str, new: &str, expected: Option<&str>, context: Context) -> (Cause, bool) {
    let expected = expected.map(|text| parse_expected(text).expect("it is FILE=VALUE").1);
    classify(&change(file, old, new), expected.as_ref(), &context)
}

#[test]
fn the_cases_from_the_field() {
    let aged = |age| Context { age: Some(Micros::from_secs(age)), ..OTHER };
    for (case, file, old, new, expected, context, cause, drift) in [
        // 100 CPUs come back in force because the container restarts.
        (6, "cpu.max", "max", "10000000 100000", "cpu.max=100000 100000", aged(1), Cause::Restart, true),
        (6, "cpu.max", "max", "10000000 100000", "cpu.max=100000 100000", aged(3600), Cause::Unknown, true),
        // An update of memory takes swap along.
        (10, "memory.swap.max", "max", "0", "memory.swap.max=max", MEMORY, Cause::SwapReset, true),
        (11, "memory.swap.max", "4096", "0", "memory.swap.max=4096", MEMORY, Cause::SwapReset, true),
        (11, "memory.swap.max", "4096", "0", "memory.swap.max=4096", OTHER, Cause::Unknown, true),
        // systemd puts its unit's value back.
        (13, "memory.max", "64Mi", "128Mi", "memory.max=64Mi", SYSTEMD, Cause::Systemd, true),
        (13, "memory.max", "128Mi", "64Mi", "memory.max=64Mi", SYSTEMD, Cause::AsExpected, false),
    ] {
        let (found, drifts) = judged(file, old, new, Some(expected), context);
        assert_eq!(
            (found, drifts),
            (cause, drift),
            "case {case}: {file} {old} -> {new}, expected {expected}"
        );
    }
}

#[test]
fn a_weight_that_either_conversion_gives_is_no_drift() {
    for (shares, old, new) in [(102, 4, 17), (512, 20, 59), (1024, 39, 100), (4096, 157, 303)] {
        let asked = format!("cpu.shares={shares}");
        for (weight, conversion) in [(old, Conversion::Linear), (new, Conversion::Quadratic)] {
            let found = judged("cpu.weight", "1", &weight.to_string(), Some(&asked), OTHER);
            assert_eq!(found, (Cause::Shares(conversion), false), "{shares} shares, {weight}");
        }
        let expected = format!("cpu.weight={old}");
        let found = judged("cpu.weight", "1", &new.to_string(), Some(&expected), OTHER);
        assert_eq!(found, (Cause::Shares(Conversion::Quadratic), false), "{old} expected");
        let found = judged("cpu.weight", "1", "10000", Some(&expected), OTHER);
        assert_eq!(found, (Cause::Unknown, true), "{old} expected");
    }
}

#[test]
fn cpu_quotas_are_rounded_by_runtimes() {
    for (expected, found, rounded) in [
        ("50000 100000", "50000 100000", true),
        // runc rounds up to what systemd keeps: 12.34 % become 13 %.
        ("12340 100000", "13000 100000", true),
        ("12340 100000", "12000 100000", false),
        ("12340 100000", "14000 100000", false),
        ("25000 50000", "50000 100000", true),
        // The kernel takes no less than a millisecond.
        ("100 100000", "1000 100000", true),
        ("100 100000", "2000 100000", false),
        ("100000 100000", "10000000 100000", false),
        ("100000 100000", "max 100000", false),
        ("max 100000", "100000 100000", false),
        ("18446744073709551615 1", "1000 1000", false),
    ] {
        let text = format!("cpu.max={expected}");
        let (cause, drift) = judged("cpu.max", "max 1000", found, Some(&text), OTHER);
        assert_eq!(drift, !rounded, "{expected} expected, {found} found: {cause:?}");
    }
}

#[test]
fn without_an_expectation_nothing_drifts() {
    for (old, new, context, cause) in [
        ("64Mi", "32Mi", OTHER, Cause::Unknown),
        ("64Mi", "32Mi", SYSTEMD, Cause::Systemd),
        ("64Mi", "64Mi", SYSTEMD, Cause::Unchanged),
        ("64Mi", "32Mi", Context { who: Who::Ours, ..OTHER }, Cause::Ours),
    ] {
        assert_eq!(judged("memory.max", old, new, None, context), (cause, false), "{old} -> {new}");
    }
    let ours = Context { who: Who::Ours, ..OTHER };
    assert_eq!(judged("memory.max", "64Mi", "32Mi", Some("memory.max=64Mi"), ours), (Cause::Ours, false));
}

#[test]
fn a_limit_is_cut_to_pages_before_it_is_compared() {
    let found = judged("memory.max", "max", "67104768", Some("memory.max=67108863"), OTHER);
    assert_eq!(found, (Cause::AsExpected, false));
}

/// Kubernetes' `100M` is no whole number of pages, and some say "none" by a number.
#[test]
fn what_a_runtime_was_told_is_what_the_kernel_makes_of_it() {
    let memory = |bytes| LimitValue::Memory(Limit::Bytes(Bytes::new(bytes)));
    let none = LimitValue::Memory(Limit::Max);
    for (said, held, is_it) in [
        (memory(100_000_000), memory(99_999_744), true),
        (memory(100_000_000), memory(100_003_840), false),
        (memory(4095), memory(0), true),
        (memory(9_223_372_036_854_771_712), none, true),
        (memory(i64::MAX.cast_unsigned()), none, true),
        (none, memory(1 << 40), false),
        (memory(1 << 40), none, false),
    ] {
        let cause = accepted(&Expected::Value(said), held);
        assert_eq!(cause, is_it.then_some(Cause::AsExpected), "{said:?} {held:?}");
    }
}

/// A runtime's numbers are its own affair.
#[test]
fn no_quota_is_too_much() {
    let numbers = [0, 1, 999, 1000, 100_000, u64::MAX / 1_000_000, i64::MAX.cast_unsigned(), u64::MAX];
    let values = numbers.iter().flat_map(|quota| {
        let quota = Some(Micros::new(*quota));
        numbers.map(|period| LimitValue::Cpu { quota, period: Micros::new(period) })
    });
    let values: Vec<_> = values.collect();
    for said in &values {
        for held in &values {
            let cause = accepted(&Expected::Value(*said), *held);
            assert!(said != held || cause == Some(Cause::AsExpected));
        }
    }
}
