//! Bounded text from the kernel. Untrusted: whoever prints it escapes it.

/// Bytes of a task's name, its NUL included (`TASK_COMM_LEN`).
pub const COMM_LEN: usize = 16;
/// Bytes kept of a string written to a limit file, a NUL included.
pub const ASKED_LEN: usize = 32;
/// Bytes kept of a cgroup's name, a NUL included. The kernel allows 255.
pub const NAME_LEN: usize = 128;

/// At most `N` bytes of text; a NUL ends it, what follows the NUL is not part of it.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct Text<const N: usize>([u8; N]);

impl<const N: usize> Text<N> {
    /// No text.
    pub const EMPTY: Self = Self([0; N]);

    /// Takes the first `N` bytes of `bytes`.
    pub fn new(bytes: &[u8]) -> Self {
        let mut text = Self::EMPTY;
        for (to, from) in text.0.iter_mut().zip(bytes) {
            *to = *from;
        }
        text
    }

    /// The bytes before the first NUL, or all of them.
    pub fn as_bytes(&self) -> &[u8] {
        match self.0.iter().position(|byte| *byte == 0) {
            Some(end) => &self.0[..end],
            None => &self.0,
        }
    }

    /// The whole buffer.
    pub const fn buffer(&self) -> &[u8; N] {
        &self.0
    }

    /// The whole buffer, for a kernel program to fill.
    pub const fn buffer_mut(&mut self) -> &mut [u8; N] {
        &mut self.0
    }
}

impl<const N: usize> core::fmt::Debug for Text<N> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "\"{}\"", self.as_bytes().escape_ascii())
    }
}

impl<const N: usize> From<[u8; N]> for Text<N> {
    fn from(bytes: [u8; N]) -> Self {
        Self(bytes)
    }
}
