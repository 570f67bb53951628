//! Watches until it is told to stop.

use super::{Options, line};
use crate::cgroup::{Cgroup, Mount};
use crate::cli::{Exit, Failure, failure, json, output, screen::Screen, stop::end_at_once};
use crate::clock::nanos;
use crate::drift::{About, Drift, Expected, Outcome, Watch, accepted, mend, parse, who};
use crate::node::Need as NodeNeed;
use crate::probe::{Event, Kind, LimitKind, LimitWrite, Need, Probe, ProbeError, ProbeOptions};
use enforcer_gate::CgroupId;
use nix::time::ClockId;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

const WHAT: &str = "can't watch limits of";
const NEEDS: [NodeNeed; 3] = [NodeNeed::Root, NodeNeed::CgroupV2Memory, NodeNeed::Btf];

/// A limit is put back no more often than this.
const MEND_PAUSE_NS: u64 = 10_000_000_000;

/// The first line.
#[derive(Serialize)]
struct Watching {
    files: Vec<&'static str>,
    cgroups: usize,
    /// What is not told on this kernel.
    lost: Vec<String>,
}

pub(in crate::cli) fn run(options: &Options) -> Result<Exit, Failure> {
    let everything = Path::new("every cgroup").to_owned();
    let first = options.cgroups.first().unwrap_or(&everything);
    failure::require(WHAT, first, &NEEDS)?;
    let cgroups = options
        .cgroups
        .iter()
        .map(|path| Cgroup::open(path).map_err(|error| Failure::cgroup(WHAT, path, &error)));
    let cgroups = cgroups.collect::<Result<Vec<_>, _>>()?;
    let mount = Mount::discover().map_err(|error| Failure::cgroup(WHAT, first, &error))?;
    let io = |error: std::io::Error| Failure::new(Exit::Failed, WHAT, first, &error, "");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(io)?;
    runtime.block_on(async {
        let stop = |kind| signal(kind).map_err(io);
        let (mut interrupt, mut terminate) = (stop(SignalKind::interrupt())?, stop(SignalKind::terminate())?);
        let probe_error = |error: ProbeError| failure::probe(WHAT, first, &error);
        let screen = output::screen(options.json.json).map_err(io)?;
        output::loading(options.json.json);
        let mut sentinel = Sentinel::start(options, cgroups, mount, screen).map_err(probe_error)?;
        let watching = sentinel.watching();
        if watching.files.is_empty() {
            let why = watching.lost.join("; ");
            let todo = "enforcer check says which hooks this kernel has";
            return Err(Failure::new(Exit::Unsupported, WHAT, first, &why, todo));
        }
        sentinel.print(begin(&watching, options.json.json));
        sentinel.look();
        let stop = async {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        };
        let ended = sentinel.run(stop).await.map_err(probe_error);
        end_at_once();
        let told = output::end(sentinel.screen, "", Exit::Done);
        ended.and(told)
    })
}

fn begin(watching: &Watching, as_json: bool) -> String {
    if as_json {
        return json::line(watching);
    }
    let which = match watching.cgroups {
        0 => "every cgroup".into(),
        1 => "1 cgroup and all below".into(),
        more => format!("{more} cgroups and all below"),
    };
    let lost: String = watching.lost.iter().flat_map(|lost| ["not told: ", lost, "\n"]).collect();
    format!("watching {} of {which}\n{lost}", watching.files.join(", "))
}

struct Sentinel<'a> {
    options: &'a Options,
    cgroups: Vec<Cgroup>,
    mount: Mount,
    probe: Probe,
    /// Where it tells.
    screen: Screen,
    watch: Watch,
    /// When a limit was last mended, or that was tried (`CLOCK_MONOTONIC`).
    mended: BTreeMap<(PathBuf, LimitKind), u64>,
}

impl<'a> Sentinel<'a> {
    fn start(
        options: &'a Options,
        cgroups: Vec<Cgroup>,
        mount: Mount,
        screen: Screen,
    ) -> Result<Self, ProbeError> {
        let writes = LimitKind::ALL.iter().map(|file| Need::LimitWrite(*file));
        let probe = Probe::load(&ProbeOptions::only(writes.chain([Need::CgroupLife])))?;
        Ok(Self { options, cgroups, mount, probe, screen, watch: Watch::default(), mended: BTreeMap::new() })
    }

    /// Does not wait for whoever reads.
    fn print(&mut self, text: String) {
        self.screen.tell_left_out();
        self.screen.show(text);
    }

    fn watching(&self) -> Watching {
        let told = self.probe.hooks().iter().filter(|hook| hook.in_use.is_some());
        let file = |need| match need {
            Need::LimitWrite(file) => Some(LimitKind::name(file)),
            Need::OomKill
            | Need::OomGroup
            | Need::OomEnd
            | Need::Reclaim
            | Need::CgroupLife
            | Need::Guard => None,
        };
        let lost = self.probe.hooks().iter();
        Watching {
            files: told.filter_map(|hook| file(hook.need)).collect(),
            cgroups: self.cgroups.len(),
            lost: lost.filter_map(|hook| Some(format!("{}: {}", hook.need, hook.lost?))).collect(),
        }
    }

