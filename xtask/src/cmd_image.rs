//! `cargo xtask image`: the agent as a container image, for `ctr images import` and `podman load`.

use crate::build::{self, Profile};
use crate::image::Image;
use crate::setup;
use anyhow::Result;
use clap::Args;
use std::path::PathBuf;

/// Where the image goes.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The archive; target/enforcer-image.tar where none is named.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// The image's whole name.
    #[arg(long, default_value = NAME)]
    name: String,
}

/// What the kubelet makes of the name in deploy/kubernetes/enforcer.yaml.
pub(crate) const NAME: &str = concat!("docker.io/library/enforcer:", env!("CARGO_PKG_VERSION"));
/// The one architecture that is built here.
pub(crate) const ARCHITECTURE: &str = "amd64";

pub(crate) fn run(options: &Options) -> Result<i32> {
    setup::build()?;
    build::kernel_programs()?;
    let folder = build::guest_programs(&[build::ENFORCER], Profile::Release)?;
    let file = options.out.clone().unwrap_or_else(|| build::target_folder().join("enforcer-image.tar"));
    let program = folder.join(build::ENFORCER);
    Image { program: &program, architecture: ARCHITECTURE, name: &options.name }.write(&file)?;
    println!("{}: {}", file.display(), options.name);
    Ok(0)
}
