//! Flat keyed files: one `key value` a line.

use super::{Malformed, decimal};
use enforcer_gate::{Bytes, MemoryEvents, MemoryStat, Micros};

/// `cgroup.events`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CgroupEvents {
    /// A process lives in the cgroup or below it.
    pub populated: bool,
    /// Every process of it is frozen.
    pub frozen: bool,
}

/// What `memory.stat` tells beside [`MemoryStat`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StatExtra {
    /// `hugetlb`, where the kernel prints it: only with the mount option `memory_hugetlb_accounting`.
    pub hugetlb: Option<Bytes>,
}

/// Calls `each(key, value, line number)` for every line.
fn lines<'a>(
    text: &'a [u8],
    mut each: impl FnMut(&'a [u8], &'a [u8], u32) -> Result<(), Malformed>,
) -> Result<(), Malformed> {
    let mut line = 0_u32;
    for raw in text.split_inclusive(|byte| *byte == b'\n') {
        line = line.saturating_add(1);
        let Some(row) = raw.strip_suffix(b"\n") else { return Err(Malformed::CutOff { line }) };
        let space = row.iter().position(|byte| *byte == b' ').ok_or(Malformed::NoValue { line })?;
        each(&row[..space], &row[space + 1..], line)?;
    }
    Ok(())
}

/// Parses `memory.stat` (`memory_stat_format` in `mm/memcontrol.c`). Keys that are not there are zero.
pub fn memory_stat(text: &[u8]) -> Result<(MemoryStat, StatExtra), Malformed> {
    let mut stat = MemoryStat::default();
    let mut extra = StatExtra::default();
    let mut named = false;
    lines(text, |key, value, line| {
        let number = || decimal(value).ok_or(Malformed::NotANumber { line });
        let bytes = || number().map(Bytes::new);
        match key {
            b"anon" => {
                stat.anon = bytes()?;
                named = true;
            }
            b"file" => stat.file = bytes()?,
            b"kernel" => stat.kernel = bytes()?,
            b"sock" => stat.sock = bytes()?,
            b"shmem" => stat.shmem = bytes()?,
            b"zswap" => stat.zswap = bytes()?,
            b"zswapped" => stat.zswapped = bytes()?,
            b"file_mapped" => stat.file_mapped = bytes()?,
            b"file_dirty" => stat.file_dirty = bytes()?,
            b"file_writeback" => stat.file_writeback = bytes()?,
            b"swapcached" => stat.swapcached = bytes()?,
            b"inactive_anon" => stat.inactive_anon = bytes()?,
            b"active_anon" => stat.active_anon = bytes()?,
            b"inactive_file" => stat.inactive_file = bytes()?,
            b"active_file" => stat.active_file = bytes()?,
            b"unevictable" => stat.unevictable = bytes()?,
            b"slab_reclaimable" => stat.slab_reclaimable = bytes()?,
            b"slab_unreclaimable" => stat.slab_unreclaimable = bytes()?,
            b"workingset_refault_file" => stat.workingset_refault_file = number()?,
            b"workingset_refault_anon" => stat.workingset_refault_anon = number()?,
            b"pgscan" => stat.pgscan = number()?,
            b"pgsteal" => stat.pgsteal = number()?,
            b"hugetlb" => extra.hugetlb = Some(bytes()?),
            _ => {}
        }
        Ok(())
    })?;
    if named { Ok((stat, extra)) } else { Err(Malformed::Missing { key: "anon" }) }
}

/// Parses `memory.events` or `memory.events.local`. Keys that are not there are zero.
pub fn memory_events(text: &[u8]) -> Result<MemoryEvents, Malformed> {
    let mut events = MemoryEvents::default();
    let mut named = false;
    lines(text, |key, value, line| {
        let number = || decimal(value).ok_or(Malformed::NotANumber { line });
        match key {
            b"low" => events.low = number()?,
            b"high" => events.high = number()?,
            b"max" => events.max = number()?,
            b"oom" => events.oom = number()?,
            b"oom_kill" => {
                events.oom_kill = number()?;
                named = true;
            }
            b"oom_group_kill" => events.oom_group_kill = number()?,
            _ => {}
        }
        Ok(())
    })?;
    if named { Ok(events) } else { Err(Malformed::Missing { key: "oom_kill" }) }
}

/// Parses `cgroup.events`.
pub fn cgroup_events(text: &[u8]) -> Result<CgroupEvents, Malformed> {
    let (mut populated, mut frozen) = (None, None);
    lines(text, |key, value, line| {
        let flag = || match value {
            b"0" => Ok(Some(false)),
            b"1" => Ok(Some(true)),
            _ => Err(Malformed::NotANumber { line }),
        };
        match key {
            b"populated" => populated = flag()?,
            b"frozen" => frozen = flag()?,
            _ => {}
        }
        Ok(())
    })?;
    Ok(CgroupEvents {
        populated: populated.ok_or(Malformed::Missing { key: "populated" })?,
        frozen: frozen.ok_or(Malformed::Missing { key: "frozen" })?,
    })
}

