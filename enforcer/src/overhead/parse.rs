//! Texts of /proc. No I/O.

use enforcer_gate::{Bytes, PAGE_SIZE};

const KIB: u64 = 1024;

/// The value in kB of a line `Name:   123 kB`, as in `smaps_rollup`, `status` and `meminfo`. `None` where there is no
/// such line, or no such value in it.
pub fn kib(text: &str, name: &str) -> Option<Bytes> {
    let value = field(text, name)?.strip_suffix(" kB")?;
    value.trim().parse::<u64>().ok().map(|kib| Bytes::new(kib.saturating_mul(KIB)))
}

/// The value of a line `Name:   123`.
pub fn count(text: &str, name: &str) -> Option<u64> {
    field(text, name)?.trim().parse().ok()
}

fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = text.lines();
    lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

/// What `/proc/PID/stat` has of a process (`proc_pid_stat(5)`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// Its parent's number.
    pub parent: u32,
    /// CPU time of all its threads, those that have ended as well, in ticks: `utime` and `stime`.
    pub used: u64,
    /// The same of its children that have ended and that it has waited for, and of theirs: `cutime` and `cstime`.
    pub reaped: u64,
    /// When it was started, in ticks since boot.
    pub started: u64,
}

/// `/proc/PID/stat`: the name before the figures may hold anything.
pub fn stat(text: &str) -> Option<Stat> {
    let (_, fields) = text.rsplit_once(") ")?;
    let mut fields = fields.split(' ');
    // Fields 4, 14 to 17 and 22; the first one here is field 3.
    let parent = fields.nth(1)?.parse().ok()?;
    let user: u64 = fields.nth(9)?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    // These are signed, and never negative.
    let reaped_user: u64 = fields.next()?.parse().ok()?;
    let reaped_system: u64 = fields.next()?.parse().ok()?;
    let started = fields.nth(4)?.parse().ok()?;
    let reaped = reaped_user.saturating_add(reaped_system);
    Some(Stat { parent, used: user.saturating_add(system), reaped, started })
}

/// Free pages that CPUs keep for themselves, in `/proc/zoneinfo`: `MemFree`, and so `MemAvailable`, lacks them
/// (`NR_FREE_PAGES` counts those of the buddy allocator).
pub fn free_on_cpus(text: &str) -> Bytes {
    let mut pages = 0_u64;
    let mut in_sets = false;
    for line in text.lines() {
        let line = line.trim();
        if line == "pagesets" {
            in_sets = true;
        } else if line.starts_with("Node ") {
            in_sets = false;
        } else if in_sets && let Some(count) = line.strip_prefix("count:") {
            pages = pages.saturating_add(count.trim().parse().unwrap_or(0));
        }
    }
    Bytes::new(pages.saturating_mul(PAGE_SIZE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_of_the_kernel() {
        let rollup = "00400000-7ffd [rollup]\nRss:  10 kB\nPss:  9 kB\nPss_Dirty: 1 kB\nPss_Anon:   4 kB\n";
        assert_eq!(kib(rollup, "Pss_Anon"), Some(Bytes::new(4096)));
        assert_eq!(kib(rollup, "Pss"), Some(Bytes::new(9 * 1024)), "and not Pss_Dirty");
        assert_eq!(kib(rollup, "Pss_File"), None);
        assert_eq!(kib("Pss: x kB\n", "Pss"), None);
        assert_eq!(kib("Pss: 3\n", "Pss"), None);
        assert_eq!(count("Name:\ta\nThreads:\t11\n", "Threads"), Some(11));
    }

    #[test]
    fn a_name_may_hold_anything() {
        let rest = "S 1 20 20 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 11 0 4242 9 9";
        for name in ["containerd-shim", "a) S 7 7", ") ", ""] {
            assert_eq!(
                stat(&format!("20 ({name}) {rest}")),
                Some(Stat { parent: 1, used: 11, reaped: 15, started: 4242 }),
                "{name}"
            );
        }
        assert_eq!(stat("20 (a) S 1 2"), None);
        assert_eq!(stat(""), None);
    }

    #[test]
    fn pages_of_cpus() {
        let text = "Node 0, zone      DMA\n  pages free     3840\n  pagesets\n    cpu: 0\n              count: 5\n\
                    \u{20}             high:  378\n    cpu: 1\n              count:    7\n  node_unreclaimable:  0\n\
                    Node 0, zone    DMA32\n        count: 100\n  pagesets\n    cpu: 0\n              count: 1\n";
        assert_eq!(free_on_cpus(text), Bytes::new(13 * PAGE_SIZE));
        assert_eq!(free_on_cpus(""), Bytes::ZERO);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(Pss|pagesets|count|:| |kB|[0-9]{1,25}|\\)|\n|\\PC){0,40}") {
            let _ = (kib(&text, "Pss"), count(&text, "count"), stat(&text), free_on_cpus(&text));
        }
    }
}
