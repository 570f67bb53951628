//! The parser of limits against the kernel's own functions, written down once more from the C.

use enforcer_abi::{Asked, Grammar, LIMIT_WRITE_MAX, PAGES_MAX, limit_value};
use proptest::prelude::*;

/// How many random strings.
const STRINGS: u32 = 100_000;

const BOTH: [Grammar; 2] = [Grammar::Loose, Grammar::Strict];

/// Bytes behind which there is always a NUL, as in the kernel's buffer.
struct Text<'a>(&'a [u8]);

impl Text<'_> {
    fn at(&self, index: usize) -> u8 {
        self.0.get(index).copied().unwrap_or(0)
    }
}

fn isspace(byte: u8) -> bool {
    [9, 10, 11, 12, 13, 32, 160].contains(&byte)
}

fn strstrip(buffer: &[u8]) -> &[u8] {
    let mut text = &buffer[..buffer.iter().position(|byte| *byte == 0).unwrap_or(buffer.len())];
    while text.last().is_some_and(|byte| isspace(*byte)) {
        text = &text[..text.len() - 1];
    }
    while text.first().is_some_and(|byte| isspace(*byte)) {
        text = &text[1..];
    }
    text
}

/// `value * times + more`, as far as it goes.
fn grown(value: u64, times: u64, more: u64, grammar: Grammar) -> u64 {
    match grammar {
        Grammar::Loose => value.wrapping_mul(times).wrapping_add(more),
        Grammar::Strict => value.saturating_mul(times).saturating_add(more),
    }
}

/// `simple_strtoull(text, &end, 0)`: the value, and where it ends.
fn simple_strtoull(text: &Text<'_>, grammar: Grammar) -> (u64, usize) {
    let (mut base, mut at) = (10_u64, 0);
    if text.at(0) == b'0' {
        base = 8;
        if text.at(1) | 0x20 == b'x' && text.at(2).is_ascii_hexdigit() {
            (base, at) = (16, 2);
        }
    }
    let mut result = 0_u64;
    while let Some(digit) = char::from(text.at(at)).to_digit(16) {
        if u64::from(digit) >= base {
            break;
        }
        result = grown(result, base, u64::from(digit), grammar);
        at += 1;
    }
    (result, at)
}

/// `page_counter_memparse(strstrip(buffer), "max")`.
fn reference(buffer: &[u8], grammar: Grammar) -> Asked {
    if buffer.is_empty() || buffer.len() > 4096 {
        return Asked::Refused;
    }
    let stripped = strstrip(buffer);
    if stripped == b"max" {
        return Asked::Pages(PAGES_MAX);
    }
    let text = Text(stripped);
    let (mut value, mut at) = simple_strtoull(&text, grammar);
    let power = match text.at(at) {
        b'K' | b'k' => 1,
        b'M' | b'm' => 2,
        b'G' | b'g' => 3,
        b'T' | b't' => 4,
        b'P' | b'p' => 5,
        b'E' | b'e' => 6,
        _ => 0,
    };
    for _ in 0..power {
        value = grown(value, 1024, 0, grammar);
    }
    if power > 0 && at == 0 && grammar == Grammar::Strict {
        return Asked::Refused;
    }
    at += usize::from(power > 0);
    if text.at(at) != 0 { Asked::Refused } else { Asked::Pages((value / 4096).min(PAGES_MAX)) }
}

/// Strings that look like limits, and strings that do not.
fn string() -> impl Strategy<Value = Vec<u8>> {
    let near =
        proptest::sample::select(b"0123456789abcdefxXkKmMgGtTpPeE \t\n\x0b\x0c\r\0-+.maxM\xa0\x85i".to_vec());
    let space = || proptest::collection::vec(proptest::sample::select(b" \n\t\xa0".to_vec()), 0..3);
    let number =
        proptest::sample::select(vec!["", "0", "0x", "0X", "00", "max", "m", "1", "18446744073709551615"]);
    let digits = proptest::collection::vec(proptest::sample::select(b"0123456789abcdefF".to_vec()), 0..24);
    let suffix = proptest::sample::select(b"kKmMgGtTpPeE\0 x".to_vec());
    let shaped = (space(), number, digits, proptest::option::of(suffix), space()).prop_map(
        |(before, number, digits, suffix, after)| {
            [before, number.as_bytes().to_vec(), digits, suffix.into_iter().collect(), after].concat()
        },
    );
    prop_oneof![
        3 => shaped,
        2 => proptest::collection::vec(near, 0..12),
        1 => proptest::collection::vec(any::<u8>(), 0..12),
    ]
}

