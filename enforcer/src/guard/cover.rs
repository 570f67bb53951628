//! What is guarded, and how.

use enforcer_abi::{GuardMode, Guarded, LimitKind};
use enforcer_gate::{Bytes, PAGE_SIZE};

/// The files that can be guarded.
pub const FILES: [LimitKind; 3] = [LimitKind::MemoryMax, LimitKind::MemoryHigh, LimitKind::SwapMax];

/// How a cgroup is guarded.
///
/// `memory.max` under usage kills. `memory.high` under usage kills nobody and slows the cgroup down; guarding it
/// means that nobody throttles it. `memory.swap.max` under swap usage kills nobody at once, but leaves the memory
/// that comes back nowhere to go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cover {
    /// What is done about an unsafe write.
    pub mode: GuardMode,
    /// The guarded files, of [`FILES`].
    pub files: Vec<LimitKind>,
    /// How far a new limit must stay above usage. Rounded up to whole pages.
    pub margin: Bytes,
    /// The cgroup itself is guarded.
    pub own: bool,
    /// Every cgroup below it is guarded, also one that is made later. The nearest cover up the tree counts.
    pub below: bool,
}

impl From<&Cover> for Guarded {
    fn from(cover: &Cover) -> Self {
        let files = cover.files.iter().fold(0, |bits, file| bits | Self::bit(*file));
        let own = if cover.own { Self::SELF } else { 0 };
        let below = if cover.below { Self::BELOW } else { 0 };
        Self {
            mode: cover.mode as u32,
            what: files | own | below,
            margin: cover.margin.page_ceil().get() / PAGE_SIZE,
        }
    }
}

impl From<&Guarded> for Cover {
    fn from(guarded: &Guarded) -> Self {
        Self {
            mode: GuardMode::from_number(guarded.mode).unwrap_or(GuardMode::Off),
            files: FILES.into_iter().filter(|file| guarded.what & Guarded::bit(*file) != 0).collect(),
            margin: Bytes::new(guarded.margin.saturating_mul(PAGE_SIZE)),
            own: guarded.what & Guarded::SELF != 0,
            below: guarded.what & Guarded::BELOW != 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cover_comes_back_from_the_kernels_form() {
        for (own, below, files) in
            [(true, false, FILES.to_vec()), (false, true, vec![LimitKind::SwapMax]), (true, true, vec![])]
        {
            let cover = Cover { mode: GuardMode::Enforce, files, margin: Bytes::new(4097), own, below };
            let guarded = Guarded::from(&cover);
            assert_eq!(guarded.margin, 2);
            assert_eq!(Cover::from(&guarded), Cover { margin: Bytes::new(8192), ..cover });
        }
    }
}
