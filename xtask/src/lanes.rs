//! Jobs side by side whose output reads as if they had run one after another.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::ScopedJoinHandle;

/// Where a job prints: one lane at a time has the screen, the others' lines wait for it.
pub(crate) struct Out<'a> {
    screen: &'a Mutex<()>,
    ours: Option<MutexGuard<'a, ()>>,
    waiting: Vec<String>,
    print: &'a (dyn Fn(&str) + Sync),
}

impl<'a> Out<'a> {
    fn new(screen: &'a Mutex<()>, print: &'a (dyn Fn(&str) + Sync)) -> Self {
        Self { screen, ours: None, waiting: Vec::new(), print }
    }

    /// Prints a line, now or when the screen is free.
    pub(crate) fn line(&mut self, text: &str) {
        if self.ours.is_none() {
            self.ours = self.screen.try_lock().ok();
        }
        if self.ours.is_some() {
            self.flush();
            (self.print)(text);
        } else {
            self.waiting.push(text.to_owned());
        }
    }

    fn flush(&mut self) {
        for line in self.waiting.drain(..) {
            (self.print)(&line);
        }
    }

    /// The end of a job: others may print.
    fn pause(&mut self) {
        self.ours = None;
    }

    /// The end of a lane: waits for the screen where something waits for it.
    fn end(&mut self) {
        if !self.waiting.is_empty() {
            self.ours = Some(self.screen.lock().unwrap_or_else(PoisonError::into_inner));
            self.flush();
        }
        self.ours = None;
    }
}

/// Works through `jobs` in so many lanes, begun in their order, and gives the results in their order.
pub(crate) fn run<J: Send, R: Send>(
    jobs: Vec<J>,
    lanes: usize,
    print: &(dyn Fn(&str) + Sync),
    work: impl Fn(J, &mut Out) -> R + Sync,
) -> Vec<R> {
    let screen = Mutex::new(());
    let queue: Mutex<VecDeque<_>> = Mutex::new(jobs.into_iter().enumerate().collect());
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    let lane = || {
        let mut out = Out::new(&screen, print);
        let mut results = Vec::new();
        while let Some((number, job)) = next() {
            results.push((number, work(job, &mut out)));
            out.pause();
        }
        out.end();
        results
    };
    let mut results = std::thread::scope(|scope| {
        let lanes: Vec<_> = (0..lanes.max(1)).map(|_| scope.spawn(lane)).collect();
        let ended = lanes.into_iter().map(ScopedJoinHandle::join);
        ended
            .flat_map(|result| result.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect::<Vec<_>>()
    });
    results.sort_by_key(|(number, _)| *number);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::run;
    use std::sync::{Barrier, Mutex};

    /// Each job prints its number and waits for the others in between.
    fn printed(lanes: usize) -> (Vec<usize>, Vec<String>) {
        let (screen, together) = (Mutex::new(Vec::new()), Barrier::new(lanes));
        let print = |text: &str| screen.lock().unwrap().push(text.to_owned());
        let results = run((0..4).collect(), lanes, &print, |job: usize, out| {
            for part in 0..3 {
                together.wait();
                out.line(&format!("{job}.{part}"));
            }
            job * 10
        });
        (results, screen.into_inner().unwrap())
    }

    #[test]
    fn what_runs_together_prints_apart() {
        for lanes in [1, 2, 4] {
            let (results, lines) = printed(lanes);
            assert_eq!(results, [0, 10, 20, 30], "{lanes}");
            let jobs: Vec<_> = lines.chunks(3).map(|job| job[0].split_once('.').unwrap().0).collect();
            for (job, lines) in jobs.iter().zip(lines.chunks(3)) {
                assert_eq!(lines, [0, 1, 2].map(|part| format!("{job}.{part}")), "{lanes}: {lines:?}");
            }
            assert_eq!(jobs.len(), 4, "{lanes}: {lines:?}");
        }
    }
}
