//! Where the kernel keeps the places of a cgroup's counters.

use std::io::{BufRead, BufReader};

/// The kernel's symbols and their addresses.
const SYMBOLS: &str = "/proc/kallsyms";
/// `mm/memcontrol.c`, since 6.10.
const TABLE: &str = "mem_cgroup_stats_index";

/// The address of the table; `None` where the kernel does not tell it (built without `CONFIG_KALLSYMS_ALL`, or
/// addresses are hidden).
pub(super) fn address() -> Option<u64> {
    find(BufReader::with_capacity(1 << 16, std::fs::File::open(SYMBOLS).ok()?))
}

fn find(mut symbols: impl BufRead) -> Option<u64> {
    let mut line = Vec::new();
    loop {
        line.clear();
        if symbols.read_until(b'\n', &mut line).ok()? == 0 {
            return None;
        }
        if line.trim_ascii_end().ends_with(TABLE.as_bytes()) {
            let text = std::str::from_utf8(&line).ok()?;
            let mut words = text.split_ascii_whitespace();
            let (address, _, name) = (words.next()?, words.next()?, words.next()?);
            if name == TABLE {
                return u64::from_str_radix(address, 16).ok().filter(|address| *address != 0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_found_if_it_is_told() {
        for (text, expected) in [
            ("ffffffff82a00010 d mem_cgroup_stats_index\n", Some(0xffff_ffff_82a0_0010)),
            (
                "ffffffff82a00000 d other\nffffffff82a00010 d mem_cgroup_stats_index\nffff t x [module]\n",
                Some(0xffff_ffff_82a0_0010),
            ),
            ("ffffffff82a00010 d my_mem_cgroup_stats_index\n", None),
            ("0000000000000000 d mem_cgroup_stats_index\n", None),
            ("mem_cgroup_stats_index", None),
            ("", None),
        ] {
            assert_eq!(find(text.as_bytes()), expected, "{text:?}");
        }
    }
}
