//! What the hook choice needs to know of a kernel's types. Plain data, filled by `btf`.

use enforcer_abi::{Field, Offsets};
use std::collections::BTreeMap;
use std::fmt;

/// What an argument must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Argument<'a> {
    /// A pointer to a structure (or `char`) of this name.
    PointerTo(&'a str),
    /// A plain type of this name.
    Named(&'a str),
}

impl Argument<'_> {
    /// Whether a type is this one. `None` is an argument that is not there.
    pub fn is(&self, found: Option<&str>) -> bool {
        found.is_some_and(|found| match self {
            Self::PointerTo(name) => found.strip_suffix('*') == Some(*name),
            Self::Named(name) => found == *name,
        })
    }
}

impl fmt::Display for Argument<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PointerTo(name) => write!(f, "{name}*"),
            Self::Named(name) => f.write_str(name),
        }
    }
}

/// Functions, tracepoints and offsets of one kernel: of those that the hooks ask about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    /// Argument types by function; `struct` and `const` left out, `*` for a pointer.
    pub functions: BTreeMap<String, Vec<String>>,
    /// Argument types by tracepoint, without the one that the kernel keeps for itself.
    pub tracepoints: BTreeMap<String, Vec<String>>,
    /// The values that were found.
    pub offsets: BTreeMap<Field, u32>,
    /// The counters of `memory.stat` are found through a table of the kernel's.
    pub stats_have_a_table: bool,
}

impl Summary {
    /// The arguments of a function, if the kernel has it.
    pub fn function(&self, name: &str) -> Option<&[String]> {
        self.functions.get(name).map(Vec::as_slice)
    }

    /// The arguments of a tracepoint, if the kernel has it.
    pub fn tracepoint(&self, name: &str) -> Option<&[String]> {
        self.tracepoints.get(name).map(Vec::as_slice)
    }

    /// A value, if it was found.
    pub fn offset(&self, field: Field) -> Option<u32> {
        self.offsets.get(&field).copied()
    }

    /// All values as the kernel programs take them.
    pub fn to_offsets(&self) -> Offsets {
        let mut offsets = Offsets::UNKNOWN;
        for (field, value) in &self.offsets {
            offsets.set(*field, *value);
        }
        offsets
    }
}
