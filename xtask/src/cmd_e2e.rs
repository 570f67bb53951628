//! `cargo xtask e2e`: what needs a real Kubernetes, in a guest that is a whole cluster of one node.

use crate::cmd_test::{self, Counts, GuestTier};
use crate::guest::Kit;
use crate::image::Image;
use crate::kubernetes::Version;
use crate::{build, cmd_image, cmd_manifests, debian, kernels, lanes};
use anyhow::{Context, Result};
use clap::Args;
use std::path::PathBuf;

/// Which Kubernetes, and how much of it.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Minor version of Kubernetes; the oldest of the list where none is named.
    #[arg(long)]
    version: Option<String>,
    /// All of it; without this only what a change needs to be checked with.
    #[arg(long)]
    full: bool,
    /// Only tests whose name contains this; with `--full` or without.
    #[arg(long)]
    filter: Option<String>,
    /// Which kernel the guest has.
    #[arg(long, default_value = kernels::DEFAULT, value_parser = kernels::names())]
    kernel: String,
    /// Programs that come before the guest's own: another version of containerd, say.
    #[arg(long, value_name = "DIR")]
    programs: Option<PathBuf>,
}

/// etcd, API server, kubelet, containerd, and the pods.
const MEMORY_MIB: u32 = 5120;

/// What runs in the guest. The benchmarks are only built along, so that all dependencies have the features that they have
/// for `cargo xtask test`, and are not built once more.
const PROGRAMS: [&str; 4] = [build::ENFORCER, build::WORKLOAD, build::E2E_TESTS, build::BENCH];

/// What `ENFORCER_TIER` says in the guest.
const SHORT: &str = "kubernetes";
const FULL: &str = "kubernetes-full";

pub(crate) fn run(options: &Options) -> Result<i32> {
    let version = Version::find(options.version.as_deref())?;
    if !version.is_cached()? {
        eprintln!(
            "    {} is not in the cache: it is built once, which may take half an hour",
            version.title()
        );
    }
    let disk = version.disk()?;
    let kit = Kit::ready(&PROGRAMS)?;
    let kernel = kernels::find(&options.kernel)?.unpacked()?;
    // What a cluster gets, but built as all else in the guest is.
    let folder = tempfile::tempdir().context("make a folder")?;
    let image = folder.path().join("image.tar");
    let (program, name) = (kit.program(build::ENFORCER), cmd_image::NAME);
    Image { program: &program, architecture: cmd_image::ARCHITECTURE, name }.write(&image)?;
    let mut files = options.programs.as_deref().map(cmd_test::programs).transpose()?.unwrap_or_default();
    files.push((image, "/opt/enforcer/image.tar".to_owned()));
    files.push((build::root().join(cmd_manifests::AGENT), "/opt/enforcer/enforcer.yaml".to_owned()));
    let tier = GuestTier {
        runner: build::E2E_TESTS,
        debian: Some(debian::image()?),
        files,
        disks: vec![disk],
        memory_mib: Some(MEMORY_MIB),
        ..GuestTier::bare(kernel, if options.full { FULL } else { SHORT })
    };
    println!("== {}", version.title());
    let chosen = cmd_test::Options::of(options.filter.clone(), options.full);
    let print = |line: &str| println!("{line}");
    let counts = lanes::run(vec![tier], 1, &print, |tier, out| cmd_test::guest(&kit, &tier, &chosen, out));
    let Counts { passed, failed, .. } = counts.into_iter().next().unwrap_or_default();
    Ok(i32::from(failed > 0 || passed == 0))
}