/// `nr_descendants` of `cgroup.stat`: live cgroups below this one.
pub fn cgroup_stat_descendants(text: &[u8]) -> Result<u64, Malformed> {
    one(text, "nr_descendants")
}

/// `nr_dying_descendants` of `cgroup.stat`: cgroups below that are removed and still charged for something.
pub fn cgroup_stat_dying(text: &[u8]) -> Result<u64, Malformed> {
    one(text, "nr_dying_descendants")
}

/// `usage_usec` of `cpu.stat`: CPU time of a cgroup and all below it.
pub fn cpu_stat_usage(text: &[u8]) -> Result<Micros, Malformed> {
    one(text, "usage_usec").map(Micros::new)
}

fn one(text: &[u8], wanted: &'static str) -> Result<u64, Malformed> {
    let mut found = None;
    lines(text, |key, value, line| {
        if key == wanted.as_bytes() {
            found = Some(decimal(value).ok_or(Malformed::NotANumber { line })?);
        }
        Ok(())
    })?;
    found.ok_or(Malformed::Missing { key: wanted })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn memory_stat_takes_known_keys_and_passes_over_others() {
        let text = b"anon 4096\nfile 8192\nfuture_key 1.5 weird\nshmem 1\npgscan 7\nhugetlb 2097152\n";
        let (stat, extra) = memory_stat(text).unwrap();
        assert_eq!(stat.anon, Bytes::new(4096));
        assert_eq!(stat.file, Bytes::new(8192));
        assert_eq!(stat.shmem, Bytes::new(1));
        assert_eq!(stat.pgscan, 7);
        assert_eq!(stat.kernel, Bytes::ZERO);
        assert_eq!(extra.hugetlb, Some(Bytes::new(2_097_152)));
    }

    #[test]
    fn a_malformed_value_is_an_error_and_never_zero() {
        for (text, fault) in [
            (&b"anon -1\n"[..], Malformed::NotANumber { line: 1 }),
            (b"anon 1\nfile 18446744073709551616\n", Malformed::NotANumber { line: 2 }),
            (b"anon 1\nfile  2\n", Malformed::NotANumber { line: 2 }),
            (b"anon 1\nfile\n", Malformed::NoValue { line: 2 }),
            (b"anon 1\nfile 12", Malformed::CutOff { line: 2 }),
            (b"file 1\n", Malformed::Missing { key: "anon" }),
            (b"", Malformed::Missing { key: "anon" }),
        ] {
            assert_eq!(memory_stat(text), Err(fault), "{}", text.escape_ascii());
        }
    }

    #[test]
    fn events_of_old_and_new_kernels() {
        let old = memory_events(b"low 0\nhigh 3\nmax 2\noom 1\noom_kill 1\n").unwrap();
        assert_eq!(old, MemoryEvents { high: 3, max: 2, oom: 1, oom_kill: 1, ..MemoryEvents::default() });
        let new = b"low 0\nhigh 0\nmax 0\noom 0\noom_kill 6\noom_group_kill 1\nsock_throttled 2\n";
        assert_eq!(memory_events(new).unwrap().oom_group_kill, 1);
    }

    #[test]
    fn cgroup_events_need_both_flags() {
        let both = CgroupEvents { populated: true, frozen: false };
        assert_eq!(cgroup_events(b"populated 1\nfrozen 0\n"), Ok(both));
        assert_eq!(cgroup_events(b"populated 1\n"), Err(Malformed::Missing { key: "frozen" }));
        assert_eq!(cgroup_events(b"populated 2\nfrozen 0\n"), Err(Malformed::NotANumber { line: 1 }));
        assert_eq!(cgroup_stat_descendants(b"nr_descendants 12\nnr_dying_descendants 3\n"), Ok(12));
        assert_eq!(cpu_stat_usage(b"usage_usec 12\nuser_usec 3\n"), Ok(Micros::new(12)));
        assert_eq!(cpu_stat_usage(b"user_usec 3\n"), Err(Malformed::Missing { key: "usage_usec" }));
    }

    proptest! {
        #[test]
        fn any_bytes_parse_or_fail_without_a_panic(text in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = memory_stat(&text);
            let _ = memory_events(&text);
            let _ = cgroup_events(&text);
            let _ = cgroup_stat_descendants(&text);
        }

        #[test]
        fn what_the_kernel_prints_comes_back(anon: u64, file: u64, scan: u64) {
            let text = format!("anon {anon}\nfile {file}\npgscan {scan}\n");
            let (stat, _) = memory_stat(text.as_bytes()).unwrap();
            prop_assert_eq!((stat.anon.get(), stat.file.get(), stat.pgscan), (anon, file, scan));
        }
    }
}
