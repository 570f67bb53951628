//! The search and the build with toolchains made of shell scripts: what is found where, what a build is
//! called with, what its failures say. Each test runs `build` in a process with an environment of its own.

use enforcer_ebpf_build::{LINKER_ENV, OBJECT_ENV, Options, TOOLCHAIN_ENV, build};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

const WORKSPACE_ENV: &str = "TEST_WORKSPACE";

/// What the other tests run in a process of its own.
#[test]
#[ignore = "run by the other tests, with an environment of its own"]
fn build_here() {
    let workspace = std::env::var_os(WORKSPACE_ENV).expect("the test sets it");
    match build(&Options::new(PathBuf::from(workspace))) {
        Ok(built) => println!("OBJECT {}\nORIGIN {}", built.object.display(), built.origin()),
        Err(error) => println!("ERROR {error}"),
    }
}

/// A machine: a folder with a home, programs and a workspace.
struct Machine {
    folder: TempDir,
}

impl Machine {
    /// With rustup and a nightly that has `rust-src` and a cargo; no linker.
    fn with_nightly() -> Self {
        let machine = Self { folder: TempDir::new().expect("make a folder") };
        for folder in ["bin", "home", "workspace/enforcer-ebpf/programs", "nightly/bin"] {
            fs::create_dir_all(machine.path(folder)).expect("make a folder");
        }
        machine.file("nightly/lib/rustlib/src/rust/library/core/src/lib.rs", "");
        let nightly = machine.path("nightly").display().to_string();
        machine.script(
            "nightly/bin/rustc",
            &format!("case $1 in -vV) echo 'release: 1.99.0-nightly';; *) echo '{nightly}';; esac"),
        );
        machine.script("bin/rustup", &format!("echo \"{nightly}/bin/$4\""));
        let workspace = machine.path("workspace").display().to_string();
        machine.script(
            "nightly/bin/cargo",
            &format!(
                "env > {workspace}/env; pwd > {workspace}/pwd; echo \"$@\" > {workspace}/arguments\n\
                 out=\"$5/bpfel-unknown-none/release\"; mkdir -p \"$out\"; echo object > \"$out/enforcer-ebpf\""
            ),
        );
        machine
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    fn file(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().expect("it has a parent")).expect("make a folder");
        fs::write(path, text).expect("write a file");
    }

    fn script(&self, path: &str, body: &str) {
        self.file(path, &format!("#!/bin/sh\n{body}\n"));
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(self.path(path), mode).expect("make it a program");
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap_or_else(|error| panic!("read {path}: {error}"))
    }

    /// What `build` says on it.
    fn says(&self, environment: &[(&str, &str)]) -> String {
        let output = Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "build_here", "--ignored", "--nocapture"])
            .env_clear()
            .env("PATH", format!("{}:/usr/bin:/bin", self.path("bin").display()))
            .env("HOME", self.path("home"))
            .env(TOOLCHAIN_ENV, "rustup")
            .env(WORKSPACE_ENV, self.path("workspace"))
            .envs(environment.iter().copied())
            .output()
            .expect("run this test");
        String::from_utf8(output.stdout).expect("text")
    }
}

fn has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in: {text}");
    }
}

#[test]
fn a_nightly_builds_with_a_clean_environment() {
    let machine = Machine::with_nightly();
    machine.script("home/.cargo/bin/bpf-linker", "");
    let said = machine.says(&[
        ("RUSTFLAGS", "-Cbogus"),
        ("CARGO_ENCODED_RUSTFLAGS", "-Cbogus"),
        ("CARGO_BUILD_TARGET", "bogus"),
        ("RUSTC_WRAPPER", "bogus"),
        ("RUSTUP_TOOLCHAIN", "bogus"),
        ("CARGO_HTTP_PROXY", "proxy.example"),
    ]);
    has(
        &said,
        &["OBJECT ", "rustup's nightly", "1.99.0-nightly", ".cargo/bin/bpf-linker", "the one asked for"],
    );
    let environment = machine.read("workspace/env");
    assert!(!environment.contains("bogus"), "{environment}");
    assert!(!environment.contains("RUSTC_BOOTSTRAP"), "a nightly needs no permission: {environment}");
    let linker = machine.path("home/.cargo/bin").display().to_string();
    let rustc = machine.path("nightly/bin/rustc").display().to_string();
    has(
        &environment,
        &["CARGO_HTTP_PROXY=proxy.example", &format!("PATH={linker}:"), &format!("RUSTC={rustc}\n")],
    );
    let target = machine.path("workspace/target/bpf").display().to_string();
    assert_eq!(
        machine.read("workspace/arguments").trim(),
        format!("build --release --locked --target-dir {target}")
    );
    assert!(machine.read("workspace/pwd").trim().ends_with("enforcer-ebpf/programs"));
}

