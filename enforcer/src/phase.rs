//! What comes again and again for many, so that those of one start do not stay together. No clock.

use std::time::Duration;

/// A part of `span` that is always the same for a name, and more than nothing.
pub(crate) fn phase(name: &[u8], span: Duration) -> Duration {
    span * (u32::from(crc32fast::hash(name).to_le_bytes()[0]) + 1) / 256
}
