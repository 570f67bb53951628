//! Writes an initramfs: a cpio archive in the "newc" format
//! (Documentation/driver-api/early-userspace/buffer-format.rst).

use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;

const DIRECTORY: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const LINK: u32 = 0o120_777;

/// An archive being written.
pub(crate) struct Archive<W: Write> {
    out: W,
    written: usize,
    inode: u32,
    directories: BTreeSet<String>,
}

impl<W: Write> Archive<W> {
    pub(crate) fn new(out: W) -> Self {
        Self { out, written: 0, inode: 1, directories: BTreeSet::new() }
    }

    /// A file at `path` (absolute in the guest), with its parents; everything is executable.
    pub(crate) fn file(&mut self, path: &str, content: &[u8]) -> Result<()> {
        let path = path.trim_start_matches('/');
        self.parents(path)?;
        self.entry(path, PROGRAM, content)
    }

    /// The file of the host at `from`.
    pub(crate) fn copy(&mut self, path: &str, from: &Path) -> Result<()> {
        let content = std::fs::read(from).with_context(|| format!("read {}", from.display()))?;
        self.file(path, &content)
    }

    /// A symbolic link.
    pub(crate) fn link(&mut self, path: &str, target: &str) -> Result<()> {
        let path = path.trim_start_matches('/');
        self.parents(path)?;
        self.entry(path, LINK, target.as_bytes())
    }

    /// Ends the archive.
    pub(crate) fn finish(mut self) -> Result<W> {
        self.entry("TRAILER!!!", 0, &[])?;
        Ok(self.out)
    }

    fn parents(&mut self, path: &str) -> Result<()> {
        let slashes = path.match_indices('/').map(|(at, _)| at);
        for at in slashes {
            let directory = &path[..at];
            if self.directories.insert(directory.to_owned()) {
                self.entry(directory, DIRECTORY, &[])?;
            }
        }
        Ok(())
    }

    fn entry(&mut self, name: &str, mode: u32, content: &[u8]) -> Result<()> {
        let size = u32::try_from(content.len()).context("file too large for an initramfs")?;
        let name_size = u32::try_from(name.len() + 1)?;
        self.put(b"070701")?;
        // inode, mode, uid, gid, links, mtime, size, device (major, minor), device of a node, name, checksum
        for field in [self.inode, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, name_size, 0] {
            self.put(format!("{field:08x}").as_bytes())?;
        }
        self.inode += 1;
        self.put(name.as_bytes())?;
        self.put(&[0])?;
        self.pad()?;
        self.put(content)?;
        self.pad()
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.out.write_all(bytes).context("write the initramfs")?;
        self.written += bytes.len();
        Ok(())
    }

    fn pad(&mut self) -> Result<()> {
        let missing = self.written.next_multiple_of(4) - self.written;
        self.put(&[0; 4][..missing])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_and_alignment() {
        let mut archive = Archive::new(Vec::new());
        archive.file("/a/b", b"hello").unwrap();
        let bytes = archive.finish().unwrap();
        assert_eq!(bytes.len() % 4, 0);
        let text = String::from_utf8_lossy(&bytes);
        assert!(text.starts_with("07070100000001000041ed"), "the parent directory comes first");
        let file = text.find("a/b\0").expect("the file's name");
        assert_eq!(file % 2, 0);
        assert!(text.contains("hello"));
        assert!(text.contains("TRAILER!!!"));
        // size of the file: the seventh field
        let header = &text[file - 110..file];
        assert_eq!(&header[6 + 6 * 8..6 + 7 * 8], "00000005");
    }
}
