//! The guest kernels: one list, easy to extend.

use crate::apt::{Apt, Suites};
use crate::cache;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};

/// How much of the VM tier a kernel runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tier {
    /// Every test.
    Full,
    /// Hooks, gate and roll-back.
    Smoke,
}

/// One line of the list.
pub(crate) struct Kernel {
    /// What `--kernel` takes.
    pub(crate) name: &'static str,
    /// Debian's cloud kernels that fit (a regular expression for apt-cache); the newest is taken.
    pattern: &'static str,
    pub(crate) tier: Tier,
}

/// Oldest supported, default, the first with non-blocking limit writes in reach, newest in reach.
pub(crate) const KERNELS: [Kernel; 4] = [
    Kernel { name: "6.12", pattern: r"^linux-image-6\.12\.[0-9.]+\+deb12-cloud-amd64$", tier: Tier::Full },
    Kernel { name: "6.1", pattern: r"^linux-image-6\.1\.0-[0-9]+-cloud-amd64$", tier: Tier::Smoke },
    Kernel {
        name: "6.18",
        pattern: r"^linux-image-6\.18\.[0-9.]+\+deb1[34]-cloud-amd64$",
        tier: Tier::Smoke,
    },
    Kernel { name: "7", pattern: r"^linux-image-7\.[0-9.]+\+deb1[34]-cloud-amd64$", tier: Tier::Smoke },
];

/// The kernel that is used where none is named.
pub(crate) const DEFAULT: &str = "6.12";

/// A kernel on this machine's disk.
pub(crate) struct Unpacked {
    pub(crate) image: PathBuf,
    pub(crate) modules: PathBuf,
    /// `uname -r` of it.
    pub(crate) release: String,
}

/// What `--kernel` takes, for its help and its errors.
pub(crate) fn names() -> clap::builder::PossibleValuesParser {
    clap::builder::PossibleValuesParser::new(KERNELS.iter().map(|kernel| kernel.name))
}

/// The line called `name`.
pub(crate) fn find(name: &str) -> Result<&'static Kernel> {
    KERNELS.iter().find(|kernel| kernel.name == name).with_context(|| {
        let names: Vec<_> = KERNELS.iter().map(|kernel| kernel.name).collect();
        format!("no kernel {name:?} in the list (xtask/src/kernels.rs): {}", names.join(", "))
    })
}

impl Kernel {
    /// Finds it in the cache, or fetches and unpacks it there. Nothing is installed.
    pub(crate) fn unpacked(&self) -> Result<Unpacked> {
        let folder = cache::folder("kernels")?.join(self.name);
        if let Ok(found) = read(&folder) {
            return Ok(found);
        }
        let apt = Apt::open(Suites::Kernels)?;
        let mut names = apt.names(self.pattern)?;
        names.sort_by_key(|name| version(name));
        let Some(newest) = names.pop() else {
            bail!("the package archive in reach has no kernel that matches {}", self.pattern)
        };
        let partial = folder.with_extension("partial");
        if partial.exists() {
            std::fs::remove_dir_all(&partial)?;
        }
        // From 7.3 on the image is an empty package that depends on these two.
        let mut packages = vec![newest.clone()];
        for part in ["linux-binary-", "linux-modules-"] {
            let name = newest.replacen("linux-image-", part, 1);
            packages.extend(apt.names(&format!("^{}$", name.replace('+', r"\+").replace('.', r"\.")))?);
        }
        apt.unpack(&format!("fetching {newest}, some 40 to 100 MB"), &packages, &partial)?;
        read(&partial).with_context(|| format!("{newest} holds no kernel"))?;
        if folder.exists() {
            std::fs::remove_dir_all(&folder)?;
        }
        std::fs::rename(&partial, &folder)?;
        read(&folder)
    }
}

/// The image lies in `boot`, or beside the modules from 7.3 on.
fn read(folder: &Path) -> Result<Unpacked> {
    for base in ["lib/modules", "usr/lib/modules"] {
        let Ok(entries) = std::fs::read_dir(folder.join(base)) else { continue };
        for entry in entries {
            let modules = entry?.path();
            let Some(release) = modules.file_name().and_then(|name| name.to_str()) else { continue };
            let images = [folder.join("boot").join(format!("vmlinuz-{release}")), modules.join("vmlinuz")];
            let Some(image) = images.into_iter().find(|image| image.exists()) else { continue };
            index(folder, &modules, release)?;
            return Ok(Unpacked { image, release: release.to_owned(), modules });
        }
    }
    bail!("{} holds no kernel with modules", folder.display())
}

/// Debian makes `modules.dep` when a kernel is installed; this one is not.
fn index(folder: &Path, modules: &Path, release: &str) -> Result<()> {
    if modules.join("modules.dep").exists() {
        return Ok(());
    }
    // depmod wants <base>/lib/modules; where it is under usr, usr is the base.
    let base = modules.ancestors().nth(3).unwrap_or(folder);
    crate::run::checked(std::process::Command::new("/sbin/depmod").arg("-b").arg(base).arg(release))
}

/// Every number in a name, for an order in which 6.12.9 comes before 6.12.10.
fn version(name: &str) -> Vec<u64> {
    let name = name.split("-cloud").next().unwrap_or(name);
    let numbers = name.split(|c: char| !c.is_ascii_digit()).filter(|part| !part.is_empty());
    numbers.map(|part| part.parse().unwrap_or(u64::MAX)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newer_versions_sort_later() {
        let mut names = [
            "linux-image-6.12.117+deb12-cloud-amd64",
            "linux-image-6.12.9+deb12-cloud-amd64",
            "linux-image-6.12.90+deb12.1-cloud-amd64",
            "linux-image-6.12.90+deb12-cloud-amd64",
        ];
        names.sort_by_key(|name| version(name));
        assert!(names[0].contains("6.12.9+"));
        assert!(names[2].contains("deb12.1"));
        assert!(names[3].contains("6.12.117"));
    }

    #[test]
    fn the_list_has_one_default_and_no_name_twice() {
        assert_eq!(find(DEFAULT).unwrap().tier, Tier::Full);
        let mut names: Vec<_> = KERNELS.iter().map(|kernel| kernel.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), KERNELS.len());
        assert!(find("5.4").is_err());
    }
}
