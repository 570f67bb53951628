//! The end: what is in flight is settled, and the parts end one after another.

use super::{Agent, End, event::Event, recorder::Recorder};
use crate::admin::model::HappeningKind;
use std::time::Duration;

impl Agent {
    /// Settles what is in flight, and ends.
    pub(super) async fn end(mut self, ended: Option<End>) -> End {
        self.shrinks.cancel();
        let settle = Duration::from_micros(self.config.agent.settle_timeout.get());
        let mut late = Vec::new();
        let settled = tokio::time::timeout(settle, async {
            while self.shrinks.len() > 0 {
                match self.next().await {
                    Event::Ended(ended) => self.shrink_ended(&ended),
                    Event::Kernel(Ok(event)) => drop(self.kernel_events(event)),
                    Event::Asked(request) => {
                        if let Some(probe) = &mut self.probe {
                            request.serve(probe);
                        }
                    }
                    Event::Question((_, reply)) => drop(reply),
                    Event::Scrape(reply) => drop(reply),
                    Event::Beat => {
                        self.health.beat();
                        self.guard_beat();
                    }
                    Event::Recorded(told) => self.recorder_told(told),
                    Event::Kernel(Err(_))
                    | Event::Loaded(_)
                    | Event::GuardLoaded(_)
                    | Event::State(_)
                    | Event::Runtime(_)
                    | Event::Read(_)
                    | Event::Guard(_)
                    | Event::Mended(_)
                    | Event::Kubernetes(_)
                    | Event::Due
                    | Event::Reload
                    | Event::Stop => {}
                }
                tokio::task::yield_now().await;
            }
        });
        if settled.await.is_err() {
            late.push(format!("{} changes of limits, which their restorers put back", self.shrinks.len()));
        }
        if !self.servers.end() {
            late.push("the thread of the admin socket and the pages hangs".into());
        }
        if let Some(guards) = self.guards.take() {
            let lost = guards.end("the agent was told to stop");
            if lost > 0 {
                late.push(format!("{lost} of the guard's verdicts are not in its store"));
            }
        }
        if let Some(mut recorder) = self.recorder.take() {
            self.drain_kernel(&mut recorder);
            if !recorder.end() {
                late.push("the disk of the OOM records hangs: the last ones are not there".into());
            }
        }
        self.happened("", HappeningKind::Agent, "enforcer ends");
        match ended {
            Some(end) => end,
            None if late.is_empty() => End::Stopped,
            None => End::Late(late.join("; ")),
        }
    }

    /// What the kernel told until now is recorded as well.
    fn drain_kernel(&mut self, recorder: &mut Recorder) {
        if let Some(probe) = &mut self.probe {
            // What is no record is lost, and is counted by the kernel's side.
            let _ = probe.drain(|event| recorder.take(&event));
        }
        let drops = self.kernel_drops();
        recorder.settle(&drops);
    }
}