#[test]
fn the_linker_is_found_where_it_may_be() {
    for (place, environment) in [
        ("bin/bpf-linker", vec![]),
        ("home/.cargo/bin/bpf-linker", vec![]),
        ("home/.cache/enforcer/tools/bin/bpf-linker", vec![]),
        ("cache/enforcer/tools/bin/bpf-linker", vec!["XDG_CACHE_HOME"]),
        ("elsewhere/bpf-linker", vec![LINKER_ENV]),
    ] {
        let machine = Machine::with_nightly();
        machine.script(place, "");
        let cache = machine.path("cache").display().to_string();
        let linker = machine.path(place).display().to_string();
        let environment: Vec<_> = environment
            .into_iter()
            .map(|name| (name, if name == LINKER_ENV { linker.as_str() } else { cache.as_str() }))
            .collect();
        has(&machine.says(&environment), &["OBJECT ", &linker]);
    }
}

#[test]
fn what_is_missing_is_named_with_the_way_out() {
    let machine = Machine::with_nightly();
    has(&machine.says(&[]), &["ERROR ", "bpf-linker (neither on PATH", "cargo xtask build-ebpf"]);
    machine.script("bin/bpf-linker", "");
    fs::remove_dir_all(machine.path("nightly/lib")).expect("take the source away");
    has(&machine.says(&[]), &["ERROR ", "has no rust-src", "rustup component add rust-src"]);
    machine.script("bin/rustup", "exit 1");
    has(&machine.says(&[]), &["ERROR ", "no nightly toolchain"]);
}

#[test]
fn a_wrong_environment_is_refused_by_name() {
    let machine = Machine::with_nightly();
    has(&machine.says(&[(TOOLCHAIN_ENV, "gcc")]), &["ERROR ENFORCER_EBPF_TOOLCHAIN is \"gcc\"", "debian"]);
    has(&machine.says(&[(LINKER_ENV, "/nowhere")]), &["ERROR ENFORCER_BPF_LINKER names /nowhere"]);
    has(&machine.says(&[(OBJECT_ENV, "/nowhere")]), &["ERROR ENFORCER_EBPF_OBJECT names /nowhere"]);
    // The compiler would take the next bpf-linker on PATH instead.
    machine.script("bin/linker", "");
    let linker = machine.path("bin/linker").display().to_string();
    has(
        &machine.says(&[(LINKER_ENV, &linker)]),
        &["ERROR ENFORCER_BPF_LINKER names ", "a file called bpf-linker"],
    );
    // Where a build script runs, it would mean another file.
    has(
        &machine.says(&[(OBJECT_ENV, "Cargo.toml")]),
        &["ERROR ENFORCER_EBPF_OBJECT names Cargo.toml", "absolute"],
    );
}

#[test]
fn an_object_that_is_there_is_used_without_a_build() {
    let machine = Machine::with_nightly();
    machine.file("made.o", "object");
    let object = machine.path("made.o").display().to_string();
    has(
        &machine.says(&[(OBJECT_ENV, &object)]),
        &[&format!("OBJECT {object}"), "ORIGIN ENFORCER_EBPF_OBJECT"],
    );
    assert!(!Path::new(&machine.path("workspace/arguments")).exists(), "nothing was built");
}

#[test]
fn what_cargo_says_is_in_the_error() {
    let machine = Machine::with_nightly();
    machine.script("bin/bpf-linker", "");
    machine.script("nightly/bin/cargo", "echo 'error: it broke' >&2; exit 101");
    has(
        &machine.says(&[]),
        &["ERROR the kernel programs don't pass with rustup's nightly", "error: it broke"],
    );
    machine.script("nightly/bin/cargo", "exit 0");
    has(&machine.says(&[]), &["ERROR the build left no object at"]);
}
