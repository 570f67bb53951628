//! The gate's work as it is shown and recorded.

use super::{
    display::{Display, Mode},
    observer::Watcher,
};
use crate::{
    cgroup::{Cgroup, shown},
    cli::{Exit, Failure, failure, screen::Screen, stop},
    node::Release,
    probe::{Probe, ProbeOptions},
    shrink::{Bus, BusError, Observer, ShrinkError, WATCHES, now},
    trace::{Header, Kind, Summary, TRACE_VERSION, WriteError, Writer},
};
use enforcer_gate::Policy;
use std::{io::IsTerminal as _, path::Path};

/// Shows and records what the gate does, and runs it.
pub(in crate::cli) struct Guided {
    watcher: Watcher,
    lost: Vec<String>,
}

/// What is left of it.
pub(in crate::cli) struct Recorded {
    /// Of the trace, where there was one.
    pub(in crate::cli) trace: Option<Summary>,
    /// What the kernel programs could not watch, and what that costs.
    pub(in crate::cli) lost: Vec<String>,
    /// Why the trace is cut.
    pub(in crate::cli) cut: Option<WriteError>,
}

impl Guided {
    /// Starts the display, and the trace.
    pub(in crate::cli) fn start(
        what: &str,
        cgroup: &Cgroup,
        policy: &Policy,
        trace: Option<&Path>,
        json: bool,
    ) -> Result<Self, Failure> {
        let trace = trace.map(|file| record(file, cgroup, policy)).transpose()?;
        let mode = match (json, std::io::stderr().is_terminal()) {
            (true, _) => Mode::Off,
            (false, true) => Mode::Terminal,
            (false, false) => Mode::Lines,
        };
        let note = |lines| format!("{lines} lines of progress left out\n");
        let screen = Screen::start(std::io::stderr(), note)
            .map_err(|error| Failure::new(Exit::Failed, what, cgroup.absolute(), &error, ""))?;
        Ok(Self { watcher: Watcher { display: Display::new(mode), screen, trace }, lost: Vec::new() })
    }

    /// Sees what is done without the kernel programs.
    pub(in crate::cli) fn observer(&mut self) -> &mut dyn Observer {
        &mut self.watcher
    }

    /// Loads the kernel programs and has `work` done with their events.
    pub(in crate::cli) fn carry_out<T, E: From<ShrinkError>>(
        &mut self,
        work: impl AsyncFnOnce(&Bus, &mut dyn Observer) -> Result<T, E>,
    ) -> Result<T, E> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|source| ShrinkError::Io { what: "can't start the event loop", source })?;
        if let Some(text) = self.watcher.display.loading() {
            self.watcher.screen.show(text);
        }
        let result = runtime.block_on(async {
            let probe = Probe::load(&ProbeOptions::only(WATCHES))
                .map_err(|error| ShrinkError::Bus(BusError::from(error)))?;
            let unseen = probe.hooks().iter().filter(|hook| hook.in_use.is_none());
            self.lost.extend(unseen.filter_map(|hook| Some(format!("{}: {}", hook.need, hook.lost?))));
            let (bus, _task) = Bus::start(probe);
            work(&bus, &mut self.watcher).await
        });
        // Where it was stopped while it waited for others, it need not wait for them in order to end.
        runtime.shutdown_background();
        result
    }

    /// The limits are settled: a signal ends the program at once from here on, and the trace is made whole.
    pub(in crate::cli) fn end(self) -> Recorded {
        stop::end_at_once();
        let Watcher { display, screen, trace } = self.watcher;
        // Progress that is lost is no reason to fail.
        let _ = screen.end(display.end(), None);
        // The trace is whole also where the shrink could not be carried through.
        match trace.map(|trace| trace.finish(now())).transpose() {
            Ok(trace) => Recorded { trace, lost: self.lost, cut: None },
            Err(error) => Recorded { trace: None, lost: self.lost, cut: Some(error) },
        }
    }
}

/// The failure of a trace, with what came of telling the rest.
pub(in crate::cli) fn cut_short(
    exit: Exit,
    on: &Path,
    error: &WriteError,
    told: Result<(), Failure>,
) -> Failure {
    let todo = failure::of_the_process(error)
        .unwrap_or_else(|| "the shrink itself ended as said; name a new file where there is room".into());
    let mut failure = Failure::new(exit, "can't record the shrink of", on, error, todo);
    failure.reasons.extend(told.err().into_iter().flat_map(|also| also.reasons));
    failure
}

fn record(file: &Path, cgroup: &Cgroup, policy: &Policy) -> Result<Writer, Failure> {
    let header = Header {
        trace_version: TRACE_VERSION,
        kind: Kind::Shrink,
        enforcer: env!("CARGO_PKG_VERSION").into(),
        kernel: Release::running().text,
        cgroup: shown(cgroup.path()),
        cgroup_id: cgroup.id(),
        policy: policy.clone(),
    };
    Writer::create(file, &header).map_err(|error| failure::trace("can't record to", file, &error))
}
