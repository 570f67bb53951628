//! Finds what is missing on this machine, says what it installs and why, installs it, goes on.

use crate::apt::{self, Apt, Suites};
use crate::{cache, long, run};
use anyhow::{Context, Result, bail};
use enforcer_ebpf_build::{Found, OBJECT_ENV, Toolchain, ToolchainKind, choose, look, prebuilt};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The linker for the kernel programs; the version that fits the LLVM of the compilers in reach.
const BPF_LINKER: &str = "0.13.0";

/// The oldest emulator under which every kernel of the list is reliable.
const QEMU_MIN: u32 = 10;

/// A Debian package that provides `path`.
struct Need {
    path: &'static str,
    package: &'static str,
    why: &'static str,
}

/// The kernel programs' compiler, its cargo and its library source.
const TOOLCHAIN: [&str; 3] = ["rustc-web", "cargo-web", "rust-web-src"];

/// What is kept of the package `prometheus`.
const PROMETHEUS: [&str; 2] = ["promtool", "prometheus"];

const GUEST: [Need; 4] = [
    Need { path: "/sbin/mke2fs", package: "e2fsprogs", why: "makes the guest's disk" },
    Need { path: "/sbin/mkswap", package: "util-linux", why: "makes the guest's swap" },
    Need { path: "/sbin/depmod", package: "kmod", why: "orders the guest's modules" },
    Need { path: "/usr/bin/xz", package: "xz-utils", why: "unpacks the guest's modules" },
];

/// What is needed to build the kernel programs and user space. `None` where a prebuilt object is named, which needs
/// no toolchain.
pub(crate) fn build() -> Result<Option<Toolchain>> {
    if let Some(object) = prebuilt()? {
        eprintln!("    kernel programs: {}, as {OBJECT_ENV} says", object.display());
        return Ok(None);
    }
    let mut found = look()?;
    if choose(&found).is_err() {
        if compiler(&found).is_none() {
            let why = "a compiler for the kernel programs with its library source";
            install(&TOOLCHAIN, why, None)?;
            found = look()?;
        }
        if found.linker.is_none() {
            linker(compiler(&found).context("no compiler for the kernel programs, even after set-up")?)?;
            found = look()?;
        }
    }
    let toolchain = choose(&found)?;
    eprintln!("    kernel programs: {toolchain}");
    Ok(Some(toolchain))
}

/// The lints for the kernel programs' compiler, where they are to be had.
pub(crate) fn kernel_lints(toolchain: &Toolchain) -> Result<bool> {
    let there = || enforcer_ebpf_build::lints(toolchain).is_some();
    if !there() && toolchain.kind == ToolchainKind::Debian {
        install(&["rust-web-clippy"], "lints for the kernel programs", None)?;
    }
    Ok(there())
}

/// One with which a linker is all that is missing.
fn compiler(found: &Found) -> Option<PathBuf> {
    let mut with_linker = found.clone();
    with_linker.linker.get_or_insert_with(PathBuf::new);
    choose(&with_linker).ok().map(|toolchain| toolchain.rustc)
}

/// What is needed to boot a guest.
pub(crate) fn guest() -> Result<()> {
    install_missing(&GUEST)?;
    let version = run::output(Command::new("qemu-system-x86_64").arg("--version"));
    if version.ok().and_then(|text| qemu_major(&text)).is_none_or(|major| major < QEMU_MIN) {
        let apt = Apt::open(Suites::Backports)?;
        let release = apt::release()?;
        let backports = format!("{release}-backports");
        // Both at once: the older emulator alone would remove a qemu-utils that is there.
        install(
            &["qemu-system-x86", "qemu-utils"],
            "the emulator; 7.2 panics at random under 6.12, 10 does not",
            Some((&apt, (release == "bookworm").then_some(backports.as_str()))),
        )?;
    }
    Ok(())
}

/// What makes the larger guest's root file system.
pub(crate) fn mmdebstrap() -> Result<()> {
    let why = "makes the larger guest's root file system";
    install_missing(&[Need { path: "/usr/bin/mmdebstrap", package: "mmdebstrap", why }])
}

/// A static busybox, for a shell in the guest.
pub(crate) fn busybox() -> Result<PathBuf> {
    let folder = cache::folder("busybox")?;
    let find =
        || ["bin/busybox", "usr/bin/busybox"].map(|path| folder.join(path)).into_iter().find(|p| p.exists());
    if let Some(found) = find() {
        return Ok(found);
    }
    let what = "fetching busybox-static, for a shell in the guest";
    Apt::open(Suites::Backports)?.unpack(what, &["busybox-static".to_owned()], &folder)?;
    find().context("the package busybox-static holds no busybox")
}

