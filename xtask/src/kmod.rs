//! Modules of a guest kernel, in an order in which they load.

use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the guest needs where the kernel has it as a module; a name that is built in or unknown is left out.
pub(crate) const WANTED: [&str; 5] = ["virtio_pci", "virtio_blk", "ext4", "zram", "overlay"];

/// The files to load, dependencies first, each once.
pub(crate) fn ordered(directory: &Path, wanted: &[&str]) -> Result<Vec<PathBuf>> {
    let index = directory.join("modules.dep");
    let text = std::fs::read_to_string(&index).with_context(|| format!("read {}", index.display()))?;
    Ok(order(&text, wanted).into_iter().map(|path| directory.join(path)).collect())
}

/// A module's content, unpacked where it is compressed.
pub(crate) fn content(path: &Path) -> Result<Vec<u8>> {
    let tool = match path.extension().and_then(|ending| ending.to_str()) {
        Some("xz") => "xz",
        Some("zst") => "zstd",
        _ => return std::fs::read(path).with_context(|| format!("read {}", path.display())),
    };
    let out = Command::new(tool).arg("-dc").arg(path).output().with_context(|| format!("run {tool}"))?;
    anyhow::ensure!(out.status.success(), "{tool} can't unpack {}", path.display());
    Ok(out.stdout)
}

fn name(path: &str) -> String {
    let file = path.rsplit('/').next().unwrap_or(path);
    file.split('.').next().unwrap_or(file).replace('-', "_")
}

/// `modules.dep`: a line a module, `path: dependency dependency ...`, where all of its dependencies are named,
/// those that load last first (depmod(8)).
fn order(text: &str, wanted: &[&str]) -> Vec<String> {
    let modules: BTreeMap<String, (&str, Vec<&str>)> = text
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(path, needs)| (name(path), (path, needs.split_whitespace().collect())))
        .collect();
    let mut order: Vec<String> = Vec::new();
    for name in wanted {
        let Some((path, needs)) = modules.get(*name) else { continue };
        for file in needs.iter().rev().chain(std::iter::once(path)) {
            if !order.iter().any(|known| known == file) {
                order.push((*file).to_owned());
            }
        }
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_come_first_and_once() {
        let text = "kernel/fs/ext4/ext4.ko.xz: kernel/fs/jbd2/jbd2.ko.xz kernel/lib/crc16.ko.xz\n\
                    kernel/lib/crc16.ko.xz:\n\
                    kernel/fs/jbd2/jbd2.ko.xz: kernel/lib/crc16.ko.xz\n\
                    kernel/drivers/block/virtio_blk.ko:\n";
        assert_eq!(
            order(text, &["virtio_blk", "ext4", "jbd2", "absent"]),
            [
                "kernel/drivers/block/virtio_blk.ko",
                "kernel/lib/crc16.ko.xz",
                "kernel/fs/jbd2/jbd2.ko.xz",
                "kernel/fs/ext4/ext4.ko.xz"
            ]
        );
    }
}
