//! The larger guest's root file system: Debian with systemd and the container runtimes.

use crate::apt::{Apt, Suites};
use crate::{cache, long, run, setup};
use anyhow::{Context, Result};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The release, and what is in it besides what Debian calls essential. Changing either makes a new image.
const RELEASE: &str = "trixie";
const PACKAGES: [&str; 5] = ["systemd-sysv", "dbus", "runc", "crun", "containerd"];
/// Documentation is most of the files and none of the use.
const EXCLUDED: [&str; 3] = ["/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*"];
/// Sparse; each boot writes to a copy of its own.
const IMAGE_BYTES: u64 = 3 << 30;

/// Every controller in every unit, so that a test can set any limit of any unit.
const ACCOUNTING: &str = "[Manager]\nDefaultCPUAccounting=yes\nDefaultMemoryAccounting=yes\n\
     DefaultTasksAccounting=yes\nDefaultIOAccounting=yes\n";
/// Units that wait for what this guest does not have, or that change what a test looks at.
const MASKED: [&str; 9] = [
    "systemd-modules-load.service",
    "serial-getty@ttyS0.service",
    "getty@tty1.service",
    "systemd-networkd-wait-online.service",
    "containerd.service",
    "systemd-oomd.service",
    "systemd-oomd.socket",
    "apt-daily.timer",
    "dpkg-db-backup.timer",
];

/// What only a benchmark compares with.
const COMPARED: [&str; 1] = ["systemd-oomd"];

/// The image: from the cache, or made once.
pub(crate) fn image() -> Result<PathBuf> {
    made(&PACKAGES)
}

/// The same with what the agent is compared with. Nothing of that runs unless it is started.
pub(crate) fn image_to_compare() -> Result<PathBuf> {
    made(&[&PACKAGES[..], &COMPARED].concat())
}

fn made(packages: &[&str]) -> Result<PathBuf> {
    let name = format!("{RELEASE}-{}.ext4", packages.join("-"));
    let folder = cache::folder("debian")?;
    let image = folder.join(&name);
    if image.exists() {
        return Ok(image);
    }
    setup::mmdebstrap()?;
    let apt = Apt::open(Suites::Kernels)?;
    let what = format!("making a Debian {RELEASE} guest with {}, once (some minutes)", packages.join(", "));
    let scratch = tempfile::tempdir_in(&folder)?;
    let root = scratch.path().join("root");
    let mut make = Command::new("mmdebstrap");
    make.args(["--variant=minbase", "--mode=root"]);
    make.arg(format!("--include={}", packages.join(",")));
    make.args([
        "--aptopt=APT::Install-Recommends \"false\"",
        "--aptopt=Acquire::Check-Valid-Until \"false\"",
    ]);
    make.args(EXCLUDED.map(|path| format!("--dpkgopt=path-exclude={path}")));
    make.arg("--dpkgopt=force-unsafe-io");
    make.arg(RELEASE).arg(&root).arg(apt.line(RELEASE)?);
    long::watched(&what, &mut make).context("make the Debian guest")?;
    configure(&root).context("configure the Debian guest")?;
    let partial = scratch.path().join("image");
    let mut fill = Command::new("/sbin/mke2fs");
    fs::File::create(&partial)?.set_len(IMAGE_BYTES)?;
    fill.args(["-q", "-t", "ext4", "-F", "-d"]).arg(&root).arg(&partial);
    run::checked(&mut fill).context("fill the Debian guest's disk")?;
    fs::rename(&partial, &image)?;
    Ok(image)
}

fn configure(root: &Path) -> Result<()> {
    let units = root.join("etc/systemd/system");
    let settings = root.join("etc/systemd/system.conf.d");
    fs::create_dir_all(&settings)?;
    fs::write(settings.join("accounting.conf"), ACCOUNTING)?;
    for unit in MASKED {
        symlink("/dev/null", units.join(unit)).with_context(|| format!("mask {unit}"))?;
    }
    fs::write(root.join("etc/hostname"), "guest\n")?;
    fs::write(root.join("etc/hosts"), "127.0.0.1 localhost guest\n")?;
    fs::write(root.join("etc/fstab"), "")?;
    // systemd asks nothing at the first boot where this is there.
    fs::write(root.join("etc/machine-id"), "0123456789abcdef0123456789abcdef\n")?;
    fs::create_dir_all(root.join("opt/enforcer"))?;
    Ok(())
}
