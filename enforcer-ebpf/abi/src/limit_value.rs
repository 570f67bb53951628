//! What the kernel makes of a string that is written to a memory limit file.
//!
//! `memory.max`, `memory.high` and `memory.swap.max` all take it the same way: kernfs copies the bytes and puts
//! a NUL behind them, `strstrip` takes white space off both ends, and `page_counter_memparse` reads what is left
//! (lib/cmdline.c, lib/kstrtox.c, lib/vsprintf.c). One byte at a time and without memory of its own, so that a
//! kernel program can do it as well.

use crate::records::PAGES_MAX;

/// Longest write that a cgroup file takes (`cgroup_kf_single_ops.atomic_write_len`, a page): a longer one fails
/// with `E2BIG`.
pub const LIMIT_WRITE_MAX: usize = 4096;

/// What a write asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// This many pages; [`PAGES_MAX`] is "max".
    Pages(u64),
    /// The kernel sets nothing: the text is no limit, or the write is empty or too long.
    Refused,
}

/// Where kernels differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grammar {
    /// As on every kernel that was tried up to 6.18: numbers wrap at 64 bits (`16E` is 0, `17E` is `1E`), and a suffix
    /// without a digit is 0.
    Loose,
    /// As on 7.3: what is beyond 64 bits is "max", and a suffix without a digit is refused.
    Strict,
}

/// Where the parser is. A number, so that any value that the kernel's verifier thinks of is one.
type State = u8;

/// Nothing but white space so far.
const START: State = 0;
/// A single `0`: the number is octal, or hexadecimal with an `x` and a digit behind it.
const ZERO: State = 1;
/// `0x` without a digit yet.
const ZERO_X: State = 2;
const OCTAL: State = 3;
const DECIMAL: State = 4;
const HEX: State = 5;
/// A single `m`: the suffix of no number, or the begin of `max`.
const M: State = 6;
const MA: State = 7;
/// The number is complete: only white space may follow.
const TAIL: State = 8;
/// A NUL ended the number: whatever follows does not count.
const END: State = 9;
/// As [`TAIL`] and [`END`], behind `max`.
const MAX_TAIL: State = 10;
const MAX_END: State = 11;
/// As [`TAIL`] and [`END`], behind a suffix of no number.
const BARE: State = 12;
const BARE_END: State = 13;
const REFUSED: State = 14;
/// Room in the tables: a power of two, so that a mask bounds the index.
const STATES: usize = 16;

/// What a byte can be.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Class {
    Nul,
    Space,
    Zero,
    /// `1` to `7`
    Octal,
    /// `8` and `9`
    Decimal,
    /// `a`: a digit, and the second letter of `max`.
    A,
    /// A digit that is nothing else.
    Hex,
    /// A digit and a suffix.
    E,
    /// `x`: also the third letter of `max`.
    X,
    UpperX,
    /// `m`: a suffix, and the first letter of `max`.
    M,
    /// A suffix that is nothing else.
    Suffix,
    Other,
}

/// The kernel's `isspace` is also true for the no-break space of Latin-1.
const fn class(byte: u8) -> Class {
    match byte {
        0 => Class::Nul,
        b'\t'..=b'\r' | b' ' | 0xa0 => Class::Space,
        b'0' => Class::Zero,
        b'1'..=b'7' => Class::Octal,
        b'8' | b'9' => Class::Decimal,
        b'a' => Class::A,
        b'e' | b'E' => Class::E,
        b'b'..=b'f' | b'A'..=b'F' => Class::Hex,
        b'x' => Class::X,
        b'X' => Class::UpperX,
        b'm' => Class::M,
        b'k' | b'K' | b'M' | b'g' | b'G' | b't' | b'T' | b'p' | b'P' => Class::Suffix,
        _ => Class::Other,
    }
}

const fn next(state: State, class: Class) -> State {
    let digit = match class {
        Class::Zero | Class::Octal => 7,
        Class::Decimal => 9,
        Class::A | Class::Hex | Class::E => 15,
        Class::Nul | Class::Space | Class::X | Class::UpperX | Class::M | Class::Suffix | Class::Other => {
            u8::MAX
        }
    };
    match (state, class) {
        (END, _) | (TAIL | START | ZERO | OCTAL | DECIMAL | HEX, Class::Nul) => END,
        (BARE_END, _) | (BARE | M, Class::Nul) => BARE_END,
        (MAX_END, _) | (MAX_TAIL, Class::Nul) => MAX_END,
        (START, Class::Space) => START,
        (TAIL | ZERO | OCTAL | DECIMAL | HEX, Class::Space) => TAIL,
        (BARE | M, Class::Space) | (START, Class::Suffix | Class::E) => BARE,
        (START, Class::Zero) => ZERO,
        (START, Class::M) => M,
        (M, Class::A) => MA,
        (MA, Class::X) | (MAX_TAIL, Class::Space) => MAX_TAIL,
        (ZERO, Class::X | Class::UpperX) => ZERO_X,
        (ZERO | OCTAL, _) if digit <= 7 => OCTAL,
        (START | DECIMAL, _) if digit <= 9 => DECIMAL,
        (ZERO_X | HEX, _) if digit <= 15 => HEX,
        (ZERO | OCTAL | DECIMAL | HEX, Class::M | Class::Suffix | Class::E) => TAIL,
        _ => REFUSED,
    }
}

