//! Memory that is really there: every page written, with content that does not compress.

use anyhow::{Context, Result};
use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mlock, mmap, mmap_anonymous, munmap};
use std::ffi::c_void;
use std::fs::File;
use std::num::NonZeroUsize;
use std::ptr::NonNull;
use std::time::{Duration, Instant};

/// What the workloads count in.
pub(crate) const PAGE: usize = 4096;

/// A mapping whose pages are touched from the start on, as far as `touched`.
pub(crate) struct Memory {
    start: NonNull<c_void>,
    length: NonZeroUsize,
    touched: usize,
    random: Random,
}

// SAFETY: the mapping belongs to this value alone; nothing in it is tied to a thread.
unsafe impl Send for Memory {}

impl Memory {
    /// Room for `size` bytes of anonymous memory, none of it touched. Without `thp` the kernel gives it
    /// page by page, so that what is charged is what was touched.
    pub(crate) fn reserve(size: usize, thp: bool) -> Result<Self> {
        let length = NonZeroUsize::new(size.next_multiple_of(PAGE).max(PAGE)).context("no size")?;
        let flags = MapFlags::MAP_PRIVATE | MapFlags::MAP_NORESERVE;
        // SAFETY: a new mapping at an address of the kernel's choice replaces nothing.
        let start =
            unsafe { mmap_anonymous(None, length, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, flags) }
                .with_context(|| format!("mapping {size} bytes"))?;
        let memory = Self { start, length, touched: 0, random: Random::new() };
        let advice = if thp { MmapAdvise::MADV_HUGEPAGE } else { MmapAdvise::MADV_NOHUGEPAGE };
        // A kernel without huge pages refuses the advice, and is what was asked for.
        // SAFETY: the range is the mapping made above.
        let _ = unsafe { madvise(start, length.get(), advice) };
        Ok(memory)
    }

    /// Anonymous memory, all of it touched.
    pub(crate) fn filled(size: usize, thp: bool) -> Result<Self> {
        let mut memory = Self::reserve(size, thp)?;
        memory.grow_to(size);
        Ok(memory)
    }

    /// A shared mapping of the first `size` bytes of a file, not touched.
    pub(crate) fn map_file(file: &File, size: usize) -> Result<Self> {
        let length = NonZeroUsize::new(size.next_multiple_of(PAGE).max(PAGE)).context("no size")?;
        // SAFETY: a new mapping at an address of the kernel's choice replaces nothing.
        let start = unsafe { mmap(None, length, ProtFlags::PROT_READ, MapFlags::MAP_SHARED, file, 0) }
            .with_context(|| format!("mapping {size} bytes of a file"))?;
        Ok(Self { start, length, touched: 0, random: Random::new() })
    }

    /// Bytes touched so far.
    pub(crate) fn touched(&self) -> usize {
        self.touched
    }

    /// Touches up to `size` bytes in whole pages, as far as the mapping goes.
    pub(crate) fn grow_to(&mut self, size: usize) {
        let end = size.next_multiple_of(PAGE).min(self.length.get());
        while self.touched < end {
            let page = self.start.as_ptr().cast::<[u64; PAGE / 8]>().wrapping_byte_add(self.touched);
            for word in 0..PAGE / 8 {
                // SAFETY: `touched` is below the length of the mapping, which is private, writable and ours;
                // page addresses are aligned.
                unsafe { (&raw mut (*page)[word]).write_volatile(self.random.next()) };
            }
            self.touched += PAGE;
        }
    }

    /// Touches the mapping at a rate, until `size` is touched or `alive` says no (asked between steps).
    pub(crate) fn grow_at(
        &mut self,
        rate: usize,
        size: usize,
        alive: &mut dyn FnMut(Duration) -> bool,
    ) -> bool {
        let begun = Instant::now();
        let from = self.touched;
        while self.touched < size.min(self.length.get()) {
            if !alive(Duration::from_millis(10)) {
                return false;
            }
            let owed = (rate as u128 * begun.elapsed().as_micros() / 1_000_000) as usize;
            // Whole pages only, or a slow rate would round up to a page at every step.
            self.grow_to((from + owed).min(size) / PAGE * PAGE);
            if size - self.touched < PAGE && owed >= size - from {
                self.grow_to(size);
            }
        }
        true
    }

