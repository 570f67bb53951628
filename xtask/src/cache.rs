//! Where everything lies that is fetched or built once: outside the tree.

use anyhow::{Context, Result};
use std::path::PathBuf;

/// `$XDG_CACHE_HOME/enforcer` or `~/.cache/enforcer`, and a folder in it, made where it is missing.
pub(crate) fn folder(name: &str) -> Result<PathBuf> {
    let base = std::env::var_os("XDG_CACHE_HOME")
        .filter(|value| !value.is_empty())
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")))
        .context("neither XDG_CACHE_HOME nor HOME is set")?;
    let folder = base.join("enforcer").join(name);
    std::fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
    Ok(folder)
}
