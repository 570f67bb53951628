//! Folders that hold what only this user may write.

use std::{
    fs::DirBuilder,
    io,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _},
    path::Path,
};

/// What was tried, and what came of it.
type Refusal = (&'static str, io::Error);

/// Makes the folder (for its owner alone) where it is missing. Fails also where it is not a [`trusted_dir`].
pub(crate) fn private_dir(path: &Path) -> Result<(), Refusal> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|error| ("make", error))?;
    trusted_dir(path)
}

/// Fails where somebody else can write to the folder: what is read back from it would be theirs.
pub(crate) fn trusted_dir(path: &Path) -> Result<(), Refusal> {
    let found = std::fs::metadata(path).map_err(|error| ("look at", error))?;
    if found.uid() != nix::unistd::geteuid().as_raw() || found.mode() & 0o022 != 0 {
        return Err(("trust it", io::Error::other("somebody else can write to it")));
    }
    Ok(())
}