    /// Reads one word of every page of the mapping.
    pub(crate) fn read_all(&self) -> u64 {
        let mut sum = 0_u64;
        for offset in (0..self.length.get()).step_by(PAGE) {
            let word = self.start.as_ptr().cast::<u64>().wrapping_byte_add(offset);
            // SAFETY: the offset is below the length of the mapping, and page addresses are aligned. A file
            // mapping is as long as its file.
            sum = sum.wrapping_add(unsafe { word.read_volatile() });
        }
        sum
    }

    /// Writes one word of every touched page.
    pub(crate) fn rewrite(&mut self) {
        for offset in (0..self.touched).step_by(PAGE) {
            let word = self.start.as_ptr().cast::<u64>().wrapping_byte_add(offset);
            // SAFETY: as in `grow_to`.
            unsafe { word.write_volatile(self.random.next()) };
        }
    }

    /// Gives every page back and keeps the room.
    pub(crate) fn drop_pages(&mut self) -> Result<()> {
        // SAFETY: the range is this mapping; nobody else refers to its content.
        unsafe { madvise(self.start, self.length.get(), MmapAdvise::MADV_DONTNEED) }.context("freeing")?;
        self.touched = 0;
        Ok(())
    }

    /// Locks the whole mapping, which touches it too.
    pub(crate) fn lock(&mut self) -> Result<()> {
        // SAFETY: the range is this mapping.
        unsafe { mlock(self.start, self.length.get()) }
            .with_context(|| format!("locking {} bytes (ulimit -l?)", self.length))
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the range is this mapping, and nothing outlives it.
        let _ = unsafe { munmap(self.start, self.length.get()) };
    }
}

/// xorshift64: fast, and nothing that compression or same-page merging could use.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new() -> Self {
        // Another process has another seed, so no page of two processes is the same.
        Self(0x9e37_79b9_7f4a_7c15 ^ (u64::from(std::process::id()) << 32 | 1))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A page's worth of bytes.
    pub(crate) fn fill(&mut self, buffer: &mut [u8]) {
        for chunk in buffer.chunks_mut(8) {
            chunk.copy_from_slice(&self.next().to_ne_bytes()[..chunk.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn touches_what_it_says() {
        let mut memory = Memory::reserve(10 * PAGE, false).expect("maps");
        assert_eq!(memory.touched(), 0);
        memory.grow_to(PAGE + 1);
        assert_eq!(memory.touched(), 2 * PAGE);
        memory.grow_to(100 * PAGE);
        assert_eq!(memory.touched(), 10 * PAGE);
        assert_ne!(memory.read_all(), 0);
        memory.drop_pages().expect("frees");
        assert_eq!((memory.touched(), memory.read_all()), (0, 0));
    }

    #[test]
    fn grows_at_a_rate_to_the_end() {
        let mut memory = Memory::reserve(64 * PAGE, false).expect("maps");
        let mut steps = 0;
        let whole = memory.grow_at(1 << 20, 3 * PAGE + 1, &mut |_| {
            steps += 1;
            std::thread::sleep(Duration::from_millis(1));
            true
        });
        assert!(whole && steps > 1, "{steps} steps");
        assert_eq!(memory.touched(), 4 * PAGE);
        assert!(!memory.grow_at(1, 64 * PAGE, &mut |_| false));
    }

    #[test]
    fn content_does_not_repeat() {
        let mut page = [0; PAGE];
        Random::new().fill(&mut page);
        let mut words: Vec<_> = page.chunks(8).collect();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), PAGE / 8);
    }
}