    /// What differs already.
    fn look(&mut self) {
        let (mut drifted, mut told) = (Vec::new(), Vec::new());
        for cgroup in &self.cgroups {
            for (file, expected) in &self.options.expect {
                let read = cgroup.read(file.name(), |text| {
                    Ok(std::str::from_utf8(text).ok().and_then(|text| parse(*file, text)))
                });
                let Ok(Some(value)) = read else { continue };
                if accepted(expected, value).is_none()
                    && self.watch.drift(cgroup.id(), *file, value) == Drift::New
                {
                    let json = self.options.json.json;
                    told.push(line::found(cgroup.absolute(), *file, value, expected, json));
                    drifted.push((cgroup.absolute().to_owned(), *file, *expected));
                }
            }
        }
        for text in told {
            self.print(text);
        }
        for (cgroup, file, expected) in drifted {
            self.mend(cgroup, file, &expected);
        }
    }

    async fn run(&mut self, stop: impl Future<Output = ()>) -> Result<(), ProbeError> {
        tokio::pin!(stop);
        loop {
            let due_ns = self.watch.due_ns();
            let due = async {
                match due_ns {
                    Some(due_ns) => {
                        let left = due_ns.saturating_sub(nanos(ClockId::CLOCK_MONOTONIC));
                        tokio::time::sleep(Duration::from_nanos(left)).await;
                    }
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = &mut stop => break,
                event = self.probe.next_event() => self.take(&event?),
                () = due => {}
            }
            self.tell(nanos(ClockId::CLOCK_MONOTONIC));
        }
        let mut events = Vec::new();
        self.probe.drain(|event| events.push(event))?;
        for event in &events {
            self.take(event);
        }
        // Also what was waited with, and what still runs.
        self.tell(u64::MAX);
        let dropped = self.probe.drops()?.get(&Kind::LimitWrite).copied().unwrap_or(0);
        if dropped > 0 {
            self.print(line::dropped(dropped, self.options.json.json));
        }
        Ok(())
    }

    fn take(&mut self, event: &Event) {
        match event {
            Event::LimitWrite(write) => {
                let Self { watch, mount, cgroups, options, .. } = self;
                watch.told(write, || about(write, mount, cgroups, options));
            }
            Event::CgroupLife(life) => self.watch.life(life),
            Event::OomKill(_)
            | Event::OomEnd(_)
            | Event::ReclaimBegin(_)
            | Event::ReclaimEnd(_)
            | Event::Judged(_) => {}
        }
    }

    fn tell(&mut self, now_ns: u64) {
        let monotonic = nanos(ClockId::CLOCK_MONOTONIC);
        let wall_ns = nanos(ClockId::CLOCK_REALTIME).saturating_sub(monotonic);
        for report in self.watch.take(now_ns) {
            self.print(line::line(&report, wall_ns, self.options.json.json));
            if let (Outcome::Ended { drift: Drift::New | Drift::Known, .. }, Some(cgroup), Some(expected)) =
                (report.outcome, report.about.cgroup, report.about.expected)
            {
                self.mend(cgroup, report.write.file, &expected);
            }
        }
    }

    /// Puts a limit back, if that is wanted and was not tried just now: who disagrees with somebody is no help to
    /// anybody by doing so a thousand times a second.
    fn mend(&mut self, path: PathBuf, file: LimitKind, expected: &Expected) {
        if !self.options.mend {
            return;
        }
        let now_ns = nanos(ClockId::CLOCK_MONOTONIC);
        let last = self.mended.get(&(path.clone(), file));
        if last.is_some_and(|last_ns| now_ns.saturating_sub(*last_ns) < MEND_PAUSE_NS) {
            return;
        }
        let done = Cgroup::open(&path).map_err(Into::into).and_then(|cgroup| mend(&cgroup, file, expected));
        self.print(line::mended(&path, file, done, self.options.json.json));
        self.mended.insert((path, file), now_ns);
    }
}

/// What can be found out about a write; `None` where its cgroup is not watched.
fn about(write: &LimitWrite, mount: &Mount, cgroups: &[Cgroup], options: &Options) -> Option<About> {
    let path = |cgroup: CgroupId| mount.path_of(cgroup).ok().flatten();
    let cgroup = path(write.cgroup);
    let is_watched = cgroups.is_empty()
        || cgroups.iter().any(|watched| {
            watched.id() == write.cgroup
                || cgroup.as_deref().is_some_and(|path| path.starts_with(watched.absolute()))
        });
    if !is_watched {
        return None;
    }
    let is_named = |named: &Cgroup| named.id() == write.cgroup || cgroup.as_deref() == Some(named.absolute());
    let expected =
        options.expect.iter().rfind(|(file, _)| *file == write.file).map(|(_, expected)| *expected);
    Some(About {
        writer_cgroup: write.writer.cgroup.and_then(path),
        who: who(write.writer.tgid),
        expected: expected.filter(|_| cgroups.iter().any(is_named)),
        cgroup,
    })
}
