//! Helm, built once from its published Go module into the cache.

use crate::go::go;
use crate::{cache, long, run};
use anyhow::{Context, Result};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

const RELEASE: &str = "3.22.0";
const MODULE: &str = "helm.sh/helm/v3";

/// Where it would be, built or not.
pub(crate) fn cached() -> Result<PathBuf> {
    Ok(cache::folder(&format!("helm/{RELEASE}"))?.join("helm"))
}

/// The program: from the cache, or built.
pub(crate) fn helm() -> Result<PathBuf> {
    let program = cached()?;
    if program.exists() {
        return Ok(program);
    }
    let go = go()?;
    let scratch = tempfile::tempdir_in(cache::folder("helm")?)?;
    let go = |words: &[&str]| {
        let mut command = Command::new(&go);
        command.current_dir(scratch.path()).env("CGO_ENABLED", "0").env("GOFLAGS", "-mod=mod").args(words);
        command
    };
    run::output(&mut go(&["mod", "init", "enforcer.invalid/helm"]))?;
    let module = format!("{MODULE}@v{RELEASE}");
    long::watched(&format!("fetching Helm {RELEASE}'s Go module"), &mut go(&["get", &module]))
        .context("fetch Helm; is a module proxy in reach?")?;
    let what = format!("building Helm {RELEASE} from its Go module, once (some minutes on two CPUs)");
    long::watched(&what, &mut go(&["build", "-v", "-trimpath", "-o", "helm", &format!("{MODULE}/cmd/helm")]))
        .context("build Helm")?;
    fs::rename(scratch.path().join("helm"), &program)?;
    Ok(program)
}