#[test]
fn every_oddity_of_the_kernels_grammar() {
    let pages = Asked::Pages;
    for (text, asked) in [
        (&b"4096"[..], pages(1)),
        (b"4095", pages(0)),
        (b"8191\n", pages(1)),
        (b"0x1000", pages(1)),
        (b"0X2000", pages(2)),
        (b"010000", pages(1)),
        (b"0x1e", pages(0)),
        (b"0x3eM", pages(0x3e << 8)),
        (b"4k", pages(1)),
        (b"4K", pages(1)),
        (b"1m", pages(256)),
        (b"1G", pages(1 << 18)),
        (b"1T", pages(1 << 28)),
        (b"1P", pages(1 << 38)),
        (b"1E", pages(1 << 48)),
        (b"8E", pages(PAGES_MAX)),
        (b"7E", pages(7 << 48)),
        (b"max", pages(PAGES_MAX)),
        (b" \t\xa0max\x0b\n", pages(PAGES_MAX)),
        (b"max\0x", pages(PAGES_MAX)),
        (b"", Asked::Refused),
        (b"\n", pages(0)),
        (b"\0", pages(0)),
        (b"0k", pages(0)),
        (b"0m", pages(0)),
        (b"4096\0999", pages(1)),
        (b"18446744073709551615", pages(PAGES_MAX)),
        (b"ma", Asked::Refused),
        (b"MAX", Asked::Refused),
        (b"maxx", Asked::Refused),
        (b"max 1", Asked::Refused),
        (b"0x", Asked::Refused),
        (b"0xg", Asked::Refused),
        (b"08", Asked::Refused),
        (b"-1", Asked::Refused),
        (b"+1", Asked::Refused),
        (b"1 2", Asked::Refused),
        (b"1kB", Asked::Refused),
        (b"1Ki", Asked::Refused),
        (b"1e3", Asked::Refused),
        (b"0.5G", Asked::Refused),
        (b"12x", Asked::Refused),
    ] {
        for grammar in BOTH {
            assert_eq!(limit_value(text, grammar), asked, "{}", text.escape_ascii());
            assert_eq!(reference(text, grammar), asked, "reference: {}", text.escape_ascii());
        }
    }
}

/// As 6.18 has it, and 7.3.
#[test]
fn a_suffix_without_a_digit_is_nothing_or_no_number() {
    for text in [&b"k"[..], b"E", b"m", b"M", b"m\n", b"m\0x", b" k ", b"k\0x", b"e \n"] {
        for (grammar, asked) in [(Grammar::Loose, Asked::Pages(0)), (Grammar::Strict, Asked::Refused)] {
            assert_eq!(limit_value(text, grammar), asked, "{} {grammar:?}", text.escape_ascii());
            assert_eq!(reference(text, grammar), asked, "reference: {}", text.escape_ascii());
        }
    }
}

/// As 6.18 has it, and 7.3.
#[test]
fn what_is_beyond_64_bits_wraps_or_is_all_there_can_be() {
    for (text, wrapped) in [
        (&b"16E"[..], 0),
        (b"17E", 1 << 48),
        (b"33E", 1 << 48),
        (b"16385P", 1 << 38),
        (b"17592186044416M", 0),
        (b"18446744073709551616", 0),
        (b"18446744073709555712", 1),
        (b"0x10000000000000000", 0),
        (b"04000000000000000001000", 0),
        (b"99999999999999999999999", 200_376_420_520_685_568 / 4096),
    ] {
        for (grammar, pages) in [(Grammar::Loose, wrapped), (Grammar::Strict, PAGES_MAX)] {
            let asked = Asked::Pages(pages);
            assert_eq!(limit_value(text, grammar), asked, "{} {grammar:?}", text.escape_ascii());
            assert_eq!(reference(text, grammar), asked, "reference: {}", text.escape_ascii());
        }
    }
}

#[test]
fn a_write_may_be_a_page_long() {
    let mut bytes = vec![b' '; LIMIT_WRITE_MAX - 4];
    bytes.extend(b"4096");
    assert_eq!(limit_value(&bytes, Grammar::Loose), Asked::Pages(1));
    bytes.push(b'\n');
    assert_eq!(limit_value(&bytes, Grammar::Loose), Asked::Refused);
}

#[test]
fn random_strings_are_read_as_the_kernels_functions_read_them() {
    let config = ProptestConfig { cases: STRINGS, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(bytes in string())| {
        for grammar in BOTH {
            prop_assert_eq!(limit_value(&bytes, grammar), reference(&bytes, grammar), "{}", bytes.escape_ascii());
        }
    });
}
