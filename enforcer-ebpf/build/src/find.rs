//! A look at the machine: compilers, their source, the linker.

use crate::choice::{Compiler, Found, ToolchainKind};
use crate::{BuildError, LINKER_ENV, TOOLCHAIN_ENV};
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The linker's name, as the compiler calls it.
const LINKER: &str = "bpf-linker";

/// The path that a variable holds; an empty one is as good as none.
pub(crate) fn named(variable: &str) -> Option<PathBuf> {
    env::var_os(variable).filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// Looks for everything that a build could use.
pub fn look() -> Result<Found, BuildError> {
    let only = match env::var(TOOLCHAIN_ENV).as_deref() {
        Err(_) | Ok("") => None,
        Ok("debian") => Some(ToolchainKind::Debian),
        Ok("rustup") => Some(ToolchainKind::Rustup),
        Ok(value) => return Err(BuildError::UnknownToolchain { value: value.into() }),
    };
    Ok(Found { only, debian: debian(), rustup: rustup(), linker: linker()? })
}

fn debian() -> Option<Compiler> {
    let rustc = Path::new("/usr/bin/rustc");
    // A link into ~/.cargo/bin is rustup's.
    if rustc.canonicalize().ok()?.file_name()? == "rustup" {
        return None;
    }
    let cargo = Path::new("/usr/bin/cargo");
    compiler(rustc, cargo.is_file().then(|| cargo.to_path_buf()))
}

fn rustup() -> Option<Compiler> {
    let which =
        |tool| said(clean(&mut Command::new("rustup")).args(["which", "--toolchain", "nightly", tool]));
    let rustc = which("rustc")?;
    compiler(Path::new(&rustc), which("cargo").map(PathBuf::from))
}

fn compiler(rustc: &Path, cargo: Option<PathBuf>) -> Option<Compiler> {
    let version = said(clean(&mut Command::new(rustc)).arg("-vV"))?;
    let release = version.lines().find_map(|line| line.strip_prefix("release: "))?.to_owned();
    let sysroot = said(clean(&mut Command::new(rustc)).args(["--print", "sysroot"]))?;
    let source = Path::new(&sysroot).join("lib/rustlib/src/rust/library/core/src/lib.rs");
    Some(Compiler { rustc: rustc.into(), cargo, release, has_source: source.is_file() })
}

/// Where `cargo xtask` puts tools that it builds.
fn tools_cache() -> Option<PathBuf> {
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
    Some(cache.join("enforcer/tools/bin"))
}

fn linker() -> Result<Option<PathBuf>, BuildError> {
    if let Some(path) = named(LINKER_ENV) {
        // The compiler looks for that name on a PATH that begins with its folder.
        let fits =
            path.is_absolute() && path.file_name().is_some_and(|name| name == LINKER) && path.is_file();
        return if fits { Ok(Some(path)) } else { Err(BuildError::NoLinkerThere { path }) };
    }
    let mut folders: Vec<PathBuf> =
        env::var_os("PATH").map(|path| env::split_paths(&path).collect()).unwrap_or_default();
    folders.extend(env::var_os("CARGO_HOME").map(|home| PathBuf::from(home).join("bin")));
    folders.extend(env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo/bin")));
    folders.extend(tools_cache());
    Ok(folders.into_iter().map(|folder| folder.join(LINKER)).find(|path| path.is_file()))
}

/// Whether a variable steers cargo or rustc away from what the programs' own configuration says. Where
/// their homes are and how the network is reached must stay.
fn steers(name: &str) -> bool {
    let keeps = ["CARGO_HOME", "RUSTUP_HOME"].contains(&name)
        || ["CARGO_HTTP_", "CARGO_NET_", "CARGO_REGISTR", "CARGO_SOURCE_", "RUSTUP_DIST_"]
            .iter()
            .any(|kept| name.starts_with(kept));
    !keeps && (name.starts_with("CARGO") || name.starts_with("RUST"))
}

/// Takes away what an outer cargo run sets.
pub(crate) fn clean(command: &mut Command) -> &mut Command {
    for (name, _) in env::vars_os() {
        if name.to_str().is_some_and(steers) {
            command.env_remove(name);
        }
    }
    command
}

fn said(command: &mut Command) -> Option<String> {
    let output = command.output().ok()?;
    if !output.status.success() {
        return None;
    }
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::steers;

    #[test]
    fn only_what_steers_the_build_is_taken_away() {
        for name in [
            "CARGO",
            "CARGO_ENCODED_RUSTFLAGS",
            "CARGO_TARGET_DIR",
            "RUSTFLAGS",
            "RUSTC",
            "RUSTC_WRAPPER",
            "RUSTUP_TOOLCHAIN",
            "CARGO_BUILD_TARGET",
            "CARGO_PKG_NAME",
            "RUSTC_BOOTSTRAP",
        ] {
            assert!(steers(name), "{name} must go");
        }
        for name in [
            "CARGO_HOME",
            "RUSTUP_HOME",
            "CARGO_HTTP_PROXY",
            "CARGO_NET_OFFLINE",
            "CARGO_REGISTRIES_MIRROR_INDEX",
            "PATH",
            "HOME",
            "https_proxy",
        ] {
            assert!(!steers(name), "{name} must stay");
        }
    }
}
