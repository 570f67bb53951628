//! Watches until it is told to stop.

use super::{Options, line};
use crate::cgroup::{Cgroup, Mount};
use crate::cli::{Exit, Failure, failure, json, output, screen::Screen, stop::end_at_once};
use crate::clock::nanos;
use crate::drift::{
    About, Drift, Expected, MendError, Outcome, Place, Turns, Watch, accepted, mend, parse, who,
};
use crate::node::Need as NodeNeed;
use crate::probe::{Event, Kind, LimitKind, LimitValue, LimitWrite, Need, Probe, ProbeError, ProbeOptions};
use enforcer_gate::CgroupId;
use nix::time::ClockId;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

const WHAT: &str = "can't watch limits of";
const NEEDS: [NodeNeed; 3] = [NodeNeed::Root, NodeNeed::CgroupV2Memory, NodeNeed::Btf];

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
    for (n, (file, expected)) in options.expect.iter().enumerate() {
        let other = options.expect[..n].iter().find(|(before, value)| before == file && value != expected);
        if other.is_some() {
            let why = format!("{} is expected to be two different values", file.name());
            return Err(Failure::new(Exit::Usage, WHAT, first, &why, "name one value for each file"));
        }
    }
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
        let probe_error = |error: ProbeError| failure::probe(WHAT, first, &error);
        let screen = output::screen(options.json.json).map_err(io)?;
        output::loading(options.json.json);
        let mut sentinel = Sentinel::start(options, cgroups, mount, screen).map_err(probe_error)?;
        // Not before: a signal ends the loading at once, and nothing is left of it.
        let (mut interrupt, mut terminate) = (stop(SignalKind::interrupt())?, stop(SignalKind::terminate())?);
        let watching = sentinel.watching();
        if watching.files.is_empty() {
            let why = watching.lost.join("; ");
            let todo = "enforcer check says which hooks this kernel has";
            return Err(Failure::new(Exit::Unsupported, WHAT, first, &why, todo));
        }
        // Looked at before it is said that writes are told: what is written after that is told as a write.
        let found = sentinel.look();
        sentinel.print(begin(&watching, options.json.json));
        sentinel.tell_found(found);
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

/// A cgroup's file that does not hold what it should.
type Drifted = (PathBuf, LimitKind, Expected);

struct Sentinel<'a> {
    options: &'a Options,
    cgroups: Vec<Cgroup>,
    mount: Mount,
    probe: Probe,
    /// Where it tells.
    screen: Screen,
    watch: Watch,
    /// When a limit may be put back (`CLOCK_MONOTONIC`).
    turns: Turns,
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
        Ok(Self { options, cgroups, mount, probe, screen, watch: Watch::default(), turns: Turns::default() })
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

    /// What differs already: the lines, and what to mend.
    fn look(&mut self) -> (Vec<String>, Vec<Drifted>) {
        let (mut drifted, mut told) = (Vec::new(), Vec::new());
        let now_ns = nanos(ClockId::CLOCK_MONOTONIC);
        for cgroup in &self.cgroups {
            for (file, expected) in &self.options.expect {
                let Some(value) = value_of(cgroup, *file) else { continue };
                if accepted(expected, value).is_none()
                    && self.watch.drift(cgroup.id(), *file, value, now_ns) == Drift::New
                {
                    let json = self.options.json.json;
                    told.push(line::found(cgroup.absolute(), *file, value, expected, json));
                    drifted.push((cgroup.absolute().to_owned(), *file, *expected));
                }
            }
        }
        (told, drifted)
    }

    fn tell_found(&mut self, (told, drifted): (Vec<String>, Vec<Drifted>)) {
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
            let due_ns = self.watch.due_ns().into_iter().chain(self.turns.due_ns()).min();
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
            let now_ns = nanos(ClockId::CLOCK_MONOTONIC);
            self.tell(now_ns);
            for (place, expected) in self.turns.due(now_ns) {
                self.mend_again(place, &expected);
            }
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

    /// Puts a limit back, if that is wanted, or has it wait for its turn.
    fn mend(&mut self, path: PathBuf, file: LimitKind, expected: &Expected) {
        let place = (path, file);
        if self.options.mend && self.turns.ask(&place, expected, nanos(ClockId::CLOCK_MONOTONIC)) {
            self.put_back(place, expected);
        }
    }

    /// Its turn has come; it may have been put right meanwhile.
    fn mend_again(&mut self, place: Place, expected: &Expected) {
        let now = Cgroup::open(&place.0).ok().and_then(|cgroup| value_of(&cgroup, place.1));
        if now.is_some_and(|now| accepted(expected, now).is_none()) {
            self.put_back(place, expected);
        }
    }

    fn put_back(&mut self, place: Place, expected: &Expected) {
        let (path, file) = &place;
        let done = Cgroup::open(path).map_err(Into::into).and_then(|cgroup| mend(&cgroup, *file, expected));
        // What was refused was not tried.
        let is_tried = !matches!(done, Err(MendError::Lowers));
        self.print(line::mended(path, *file, done, self.options.json.json));
        if is_tried {
            self.turns.written(place, nanos(ClockId::CLOCK_MONOTONIC));
        }
    }
}

/// What a file holds; `None` where it can't be read or understood.
fn value_of(cgroup: &Cgroup, file: LimitKind) -> Option<LimitValue> {
    let read = cgroup
        .read(file.name(), |text| Ok(std::str::from_utf8(text).ok().and_then(|text| parse(file, text))));
    read.ok().flatten()
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
