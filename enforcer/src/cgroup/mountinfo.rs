//! `/proc/self/mountinfo`, as far as cgroups go. No I/O.

use std::{
    ffi::OsString,
    os::unix::ffi::OsStringExt as _,
    path::{Path, PathBuf},
};

/// One mount of a cgroup file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CgroupMount {
    /// Which folder of the hierarchy is mounted; `/` is all that this cgroup namespace shows.
    pub root: PathBuf,
    /// Where.
    pub point: PathBuf,
    /// `cgroup2`, not v1.
    pub v2: bool,
    /// The super block's options, comma-separated: for v1 its controllers, for v2 its features.
    pub options: String,
}

impl CgroupMount {
    /// Whether the super block has this option.
    pub fn has(&self, option: &str) -> bool {
        self.options.split(',').any(|word| word == option)
    }
}

/// What the mounts say about the memory controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hierarchy {
    /// A cgroup2 mount, and no v1 mount holds the memory controller.
    Unified(CgroupMount),
    /// The memory controller is bound to cgroup v1, at this mount point.
    MemoryOnV1 {
        /// Where.
        point: PathBuf,
    },
    /// No cgroup2 mount.
    NotMounted,
}

/// Every cgroup mount in the text of a mountinfo file; lines that are something else or that make no sense are
/// passed over.
pub fn cgroup_mounts(text: &[u8]) -> Vec<CgroupMount> {
    text.split(|byte| *byte == b'\n').filter_map(mount_of_line).collect()
}

/// `id parent major:minor root point options optional* - type source super-options`
/// (`show_mountinfo` in `fs/proc_namespace.c`).
fn mount_of_line(line: &[u8]) -> Option<CgroupMount> {
    let mut words = line.split(|byte| *byte == b' ');
    let root = words.nth(3)?;
    let point = words.next()?;
    let mut tail = words.skip_while(|word| *word != b"-").skip(1);
    let v2 = match tail.next()? {
        b"cgroup2" => true,
        b"cgroup" => false,
        _ => return None,
    };
    let options = String::from_utf8_lossy(tail.nth(1)?).into_owned();
    Some(CgroupMount { root: unescape(root), point: unescape(point), v2, options })
}

/// The kernel writes blank, tab, line feed and backslash as `\ooo` (`mangle` in `fs/proc_namespace.c`).
fn unescape(word: &[u8]) -> PathBuf {
    let mut out = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((&byte, after)) = rest.split_first() {
        if let ([b'\\', a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7'], tail) =
            rest.split_at(rest.len().min(4))
        {
            out.push(((a - b'0') << 6) | ((b - b'0') << 3) | (c - b'0'));
            rest = tail;
        } else {
            out.push(byte);
            rest = after;
        }
    }
    PathBuf::from(OsString::from_vec(out))
}

/// Chooses the mount to use: one that shows the whole hierarchy before one that shows a part of it, then
/// `/sys/fs/cgroup` before another, then the first.
pub fn hierarchy(mounts: &[CgroupMount]) -> Hierarchy {
    if let Some(v1) = mounts.iter().find(|mount| !mount.v2 && mount.has("memory")) {
        return Hierarchy::MemoryOnV1 { point: v1.point.clone() };
    }
    let rank =
        |mount: &&CgroupMount| (mount.root != Path::new("/"), mount.point != Path::new("/sys/fs/cgroup"));
    match mounts.iter().filter(|mount| mount.v2).min_by_key(rank) {
        Some(mount) => Hierarchy::Unified(mount.clone()),
        None => Hierarchy::NotMounted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const UNIFIED: &[u8] = b"22 27 0:21 / /proc rw,nosuid - proc proc rw
28 22 0:26 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot
";
    const HYBRID: &[u8] = b"30 23 0:27 / /sys/fs/cgroup/unified rw shared:10 - cgroup2 cgroup2 rw,nsdelegate
31 23 0:28 / /sys/fs/cgroup/memory rw shared:11 - cgroup cgroup rw,memory
";

    #[test]
    fn unified_and_its_options() {
        let Hierarchy::Unified(mount) = hierarchy(&cgroup_mounts(UNIFIED)) else { panic!("not unified") };
        assert_eq!(mount.point, Path::new("/sys/fs/cgroup"));
        assert!(mount.has("memory_recursiveprot"));
        assert!(!mount.has("memory_hugetlb_accounting"));
    }

    #[test]
    fn hybrid_and_v1_are_named() {
        let point = PathBuf::from("/sys/fs/cgroup/memory");
        assert_eq!(hierarchy(&cgroup_mounts(HYBRID)), Hierarchy::MemoryOnV1 { point });
        assert_eq!(hierarchy(&[]), Hierarchy::NotMounted);
    }

    #[test]
    fn a_whole_mount_is_preferred_to_a_part() {
        let part = b"1 2 0:26 /kubepods /run/part rw - cgroup2 cgroup2 rw\n";
        let mounts = cgroup_mounts(&[&part[..], UNIFIED].concat());
        assert_eq!(mounts.len(), 2);
        let Hierarchy::Unified(mount) = hierarchy(&mounts) else { panic!("not unified") };
        assert_eq!(mount.root, Path::new("/"));
    }

    #[test]
    fn octal_escapes_are_undone() {
        assert_eq!(unescape(b"/a\\040b\\134c\\0"), Path::new("/a b\\c\\0"));
    }

    proptest! {
        #[test]
        fn any_bytes_parse_without_a_panic(text in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = hierarchy(&cgroup_mounts(&text));
        }
    }
}
