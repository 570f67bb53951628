//! Finds what is missing on this machine, says what it installs and why, installs it, goes on.

use crate::apt::{self, Apt, Suites};
use crate::{cache, run};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The linker for the kernel programs; the version that fits the LLVM of the compilers in reach.
const BPF_LINKER: &str = "0.13.0";

/// A Debian package that provides `path`.
struct Need {
    path: &'static str,
    package: &'static str,
    why: &'static str,
}

const BUILD: [Need; 3] = [
    Need {
        path: "/usr/bin/rustc",
        package: "rustc-web",
        why: "a compiler whose library source is to be had",
    },
    Need { path: "/usr/bin/cargo", package: "cargo-web", why: "its cargo" },
    Need { path: "/usr/bin/cc", package: "gcc", why: "links programs of the host" },
];

const GUEST: [Need; 4] = [
    Need { path: "/sbin/mke2fs", package: "e2fsprogs", why: "makes the guest's disk" },
    Need { path: "/sbin/mkswap", package: "util-linux", why: "makes the guest's swap" },
    Need { path: "/sbin/depmod", package: "kmod", why: "orders the guest's modules" },
    Need { path: "/usr/bin/xz", package: "xz-utils", why: "unpacks the guest's modules" },
];

/// What is needed to build the kernel programs and user space.
pub(crate) fn build() -> Result<()> {
    let nightly = nightly_with_source();
    if nightly {
        println!("    kernel programs: rustup nightly with rust-src");
    } else {
        println!("    kernel programs: Debian's rustc-web with its library source");
        install_missing(&BUILD)?;
        let source =
            PathBuf::from(run::output(Command::new("/usr/bin/rustc").arg("--print=sysroot"))?.trim());
        if !source.join("lib/rustlib/src/rust/library/core").exists() {
            install(&["rust-web-src"], "the library source of that compiler", None)?;
        }
    }
    linker(nightly)
}

/// What is needed to boot a guest.
pub(crate) fn guest() -> Result<()> {
    install_missing(&GUEST)?;
    if qemu_major().is_none_or(|major| major < 10) {
        // Both at once: the older emulator alone would remove a qemu-utils that is there.
        let apt = Apt::open(Suites::Backports)?;
        let release = apt::release()?;
        let target = format!("{release}-backports");
        let has_new = release != "bookworm";
        install(
            &["qemu-system-x86", "qemu-utils"],
            "the emulator; 7.2 panics at random under 6.12, 10 does not",
            Some((&apt, (!has_new).then_some(target.as_str()))),
        )?;
    }
    Ok(())
}

/// A static busybox, for a shell in the guest.
pub(crate) fn busybox() -> Result<PathBuf> {
    let folder = cache::folder("busybox")?;
    let find =
        || ["bin/busybox", "usr/bin/busybox"].map(|path| folder.join(path)).into_iter().find(|p| p.exists());
    if let Some(found) = find() {
        return Ok(found);
    }
    println!("    fetching busybox-static, for a shell in the guest");
    Apt::open(Suites::Backports)?.unpack(&["busybox-static".to_owned()], &folder)?;
    find().context("the package busybox-static holds no busybox")
}

fn qemu_major() -> Option<u32> {
    let text = run::output(Command::new("qemu-system-x86_64").arg("--version")).ok()?;
    text.split_whitespace().find_map(|word| word.split('.').next()?.parse().ok())
}

fn nightly_with_source() -> bool {
    let root = run::output(Command::new("rustc").args(["+nightly", "--print=sysroot"]));
    root.is_ok_and(|root| Path::new(root.trim()).join("lib/rustlib/src/rust/library/core").exists())
}

/// bpf-linker, built against the LLVM of the compiler that makes the kernel programs.
fn linker(nightly: bool) -> Result<()> {
    let tools = cache::folder("tools")?;
    let found = tools.join("bin/bpf-linker");
    let on_path = run::output(Command::new("bpf-linker").arg("--version")).is_ok();
    if found.exists() || on_path {
        return Ok(());
    }
    let rustc = if nightly { Command::new("rustc") } else { Command::new("/usr/bin/rustc") };
    let major = llvm_major(rustc, nightly)?;
    let llvm = PathBuf::from(format!("/usr/lib/llvm-{major}"));
    if !llvm.join("include/llvm").exists() {
        install(&[&format!("llvm-{major}-dev")], "the LLVM that bpf-linker links", None)?;
    }
    println!("    building bpf-linker {BPF_LINKER} against LLVM {major}, once (about 3 minutes)");
    let mut cargo = Command::new("cargo");
    cargo.args([
        "install",
        "--quiet",
        "bpf-linker",
        "--version",
        BPF_LINKER,
        "--locked",
        "--no-default-features",
    ]);
    cargo.arg("--features").arg(format!("llvm-{major}")).arg("--root").arg(&tools);
    cargo.env("LLVM_PREFIX", &llvm).env_remove("CARGO_TARGET_DIR").env_remove("RUSTFLAGS");
    run::checked(&mut cargo).context("build bpf-linker")
}

fn llvm_major(mut rustc: Command, nightly: bool) -> Result<u32> {
    if nightly {
        rustc.arg("+nightly");
    }
    let text = run::output(rustc.arg("-vV"))?;
    let version = text.lines().find_map(|line| line.strip_prefix("LLVM version: "));
    version
        .and_then(|version| version.split('.').next()?.parse().ok())
        .context("the compiler does not say which LLVM it uses")
}

fn install_missing(needs: &[Need]) -> Result<()> {
    for need in needs {
        if !Path::new(need.path).exists() {
            install(&[need.package], need.why, None)?;
        }
    }
    Ok(())
}

/// Installs packages, from a private list of suites where one is given.
fn install(packages: &[&str], why: &str, from: Option<(&Apt, Option<&str>)>) -> Result<()> {
    let list = packages.join(" ");
    println!("    installing {list}: {why}");
    if !nix_root() {
        bail!("{list} missing ({why}); run this as root, or: apt-get install --no-install-recommends {list}");
    }
    let mut command = if let Some((apt, _)) = from {
        apt.command("apt-get")
    } else {
        own_lists()?;
        Command::new("apt-get")
    };
    if let Some((_, Some(target))) = from {
        command.args(["-t", target]);
    }
    command.args(["install", "--yes", "--quiet", "--no-install-recommends"]).args(packages);
    command.env("DEBIAN_FRONTEND", "noninteractive");
    run::output(&mut command).map(drop).with_context(|| format!("install {list}"))
}

/// Reads the machine's package lists where it has none yet.
fn own_lists() -> Result<()> {
    let policy = run::output(Command::new("apt-cache").args(["policy", "rustc-web"]))?;
    if policy.contains("Candidate") && !policy.contains("Candidate: (none)") {
        return Ok(());
    }
    run::output(Command::new("apt-get").args(["update", "--quiet"])).map(drop)
}

fn nix_root() -> bool {
    run::output(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0")
}
