//! A virtual machine's memory, by the command line of its monitor. No I/O.
//!
//! It is what the monitor was told to make, not what the guest has touched of it. Monitors that are told over a socket
//! (cloud-hypervisor under Kata, firecracker) do not have it there.

use enforcer_gate::Bytes;
use std::path::Path;

/// The memory of the machine that this process is the monitor of; `None` where it is none, or does not say.
pub fn memory(program: &Path, argv: &[String]) -> Option<Bytes> {
    let name = program.file_name()?.to_str()?;
    let name = name.strip_suffix(" (deleted)").unwrap_or(name);
    let after = |option: &str| argv.iter().skip_while(|arg| *arg != option).nth(1);
    if name.starts_with("qemu-system-") || name == "qemu-kvm" {
        // `-m [size=]megs[,slots=n,maxmem=size]` of qemu(1); without a suffix it is MiB.
        let first = after("-m")?.split(',').find_map(|part| match part.split_once('=') {
            None => Some(part),
            Some((key, value)) => (key == "size").then_some(value),
        })?;
        return amount(first, 20);
    }
    if name == "cloud-hypervisor" {
        // `--memory size=<bytes>[,...]`, with a suffix of K, M or G.
        let size = after("--memory")?.split(',').find_map(|part| part.strip_prefix("size="))?;
        return amount(size, 0);
    }
    None
}

/// A number with a binary suffix; without one it is in units of 2^`plain`.
fn amount(text: &str, plain: u32) -> Option<Bytes> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, suffix) = text.split_at(digits);
    let shift = match suffix {
        "" => plain,
        "k" | "K" => 10,
        "m" | "M" => 20,
        "g" | "G" => 30,
        "t" | "T" => 40,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift).filter(|bytes| *bytes > 0).map(Bytes::new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn as_monitors_are_told() {
        for (program, argv, mib) in [
            // As Kata Containers starts qemu.
            (
                "/usr/bin/qemu-system-x86_64",
                "-name sandbox-ab -machine q35 -m 2048M,slots=10,maxmem=32768M -smp 1",
                Some(2048),
            ),
            ("/opt/kata/bin/qemu-system-x86_64 (deleted)", "-m 512", Some(512)),
            ("/usr/libexec/qemu-kvm", "-m size=1G,slots=2", Some(1024)),
            ("/usr/bin/qemu-system-aarch64", "-m slots=2,size=4g", Some(4096)),
            ("/usr/bin/cloud-hypervisor", "--cpus boot=1 --memory size=256M,shared=on", Some(256)),
            ("/usr/bin/cloud-hypervisor", "--memory size=268435456", Some(256)),
            ("/usr/bin/cloud-hypervisor", "--api-socket /run/a.sock", None),
            ("/usr/bin/qemu-system-x86_64", "-smp 1", None),
            ("/usr/bin/qemu-system-x86_64", "-m", None),
            ("/usr/bin/qemu-system-x86_64", "-m 1.5G", None),
            ("/usr/bin/qemu-system-x86_64", "-m 0", None),
            ("/usr/bin/qemu-system-x86_64", "-m 99999999999999999999G", None),
            ("/usr/bin/qemu-system-x86_64", "-m 18446744073709551615T", None),
            ("/usr/libexec/virtiofsd", "-m 2048M", None),
            ("/usr/bin/firecracker", "--id ab", None),
            ("", "-m 1", None),
        ] {
            let argv: Vec<String> = argv.split(' ').map(String::from).collect();
            assert_eq!(memory(Path::new(program), &argv), mib.map(Bytes::from_mib), "{program} {argv:?}");
        }
    }

    proptest! {
        #[test]
        fn no_command_line_panics(args in proptest::collection::vec("(-m|--memory|size=|[0-9]{0,25}[kMGTx]?|,|=|\\PC)*", 0..5)) {
            let _ = memory(Path::new("/qemu-kvm"), &args);
            let _ = memory(Path::new("/cloud-hypervisor"), &args);
        }
    }
}
