//! Runs the build.

use crate::choice::{Toolchain, ToolchainKind, choose};
use crate::{BuildError, LINKER_ENV, OBJECT_ENV, TARGET_DIR_ENV, TOOLCHAIN_ENV, find};
use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What to build, and where.
#[derive(Debug, Clone)]
pub struct Options {
    /// The repository.
    pub workspace: PathBuf,
    /// cargo's target folder; the kernel programs go into its folder `bpf`.
    pub target_dir: PathBuf,
    /// Let cargo talk to the terminal. Otherwise what it says is kept for the error.
    pub verbose: bool,
}

impl Options {
    /// For the repository at `workspace`, into the target folder that cargo uses for it.
    pub fn new(workspace: impl Into<PathBuf>) -> Self {
        let workspace = workspace.into();
        let target_dir = find::named(TARGET_DIR_ENV).or_else(|| find::named("CARGO_TARGET_DIR"));
        let target_dir = workspace.join(target_dir.unwrap_or_else(|| "target".into()));
        Self { workspace, target_dir, verbose: false }
    }
}

/// An object, and where it comes from.
#[derive(Debug, Clone)]
pub struct Built {
    /// The ELF object with all programs.
    pub object: PathBuf,
    /// What built it; `None` for one that was there already (`ENFORCER_EBPF_OBJECT`).
    pub toolchain: Option<Toolchain>,
    /// Files and folders that the object depends on.
    pub inputs: Vec<PathBuf>,
}

impl Built {
    /// Where the object comes from, for people.
    pub fn origin(&self) -> String {
        match &self.toolchain {
            Some(toolchain) => toolchain.to_string(),
            None => format!("{OBJECT_ENV}: {}", self.object.display()),
        }
    }

    /// Environment variables that the object depends on.
    pub const ENVIRONMENT: &[&str] = &[OBJECT_ENV, LINKER_ENV, TOOLCHAIN_ENV];
}

/// What the object depends on in the repository at `workspace`.
fn inputs(workspace: &Path) -> Vec<PathBuf> {
    [
        "Cargo.toml",
        "enforcer-ebpf/abi/Cargo.toml",
        "enforcer-ebpf/abi/src",
        "enforcer-ebpf/programs/.cargo/config.toml",
        "enforcer-ebpf/programs/Cargo.lock",
        "enforcer-ebpf/programs/Cargo.toml",
        "enforcer-ebpf/programs/src",
    ]
    .iter()
    .map(|path| workspace.join(path))
    .collect()
}

/// The object that `ENFORCER_EBPF_OBJECT` names, if it names one.
pub fn prebuilt() -> Result<Option<PathBuf>, BuildError> {
    match find::named(OBJECT_ENV) {
        // Cargo runs a build script in its package's folder, so a relative path would mean something else there.
        Some(object) if object.is_absolute() && object.is_file() => Ok(Some(object)),
        Some(path) => Err(BuildError::NoObject { path }),
        None => Ok(None),
    }
}

/// Builds the kernel programs, or takes the object that `ENFORCER_EBPF_OBJECT` names.
pub fn build(options: &Options) -> Result<Built, BuildError> {
    if let Some(object) = prebuilt()? {
        return Ok(Built { inputs: vec![object.clone()], object, toolchain: None });
    }
    let toolchain = choose(&find::look()?)?;
    let target_dir = options.target_dir.join("bpf");
    let mut command = command(&toolchain.cargo, &toolchain, &options.workspace);
    command.args(["build", "--release", "--locked", "--target-dir"]).arg(&target_dir);
    run(command, &toolchain, options.verbose)?;
    let object = target_dir.join("bpfel-unknown-none/release/enforcer-ebpf");
    if !object.is_file() {
        return Err(BuildError::NoOutput { path: object });
    }
    Ok(Built { object, toolchain: Some(toolchain), inputs: inputs(&options.workspace) })
}

/// The toolchain's `cargo-clippy`, where it has one: it lies beside the compiler.
pub fn lints(toolchain: &Toolchain) -> Option<PathBuf> {
    Some(toolchain.rustc.with_file_name("cargo-clippy")).filter(|path| path.is_file())
}

/// Runs clippy over the kernel programs; a warning is an error.
pub fn lint(options: &Options) -> Result<(), BuildError> {
    let toolchain = choose(&find::look()?)?;
    let clippy = lints(&toolchain).ok_or_else(|| BuildError::NoLints { rustc: toolchain.rustc.clone() })?;
    let mut command = command(&clippy, &toolchain, &options.workspace);
    // It calls this cargo; a target folder of its own keeps the build's fingerprints as they are.
    command.env("CARGO", &toolchain.cargo).args(["clippy", "--release", "--locked", "--target-dir"]);
    command.arg(options.target_dir.join("bpf-lints")).args(["--", "-D", "warnings"]);
    run(command, &toolchain, options.verbose)
}

fn run(mut command: Command, toolchain: &Toolchain, verbose: bool) -> Result<(), BuildError> {
    if verbose {
        command.stderr(Stdio::inherit());
    }
    let output = command
        .output()
        .map_err(|source| BuildError::Start { cargo: command.get_program().into(), source })?;
    if output.status.success() {
        return Ok(());
    }
    let output = String::from_utf8_lossy(&output.stderr).trim_end().to_owned();
    Err(BuildError::Cargo { toolchain: toolchain.to_string(), output })
}

/// `program` of a toolchain, in the programs' folder, without what an outer cargo run sets.
fn command(program: &Path, toolchain: &Toolchain, workspace: &Path) -> Command {
    let mut command = Command::new(program);
    find::clean(&mut command)
        .current_dir(workspace.join("enforcer-ebpf/programs"))
        .env("RUSTC", &toolchain.rustc)
        .env("PATH", path_with(&toolchain.linker));
    match toolchain.kind {
        // A stable compiler that is told to take unstable options.
        ToolchainKind::Debian => command.env("RUSTC_BOOTSTRAP", "1"),
        ToolchainKind::Rustup => &mut command,
    };
    command
}

/// PATH with the linker's folder in front: naming the linker in rustflags would rebuild `core` whenever it
/// moves.
fn path_with(linker: &Path) -> OsString {
    let mut folders: Vec<PathBuf> = linker.parent().map(Path::to_path_buf).into_iter().collect();
    if let Some(path) = env::var_os("PATH") {
        folders.extend(env::split_paths(&path));
    }
    env::join_paths(folders).unwrap_or_else(|_| env::var_os("PATH").unwrap_or_default())
}
