//! Which toolchain: decided from what was found, without a look at the machine.

use crate::BuildError;
use std::fmt;
use std::path::PathBuf;

/// Where a toolchain comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolchainKind {
    /// Debian's `rustc-web`, `cargo-web` and `rust-web-src`.
    Debian,
    /// A rustup nightly with `rust-src`.
    Rustup,
}

/// A toolchain that can build the kernel programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Toolchain {
    /// Where it comes from.
    pub kind: ToolchainKind,
    /// Its compiler.
    pub rustc: PathBuf,
    /// Its cargo.
    pub cargo: PathBuf,
    /// The compiler's release, for people.
    pub release: String,
    /// `bpf-linker`.
    pub linker: PathBuf,
    /// Why it was taken, for people.
    pub why: &'static str,
}

impl fmt::Display for Toolchain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let from = match self.kind {
            ToolchainKind::Debian => "Debian's rustc-web",
            ToolchainKind::Rustup => "rustup's nightly",
        };
        write!(
            f,
            "{from} ({}, {}) and {} ({})",
            self.rustc.display(),
            self.release,
            self.linker.display(),
            self.why
        )
    }
}

/// A compiler that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compiler {
    /// Path of rustc.
    pub rustc: PathBuf,
    /// Path of cargo, where there is one.
    pub cargo: Option<PathBuf>,
    /// `release:` of `rustc -vV`.
    pub release: String,
    /// Whether the library source is there.
    pub has_source: bool,
}

/// What a look at the machine found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// The one kind that the user allows.
    pub only: Option<ToolchainKind>,
    /// `/usr/bin/rustc`.
    pub debian: Option<Compiler>,
    /// rustup's nightly.
    pub rustup: Option<Compiler>,
    /// `bpf-linker`.
    pub linker: Option<PathBuf>,
}

/// Takes the first whole toolchain, Debian's before rustup's: it is there through the system's package
/// manager, so compiler and source match.
pub fn choose(found: &Found) -> Result<Toolchain, BuildError> {
    let mut missing = Vec::new();
    let debian = part(found, ToolchainKind::Debian, &mut missing);
    let rustup = part(found, ToolchainKind::Rustup, &mut missing);
    if found.linker.is_none() {
        missing.push("- bpf-linker (neither on PATH, nor in ~/.cargo/bin, nor in enforcer's cache)".into());
    }
    let why = match (&debian, &rustup) {
        _ if found.only.is_some() => "the one asked for",
        (Some(_), Some(_)) => "Debian's is preferred: its source matches its compiler",
        (Some(_), None) | (None, Some(_)) => "the only whole one here",
        (None, None) => "",
    };
    match (debian.or(rustup), &found.linker) {
        (Some((kind, compiler, cargo)), Some(linker)) => Ok(Toolchain {
            kind,
            rustc: compiler.rustc.clone(),
            cargo,
            release: compiler.release.clone(),
            linker: linker.clone(),
            why,
        }),
        (Some(_), None) | (None, Some(_) | None) => Err(BuildError::Missing { missing }),
    }
}

fn part<'a>(
    found: &'a Found,
    kind: ToolchainKind,
    missing: &mut Vec<String>,
) -> Option<(ToolchainKind, &'a Compiler, PathBuf)> {
    if found.only.is_some_and(|only| only != kind) {
        return None;
    }
    let (compiler, nothing, no_cargo, no_source) = match kind {
        ToolchainKind::Debian => (
            &found.debian,
            "- Debian: no rust compiler in /usr/bin (packages rustc-web, cargo-web, rust-web-src)",
            "- Debian: no cargo in /usr/bin (package cargo-web)",
            "- Debian: no library source for /usr/bin/rustc (package rust-web-src)",
        ),
        ToolchainKind::Rustup => (
            &found.rustup,
            "- rustup: no nightly toolchain (rustup toolchain install nightly --component rust-src)",
            "- rustup: the nightly toolchain has no cargo",
            "- rustup: the nightly toolchain has no rust-src (rustup component add rust-src --toolchain nightly)",
        ),
    };
    let Some(compiler) = compiler else {
        missing.push(nothing.into());
        return None;
    };
    if !compiler.has_source {
        missing.push(no_source.into());
    }
    if compiler.cargo.is_none() {
        missing.push(no_cargo.into());
    }
    let cargo = compiler.cargo.clone()?;
    compiler.has_source.then_some((kind, compiler, cargo))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::unnecessary_wraps, reason = "the tables below read better")]
    fn compiler(has_source: bool, has_cargo: bool) -> Option<Compiler> {
        Some(Compiler {
            rustc: "/rustc".into(),
            cargo: has_cargo.then(|| "/cargo".into()),
            release: "1.96.0".into(),
            has_source,
        })
    }

    fn found(debian: Option<Compiler>, rustup: Option<Compiler>, linker: bool) -> Found {
        Found { only: None, debian, rustup, linker: linker.then(|| "/bpf-linker".into()) }
    }

    #[test]
    fn the_first_whole_one_is_taken() {
        let whole = || compiler(true, true);
        for (debian, rustup, expected) in [
            (whole(), whole(), ToolchainKind::Debian),
            (whole(), None, ToolchainKind::Debian),
            (None, whole(), ToolchainKind::Rustup),
            (compiler(false, true), whole(), ToolchainKind::Rustup),
            (compiler(true, false), whole(), ToolchainKind::Rustup),
        ] {
            let found = found(debian, rustup, true);
            assert_eq!(choose(&found).expect("one is whole").kind, expected, "{found:?}");
        }
    }

    #[test]
    fn the_one_asked_for_is_taken() {
        let mut found = found(compiler(true, true), compiler(true, true), true);
        found.only = Some(ToolchainKind::Rustup);
        assert_eq!(choose(&found).expect("it is whole").kind, ToolchainKind::Rustup);
        found.rustup = None;
        let message = choose(&found).expect_err("it is not there").to_string();
        assert!(message.contains("no nightly") && !message.contains("Debian"), "{message}");
    }

    #[test]
    fn everything_missing_is_named_with_the_way_out() {
        for (found, parts) in [
            (found(None, None, false), vec!["rustc-web", "toolchain install nightly", "bpf-linker"]),
            (found(compiler(false, true), compiler(false, true), true), vec!["rust-web-src", "rust-src"]),
            (found(compiler(true, false), None, true), vec!["cargo-web"]),
            (found(compiler(true, true), None, false), vec!["bpf-linker"]),
        ] {
            let message = choose(&found).expect_err("nothing is whole").to_string();
            for part in parts {
                assert!(message.contains(part), "{part} not in: {message}");
            }
            assert!(message.contains("cargo xtask"), "{message}");
        }
    }
}
