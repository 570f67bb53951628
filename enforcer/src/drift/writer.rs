//! Who a process is, as far as the kernel vouches for it.

use super::cause::Who;
use std::os::unix::fs::MetadataExt as _;

/// Who the process is. One that is gone already is [`Who::Other`].
pub fn who(tgid: u32) -> Who {
    if tgid == std::process::id() {
        return Who::Ours;
    }
    let program = program(&tgid.to_string());
    if program.is_some() && program == self::program("self") {
        Who::Ours
    } else if is_systemd() && (tgid == 1 || program.is_some() && program == self::program("1")) {
        Who::Systemd
    } else {
        Who::Other
    }
}

/// The file that a process runs: device and inode, which nobody can choose as they can a name.
fn program(pid: &str) -> Option<(u64, u64)> {
    let file = std::fs::metadata(format!("/proc/{pid}/exe")).ok()?;
    Some((file.dev(), file.ino()))
}

/// Process 1 is systemd: its own test (`sd_booted`).
fn is_systemd() -> bool {
    std::fs::symlink_metadata("/run/systemd/system").is_ok_and(|meta| meta.is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn we_know_ourselves_and_nobody_else() {
        assert_eq!(who(std::process::id()), Who::Ours);
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("start sleep");
        let found = who(child.id());
        child.kill().expect("end it");
        child.wait().expect("wait for it");
        assert_eq!(found, Who::Other);
        assert_eq!(who(u32::MAX), Who::Other);
    }
}