/// A folder with `promtool` and `prometheus`, for Prometheus' own checks of metrics and rules. Unpacked, and not
/// installed: the package starts a server.
pub(crate) fn prometheus() -> Result<PathBuf> {
    let folder = cache::folder("prometheus")?;
    if !PROMETHEUS.iter().all(|name| folder.join(name).exists()) {
        let scratch = tempfile::tempdir_in(&folder)?;
        let what = "fetching prometheus, for its checks, 19 MB";
        Apt::open(Suites::Backports)?.unpack(what, &["prometheus".to_owned()], scratch.path())?;
        for name in PROMETHEUS {
            std::fs::rename(scratch.path().join("usr/bin").join(name), folder.join(name))
                .with_context(|| format!("the package prometheus holds no {name}"))?;
        }
    }
    Ok(folder)
}

/// From `qemu-system-x86_64 --version`.
fn qemu_major(text: &str) -> Option<u32> {
    text.split_once("version ")?.1.split('.').next()?.parse().ok()
}

/// bpf-linker, built against the LLVM of the compiler that makes the kernel programs.
fn linker(rustc: PathBuf) -> Result<()> {
    let tools = cache::folder("tools")?;
    let major = llvm_major(&run::output(Command::new(rustc).arg("-vV"))?)
        .context("the compiler does not say which LLVM it uses")?;
    let llvm = PathBuf::from(format!("/usr/lib/llvm-{major}"));
    if !llvm.join("include/llvm").exists() {
        install(&[&format!("llvm-{major}-dev")], "the LLVM that bpf-linker links", None)?;
    }
    let what = format!("building bpf-linker {BPF_LINKER} against LLVM {major}, once (some minutes)");
    let mut cargo = cargo_install("bpf-linker", BPF_LINKER, &tools);
    cargo.args(["--no-default-features", "--features", &format!("llvm-{major}")]);
    long::cargo(&what, cargo.env("LLVM_PREFIX", &llvm)).context("build bpf-linker")
}

/// A program from the Rust registry, built with its own lock file into `root`.
fn cargo_install(name: &str, version: &str, root: &Path) -> Command {
    let mut cargo = Command::new("cargo");
    cargo.args(["install", name, "--version", version, "--locked", "--root"]).arg(root);
    cargo.env_remove("CARGO_TARGET_DIR").env_remove("RUSTFLAGS");
    cargo
}

fn llvm_major(version: &str) -> Option<u32> {
    let llvm = version.lines().find_map(|line| line.strip_prefix("LLVM version: "))?;
    llvm.split('.').next()?.parse().ok()
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
    let suite = from.and_then(|(_, suite)| suite);
    let mut arguments = vec!["install", "--yes", "--quiet", "--no-install-recommends"];
    arguments.extend(suite.iter().flat_map(|suite| ["-t", suite]));
    arguments.extend(packages);
    if !is_root() {
        bail!(
            "{list} missing ({why}), and only root can install it; run this once as root, or yourself:\n    \
             apt-get {}",
            arguments.join(" ")
        );
    }
    let apt = || from.map_or_else(|| apt::command("apt-get"), |(apt, _)| apt.command("apt-get"));
    let what = format!("installing {list}: {why}");
    let once = || long::watched(&what, apt().args(&arguments)).with_context(|| format!("install {list}"));
    if once().is_err() {
        // The lists are missing or older than the mirror.
        long::watched("reading the package lists again", apt().args(["update", "--quiet"]))?;
        once()?;
    }
    Ok(())
}

fn is_root() -> bool {
    run::output(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_llvm_a_compiler_uses() {
        let text = "rustc 1.96.0\nrelease: 1.96.0\nLLVM version: 22.1.2\n";
        assert_eq!(llvm_major(text), Some(22));
        assert_eq!(llvm_major("rustc 1.96.0\n"), None);
    }

    #[test]
    fn which_major_an_emulator_is() {
        assert_eq!(qemu_major("QEMU emulator version 10.0.2 (Debian 1:10.0.2+ds-2)\nCopyright"), Some(10));
        assert_eq!(qemu_major("QEMU emulator version 7.2.17"), Some(7));
        assert_eq!(qemu_major("not that"), None);
    }
}
