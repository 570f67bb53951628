//! The value parser against the kernel: what a real write sets, and what the guard's program makes of it.

use super::{Armed, MIB, Tenant, write};
use enforcer::guard::{GuardMode, Reason, Verdict};
use enforcer::node::Release;
use enforcer::probe::LimitKind;
use enforcer_abi::{Asked, Grammar, PAGES_MAX, limit_value};
use enforcer_gate::{Bytes, Limit, Pages};
use enforcer_vm_tests::dice::Dice;
use enforcer_vm_tests::scratch::Scratch;
use std::sync::LazyLock;

/// How many random strings.
const STRINGS: usize = 2_000;

/// How this kernel is thought to read them.
static GRAMMAR: LazyLock<Grammar> = LazyLock::new(|| Release::running().limit_grammar());

/// Strings that every run tries.
const ODD: &[&[u8]] = &[
    b"0x1000",
    b"0X2000\n",
    b"010000",
    b"08",
    b"0x",
    b"0xg",
    b"0x1e",
    b"1e",
    b"1E",
    b"8E",
    b"16E",
    b"17E",
    b"16385P",
    b"17592186044416M",
    b"0x10000000000000000",
    b"99999999999999999999999",
    b"1e3",
    b"k",
    b"m",
    b"E",
    b"ma",
    b"max",
    b"maxx",
    b"MAX",
    b" \t\x0b\x0c\rmax\n",
    b"\xa0max\xa0",
    b"\x85max",
    b"\n",
    b"\0",
    b"4096\0x",
    b"max\0x",
    b"-1",
    b"+1",
    b"1 2",
    b"4095",
    b"4097",
    b"18446744073709551615",
    b"18446744073709551616",
    b"18446744073709555712",
    b"9223372036854775807",
    b"9223372036854771712",
    b"0.5G",
    b"1Ki",
];

/// A string near the edges of the grammar.
fn string(dice: &mut Dice) -> Vec<u8> {
    const STARTS: &[&str] = &["", "", "0x", "0X", "0", "max", "m", " ", "\n", "1"];
    const NEAR: &[u8] = b"0123456789abcdefxXkKmMgGtTpPeE \t\n\x0b\x0c\r\0-+.maxM\xa0\x85i0123456789";
    let mut string = STARTS[dice.below(STARTS.len())].as_bytes().to_vec();
    for _ in 0..dice.below(7) {
        string.push(NEAR[dice.below(NEAR.len())]);
    }
    string
}

/// What the file holds, in pages.
fn held(cgroup: &Scratch, file: &str) -> u64 {
    match cgroup.limit(file).as_str() {
        "max" => PAGES_MAX,
        bytes => bytes.parse::<u64>().expect("a number") / 4096,
    }
}

/// Writes a string and compares what came of it with what the parser says.
fn write_and_compare(cgroup: &Scratch, file: &str, before: &str, string: &[u8]) -> Asked {
    cgroup.write(file, before);
    let held_before = held(cgroup, file);
    let result = write(cgroup, file, string);
    let asked = limit_value(string, *GRAMMAR);
    let expected = match asked {
        Asked::Pages(pages) => (Ok(()), pages),
        Asked::Refused => (Err(libc::EINVAL), held_before),
    };
    assert_eq!((result, held(cgroup, file)), expected, "{file} {}", string.escape_ascii());
    asked
}

fn strings() -> impl Iterator<Item = Vec<u8>> {
    let mut dice = Dice::new(0x9e37_79b9_7f4a_7c15);
    let more = std::iter::repeat_with(move || string(&mut dice)).filter(|string| !string.is_empty());
    ODD.iter().map(|text| text.to_vec()).chain(more.take(STRINGS))
}

/// Nobody lives in the cgroup: every value can be set.
pub(super) fn agree() {
    let cgroup = Scratch::new("values");
    let (mut set, mut refused) = (0, 0);
    for string in strings() {
        match write_and_compare(&cgroup, "memory.max", "123457536", &string) {
            Asked::Pages(_) => set += 1,
            Asked::Refused => refused += 1,
        }
    }
    println!("{set} set, {refused} refused");
    assert!(set > 400 && refused > 400, "{set} set, {refused} refused");
}

/// `memory.swap.max` is read by the same code and hurts nobody while there is no swap: with a margin that no value
/// leaves, the guard tells of each what it read.
pub(super) fn program_agrees() {
    let tenant = Tenant::new("program");
    let cgroup = &tenant.cgroup;
    let mut armed = Armed::new();
    armed.cover_with(cgroup, |cover| {
        cover.files = vec![LimitKind::SwapMax];
        cover.mode = GuardMode::Audit;
        cover.margin = Bytes::new(u64::MAX);
    });
    for string in strings() {
        let asked = write_and_compare(cgroup, "memory.swap.max", "max", &string);
        let told = armed.told();
        let text = string.escape_ascii();
        match asked {
            Asked::Pages(PAGES_MAX) => assert!(told.is_empty(), "{text}: {told:#?}"),
            Asked::Pages(pages) => {
                assert_eq!(told.len(), 1, "{text}: {told:#?}");
                let bytes = Limit::Bytes(Pages::new(pages).into());
                assert_eq!((told[0].reason, told[0].asked), (Reason::NoLease, Some(bytes)), "{text}");
                assert_eq!(told[0].verdict, Verdict::WouldDeny, "{text}");
            }
            Asked::Refused => {
                assert_eq!(told.len(), 1, "{text}: {told:#?}");
                assert_eq!((told[0].reason, told[0].asked), (Reason::NoValue, None), "{text}");
            }
        }
    }
}

/// A write of no bytes is no value and changes nothing.
pub(super) fn empty() {
    let tenant = Tenant::new("empty");
    let mut armed = Armed::over(&tenant.cgroup, GuardMode::Enforce);
    let file =
        std::fs::File::options().write(true).open(tenant.cgroup.path().join("memory.max")).expect("open");
    // SAFETY: nothing is read.
    let result = unsafe { libc::write(std::os::fd::AsRawFd::as_raw_fd(&file), c"".as_ptr().cast(), 0) };
    assert_eq!((result, tenant.cgroup.limit("memory.max")), (0, (64 * MIB).to_string()));
    let judged = armed.one("an empty write");
    assert_eq!((judged.verdict, judged.reason), (Verdict::Allowed, Reason::NoValue));
}

/// Longer than a page the kernel takes nothing; between what the guard reads and that, it does.
pub(super) fn long() {
    let cgroup = Scratch::new("long");
    let padded = |len: usize| [vec![b' '; len - 4], b"4096".to_vec()].concat();
    for (len, expected) in [(63, Ok(())), (64, Ok(())), (4096, Ok(())), (4097, Err(libc::E2BIG))] {
        cgroup.write("memory.max", "max");
        assert_eq!(write(&cgroup, "memory.max", &padded(len)), expected, "{len}");
        assert_eq!(limit_value(&padded(len), *GRAMMAR) == Asked::Pages(1), expected.is_ok(), "{len}");
    }
}
