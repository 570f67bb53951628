//! Handing the guest over to the systemd of a Debian disk, with the job as one of its units.

use anyhow::{Context, Result};
use nix::mount::{MsFlags, mount};
use nix::unistd::{chdir, chroot};
use std::convert::Infallible;
use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// Is there where the third disk holds a Debian; names the files that it gets besides those in /bin.
const WANTED: &str = "/debian";
const DISK: &str = "/dev/vdc";
const ROOT: &str = "/sysroot";
/// Our programs on that disk, beside this one.
const PROGRAMS: &str = "opt/enforcer";
/// Mounted here already, and taken along.
const MOVED: [&str; 6] = ["/proc", "/sys", "/dev", "/data", "/run", "/tmp"];

/// The argument with which this program, as the unit below, runs the job.
pub(crate) const RUN_JOB: &str = "--job";

/// The job starts once the buses are there, and may have cgroups below its own.
const UNIT: &str = "[Unit]\nDescription=The job of this boot\nDefaultDependencies=no\nAfter=basic.target dbus.socket\n\
     [Service]\nExecStart=/opt/enforcer/init --job\nStandardOutput=journal+console\nStandardError=journal+console\n\
     Delegate=yes\nOOMPolicy=continue\nTasksMax=infinity\n\
     [Install]\nWantedBy=multi-user.target\n";

pub(crate) fn is_wanted() -> bool {
    Path::new(WANTED).exists()
}

/// Becomes systemd.
pub(crate) fn hand_over() -> Result<Infallible> {
    fs::create_dir_all(ROOT)?;
    mount(Some(DISK), ROOT, Some("ext4"), MsFlags::empty(), None::<&str>)
        .with_context(|| format!("mount {DISK} on {ROOT}"))?;
    bring_programs().context("bring the programs to the Debian disk")?;
    fs::create_dir_all(Path::new(ROOT).join("data"))?;
    let none = None::<&str>;
    for from in MOVED {
        let to = format!("{ROOT}{from}");
        mount(Some(from), to.as_str(), none, MsFlags::MS_MOVE, none)
            .with_context(|| format!("move {from}"))?;
    }
    chdir(ROOT)?;
    mount(Some("."), "/", none, MsFlags::MS_MOVE, none).context("move the root")?;
    chroot(".")?;
    chdir("/")?;
    Err(Command::new("/usr/lib/systemd/systemd").env_clear().exec()).context("start systemd")
}

/// Copies: what lies in the initramfs can't be reached once the root has moved.
fn bring_programs() -> Result<()> {
    let folder = Path::new(ROOT).join(PROGRAMS);
    fs::create_dir_all(&folder)?;
    fs::copy("/init", folder.join("init"))?;
    for entry in fs::read_dir("/bin")? {
        let entry = entry?;
        fs::copy(entry.path(), folder.join(entry.file_name()))?;
        let link = Path::new(ROOT).join("usr/bin").join(entry.file_name());
        if !link.exists() {
            symlink(Path::new("/").join(PROGRAMS).join(entry.file_name()), link)?;
        }
    }
    for name in ["job", "terminal"] {
        let from = Path::new("/").join(name);
        if from.exists() {
            fs::copy(&from, Path::new(ROOT).join(name))?;
        }
    }
    for path in fs::read_to_string(WANTED)?.split_terminator('\0') {
        let to = Path::new(ROOT).join(path.trim_start_matches('/'));
        fs::create_dir_all(to.parent().unwrap_or(Path::new(ROOT)))?;
        fs::copy(path, &to).with_context(|| format!("bring {path}"))?;
    }
    let units = Path::new(ROOT).join("etc/systemd/system");
    let wants = units.join("multi-user.target.wants");
    fs::create_dir_all(&wants)?;
    fs::write(units.join("enforcer-job.service"), UNIT)?;
    symlink("../enforcer-job.service", wants.join("enforcer-job.service"))?;
    Ok(())
}
