//! From kernel events to whole OOMs. No I/O, no clock.

use crate::probe::{OomEnd, OomKill};

/// Victims of one OOM that are kept; more are counted.
const VICTIMS_MAX: usize = 2048;
/// Where no end is told, an OOM is over when no victim came for so long, in nanoseconds.
const QUIET_NS: u64 = 200_000_000;
/// The same where ends are told, but this one may have been lost.
const QUIET_LONG_NS: u64 = 5_000_000_000;

/// An OOM that is over.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Finished {
    /// Its number.
    pub seq: u64,
    /// Its victims, as they were marked.
    pub kills: Vec<OomKill>,
    /// Victims that are missing: their records were lost, or there were too many.
    pub missing: u32,
    /// What its end told; `None` where that was lost or is not told on this kernel.
    pub end: Option<OomEnd>,
}

impl Finished {
    /// When it happened: its first victim's mark, or its beginning where that is lost.
    pub fn at_ns(&self) -> u64 {
        let mark = self.kills.first().map(|kill| kill.at_ns);
        mark.or(self.end.map(|end| end.begin_ns)).unwrap_or(0)
    }

    /// When the OOM began, as well as it is known.
    pub fn begin_ns(&self) -> u64 {
        self.end.map_or(self.at_ns(), |end| end.begin_ns)
    }
}

/// Joins victims into OOMs. The kernel runs one OOM at a time, so there is one that is open at most.
#[derive(Debug)]
pub struct Assembler {
    open: Option<Finished>,
    last_ns: u64,
    quiet_ns: u64,
}

impl Assembler {
    /// `ends`: whether the kernel tells that an OOM is over.
    pub fn new(ends: bool) -> Self {
        Self { open: None, last_ns: 0, quiet_ns: if ends { QUIET_LONG_NS } else { QUIET_NS } }
    }

    /// A victim; gives back the OOM before, if this one is of another.
    pub fn kill(&mut self, kill: &OomKill) -> Option<Finished> {
        let done = self.open.take_if(|open| open.seq != kill.seq).map(finish);
        self.last_ns = kill.at_ns;
        let open = self.open.get_or_insert_with(|| Finished { seq: kill.seq, ..Finished::default() });
        if open.kills.len() < VICTIMS_MAX {
            open.kills.push(*kill);
        }
        // What is missing shows by the places, also where the end is lost.
        open.missing = open.missing.max(kill.index.saturating_add(1));
        done
    }

    /// An end; gives back the OOMs that are over with it, oldest first.
    pub fn end(&mut self, end: &OomEnd) -> Vec<Finished> {
        let mut done = Vec::new();
        done.extend(self.open.take_if(|open| open.seq != end.seq).map(finish));
        let mut this = self.open.take().unwrap_or_else(|| Finished { seq: end.seq, ..Finished::default() });
        this.missing = this.missing.max(end.victims);
        this.end = Some(*end);
        done.push(finish(this));
        done
    }

    /// Gives back the open OOM if it has been quiet for long enough at `now_ns`.
    pub fn quiet(&mut self, now_ns: u64) -> Option<Finished> {
        let due_ns = self.due_ns()?;
        self.open.take_if(|_| now_ns >= due_ns).map(finish)
    }

    /// When to ask [`Self::quiet`] again.
    pub fn due_ns(&self) -> Option<u64> {
        self.open.as_ref().map(|_| self.last_ns.saturating_add(self.quiet_ns))
    }

    /// Nothing more will come.
    pub fn flush(&mut self) -> Option<Finished> {
        self.open.take().map(finish)
    }
}

/// Until here `missing` was how many victims there are in all.
fn finish(mut open: Finished) -> Finished {
    let here = u32::try_from(open.kills.len()).unwrap_or(u32::MAX);
    open.missing = open.missing.saturating_sub(here);
    open
}
