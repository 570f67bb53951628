//! `enforcer oom record`: the recorder, in the foreground.

use super::{Store, show};
use crate::{
    cli::{
        Exit, Failure, failure, json,
        options::{self, Json},
        output,
        stop::end_at_once,
    },
    node::Need,
    oom::{RecordError, Recorder, RecorderOptions, Stored},
    store::Bounds,
};
use enforcer_gate::{Bytes, Micros};
use std::path::Path;
use tokio::signal::unix::{SignalKind, signal};

const WHAT: &str = "can't record OOM kills in";

/// Records every OOM kill of this node until it is stopped
///
/// Runs in the foreground and prints one line for each OOM. Ctrl-C or SIGTERM end it, and nothing is lost that was
/// recorded; nor is it after a kill -9. Changes no limit. Where the kernel lacks a hook, the first line says what is
/// lost.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    #[command(flatten)]
    store: Store,
    /// The most that all records may take; the oldest go first
    #[arg(long, value_name = "SIZE", default_value = "64Mi", value_parser = options::target)]
    store_max: Bytes,
    /// How long before an OOM a write to a limit file is told with it
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = options::span)]
    writes: Micros,
    /// Buffer in the kernel for what was not read yet: a power of two
    #[arg(long, value_name = "SIZE", default_value = "4Mi", value_parser = options::target)]
    ring: Bytes,
    #[command(flatten)]
    json: Json,
}

pub(super) fn run(options: &Options) -> Result<Exit, Failure> {
    let folder = &options.store.store;
    failure::require(WHAT, folder, &[Need::Root, Need::CgroupV2Memory])?;
    let recorder_options = RecorderOptions {
        store: folder.clone(),
        bounds: Bounds::within(options.store_max.get()),
        writes: options.writes,
        ring_bytes: u32::try_from(options.ring.get()).unwrap_or(u32::MAX),
        ..RecorderOptions::default()
    };
    let io = |error: std::io::Error| Failure::new(Exit::Failed, WHAT, folder, &error, "");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(io)?;
    runtime.block_on(async {
        let stop = |kind| signal(kind).map_err(io);
        let mut screen = output::screen(options.json.json).map_err(io)?;
        output::loading(options.json.json);
        let (mut recorder, began) =
            Recorder::open(&recorder_options).map_err(|error| fail(folder, &error))?;
        // Not before: a signal ends the loading at once, and a store is whole at any moment.
        let (mut interrupt, mut terminate) = (stop(SignalKind::interrupt())?, stop(SignalKind::terminate())?);
        let mut each = |stored: &Stored| {
            let line = if options.json.json { json::line(stored) } else { show::log_line(stored) };
            // It goes on recording where nobody reads along.
            screen.show(line);
            screen.tell_left_out();
        };
        each(&began);
        let stop = async {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        };
        let ended = recorder.run(stop, &mut each).await.map_err(|error| fail(folder, &error));
        end_at_once();
        let told = output::end(screen, "", Exit::Done);
        ended.and(told)
    })
}

fn fail(folder: &Path, error: &RecordError) -> Failure {
    match error {
        RecordError::Store(error) => Failure::new(Exit::Failed, WHAT, folder, error, ""),
        RecordError::Probe(error) => failure::probe(WHAT, folder, error),
        RecordError::Cgroup(error) => Failure::cgroup(WHAT, folder, error),
        RecordError::NoHook(_) => {
            Failure::new(Exit::Unsupported, WHAT, folder, error, "enforcer check says what this node has")
        }
    }
}
