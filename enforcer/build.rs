//! Builds the kernel programs and puts the object where `src/probe` includes it.

use enforcer_ebpf_build::{Built, Options, build};
use std::path::PathBuf;

fn main() {
    let manifest_dir = PathBuf::from(env("CARGO_MANIFEST_DIR"));
    let workspace = manifest_dir.parent().expect("the package lies in the workspace").to_path_buf();
    let built = build(&Options::new(workspace)).unwrap_or_else(|error| {
        eprintln!("error: {error}");
        std::process::exit(1)
    });
    let out = PathBuf::from(env("OUT_DIR")).join("enforcer-ebpf.o");
    std::fs::copy(&built.object, &out).unwrap_or_else(|error| {
        panic!("can't copy {} to {}: {error}", built.object.display(), out.display())
    });
    let origin = built.origin();
    println!("cargo::warning=kernel programs: {origin}");
    println!("cargo::rustc-env=ENFORCER_EBPF_ORIGIN={origin}");
    for input in &built.inputs {
        println!("cargo::rerun-if-changed={}", input.display());
    }
    for name in Built::ENVIRONMENT {
        println!("cargo::rerun-if-env-changed={name}");
    }
}

fn env(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|error| panic!("cargo sets {name}: {error}"))
}
