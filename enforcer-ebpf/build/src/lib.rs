//! Builds the kernel programs with the toolchain that the machine has.
//!
//! The BPF target has no prebuilt `core`, so the library source of exactly the compiler in use must be
//! there. Two pairs are known: Debian's `rustc-web`, `cargo-web` and `rust-web-src`, and a rustup nightly
//! with `rust-src`; both need `bpf-linker`. [`build`] takes the first that is whole and says which.

mod choice;
mod find;
mod run;

pub use choice::{Found, Toolchain, ToolchainKind, choose};
pub use find::look;
pub use run::{Built, Options, build, lint, lints, prebuilt};

use std::path::PathBuf;

/// Names a prebuilt object, which is used instead of a build.
pub const OBJECT_ENV: &str = "ENFORCER_EBPF_OBJECT";
/// Names the `bpf-linker` to use.
pub const LINKER_ENV: &str = "ENFORCER_BPF_LINKER";
/// `debian` or `rustup`: allows only that toolchain.
pub const TOOLCHAIN_ENV: &str = "ENFORCER_EBPF_TOOLCHAIN";
/// Names the target folder for the kernel programs, so that builds of user space for several targets share
/// one; cargo's own where it is not set.
pub const TARGET_DIR_ENV: &str = "ENFORCER_EBPF_TARGET_DIR";

/// Why there is no object.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// `ENFORCER_EBPF_OBJECT` names no file, or one by a relative path.
    #[error("{OBJECT_ENV} names {}, which is not the absolute path of a file", path.display())]
    NoObject {
        /// What it names.
        path: PathBuf,
    },
    /// `ENFORCER_EBPF_TOOLCHAIN` has a value that means nothing.
    #[error("{TOOLCHAIN_ENV} is {value:?}; it can be \"debian\" or \"rustup\"")]
    UnknownToolchain {
        /// The value.
        value: String,
    },
    /// `ENFORCER_BPF_LINKER` names no file, one by a relative path, or one of another name.
    #[error("{LINKER_ENV} names {}, which is not the absolute path of a file called bpf-linker", path.display())]
    NoLinkerThere {
        /// What it names.
        path: PathBuf,
    },
    /// No toolchain is whole.
    #[error(
        "the kernel programs can't be built here:\n{}\n`cargo xtask build-ebpf` installs what is missing",
        missing.join("\n")
    )]
    Missing {
        /// One line for each thing that is missing.
        missing: Vec<String>,
    },
    /// cargo could not be started.
    #[error("can't start {}", cargo.display())]
    Start {
        /// Which cargo.
        cargo: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// cargo failed.
    #[error("the kernel programs don't pass with {toolchain}:\n{output}")]
    Cargo {
        /// Which toolchain.
        toolchain: String,
        /// What cargo said.
        output: String,
    },
    /// The toolchain has no clippy.
    #[error("there is no cargo-clippy beside {}", rustc.display())]
    NoLints {
        /// Which compiler.
        rustc: PathBuf,
    },
    /// cargo was content but left no object.
    #[error("the build left no object at {}", path.display())]
    NoOutput {
        /// Where it should be.
        path: PathBuf,
    },
}