/// What there is to know of a byte: its class, its value as a digit, its shift as a suffix.
#[derive(Clone, Copy)]
struct Byte {
    class: u8,
    digit: u8,
    shift: u8,
}

/// Tables instead of branches: the kernel's verifier goes through one way for each byte, not through dozens.
static BYTES: [Byte; 256] = {
    let mut bytes = [Byte { class: 0, digit: 0, shift: 0 }; 256];
    let mut at = 0;
    while at < 256 {
        #[expect(clippy::cast_possible_truncation, reason = "under 256")]
        let byte = at as u8;
        bytes[at].class = class(byte) as u8;
        bytes[at].digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            b'A'..=b'F' => byte - b'A' + 10,
            _ => 0,
        };
        bytes[at].shift = match byte | 0x20 {
            b'k' => 10,
            b'm' => 20,
            b'g' => 30,
            b't' => 40,
            b'p' => 50,
            b'e' => 60,
            _ => 0,
        };
        at += 1;
    }
    bytes
};

/// The state that follows, by `state * 16 + class`.
static NEXT: [State; STATES * 16] = {
    const CLASSES: [Class; 13] = [
        Class::Nul,
        Class::Space,
        Class::Zero,
        Class::Octal,
        Class::Decimal,
        Class::A,
        Class::Hex,
        Class::E,
        Class::X,
        Class::UpperX,
        Class::M,
        Class::Suffix,
        Class::Other,
    ];
    let mut table = [REFUSED; STATES * 16];
    let mut state = START;
    while state <= REFUSED {
        let mut at = 0;
        while at < CLASSES.len() {
            table[state as usize * 16 + CLASSES[at] as usize] = next(state, CLASSES[at]);
            at += 1;
        }
        state += 1;
    }
    table
};

/// What reaching a state does to the value.
#[derive(Clone, Copy)]
struct Effect {
    /// The base.
    times: u8,
    /// Lets the digit through.
    digit: u8,
    /// Lets the suffix's shift through.
    shift: u8,
}

static EFFECTS: [Effect; STATES] = {
    let mut effects = [Effect { times: 1, digit: 0, shift: 0 }; STATES];
    effects[OCTAL as usize] = Effect { times: 8, digit: 15, shift: 0 };
    effects[DECIMAL as usize] = Effect { times: 10, digit: 15, shift: 0 };
    effects[HEX as usize] = Effect { times: 16, digit: 15, shift: 0 };
    effects[TAIL as usize].shift = 63;
    effects
};

/// Reads a limit one byte at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct LimitParser {
    /// In bytes; wraps at 64 bits.
    value: u64,
    /// What wrapping lost at the top: not zero where anything did. Only added to, for a comparison at each byte would be
    /// two ways to the kernel's verifier.
    beyond: u64,
    state: u32,
    /// No padding: kernel programs copy it in words.
    unused: u32,
}

impl LimitParser {
    /// Nothing read yet.
    pub const START: Self = Self { value: 0, beyond: 0, state: START as u32, unused: 0 };

    /// Takes the next byte.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a call inside a kernel program would cost a stack frame")]
    pub fn step(&mut self, byte: u8) {
        let byte = BYTES[byte as usize];
        let state = NEXT[(self.state as usize & 15) << 4 | (byte.class as usize & 15)];
        let effect = EFFECTS[state as usize & 15];
        let (times, digit) = (u64::from(effect.times), u64::from(byte.digit & effect.digit));
        let (high, low) = (self.value >> 32, self.value & u64::from(u32::MAX));
        let product = self.value.wrapping_mul(times);
        let sum = product.wrapping_add(digit);
        let shift = byte.shift & effect.shift & 63;
        // The high half of the product, the carry of the sum, what the shift pushes out.
        self.beyond |= (high * times + ((low * times) >> 32)) >> 32;
        self.beyond |= (product & !sum) >> 63 | (sum >> 1) >> (63 - shift);
        self.value = sum << shift;
        self.state = u32::from(state);
    }

    /// What was asked for, after the last byte.
    #[inline(always)]
    pub const fn finish(&self, grammar: Grammar) -> Asked {
        const REFUSED: u32 = self::REFUSED as u32;
        const MAX_TAIL: u32 = self::MAX_TAIL as u32;
        const MAX_END: u32 = self::MAX_END as u32;
        const ZERO_X: u32 = self::ZERO_X as u32;
        const MA: u32 = self::MA as u32;
        const M: u32 = self::M as u32;
        const BARE: u32 = self::BARE as u32;
        const BARE_END: u32 = self::BARE_END as u32;
        let is_strict = matches!(grammar, Grammar::Strict);
        let pages = if is_strict && self.beyond != 0 { PAGES_MAX } else { self.value / 4096 };
        match self.state {
            MAX_TAIL | MAX_END => Asked::Pages(PAGES_MAX),
            ZERO_X | MA | REFUSED.. => Asked::Refused,
            M | BARE | BARE_END if is_strict => Asked::Refused,
            _ => Asked::Pages(if pages < PAGES_MAX { pages } else { PAGES_MAX }),
        }
    }
}

/// What one write of `bytes` to a memory limit file asks for.
pub fn limit_value(bytes: &[u8], grammar: Grammar) -> Asked {
    if bytes.is_empty() || bytes.len() > LIMIT_WRITE_MAX {
        return Asked::Refused;
    }
    let mut parser = LimitParser::START;
    for byte in bytes {
        parser.step(*byte);
    }
    parser.finish(grammar)
}
