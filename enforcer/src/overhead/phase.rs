//! What measured pods do while they are measured, and the probing of them.

use crate::cri::Client;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{MissedTickBehavior, interval},
};

/// Between two probes of a container; a kubelet's are no more frequent (`periodSeconds` is at least 1).
const PROBE_INTERVAL: Duration = Duration::from_secs(1);
/// What a probe may take, in seconds.
const PROBE_TIMEOUT_S: i64 = 30;

/// What measured pods do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Their containers wait.
    #[default]
    Idle,
    /// Their containers wait, and a command is run in each every second, as an exec probe is.
    ExecProbe,
    /// Their containers work, with a tenth of a CPU each.
    Load,
}

impl Phase {
    /// Its name, as in JSON and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::ExecProbe => "exec-probe",
            Self::Load => "load",
        }
    }
}

/// Probes containers until it is ended or dropped.
#[derive(Debug)]
pub(super) struct Probing {
    stop: watch::Sender<bool>,
    tasks: JoinSet<u32>,
}

impl Probing {
    /// Begins. Each container has a task of its own, so that a slow one holds up no other, and is never probed twice at
    /// once.
    pub(super) fn start(
        client: &Client,
        containers: impl Iterator<Item = String>,
        command: &[String],
    ) -> Self {
        let (stop, stopped) = watch::channel(false);
        let mut tasks = JoinSet::new();
        for container in containers {
            tasks.spawn(probe(client.clone(), container, command.to_vec(), stopped.clone()));
        }
        Self { stop, tasks }
    }

    /// Waits for the probes that are on their way; gives back how many succeeded.
    pub(super) async fn end(mut self) -> u32 {
        self.stop.send_replace(true);
        let mut done = 0_u32;
        while let Some(one) = self.tasks.join_next().await {
            done = done.saturating_add(one.unwrap_or(0));
        }
        done
    }
}

async fn probe(
    client: Client,
    container: String,
    command: Vec<String>,
    mut stop: watch::Receiver<bool>,
) -> u32 {
    let mut done = 0_u32;
    let mut tick = interval(PROBE_INTERVAL);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => return done,
            _ = tick.tick() => {}
        }
        // One that fails is not counted, which is told: the container may be about to be removed.
        if client.exec_sync(&container, &command, PROBE_TIMEOUT_S).await.is_ok_and(|code| code == 0) {
            done = done.saturating_add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cri::making::{ExecSyncRequest, ExecSyncResponse};
    use clap::ValueEnum as _;
    use enforcer_test_cri::{Reply, Server};
    use prost::Message as _;

    const LONG: Duration = Duration::from_mins(1);

    #[tokio::test]
    async fn each_container_is_probed_and_what_succeeds_is_counted() {
        let server = Server::start(|call, request| {
            assert_eq!(call, "ExecSync");
            let request = ExecSyncRequest::decode(request).expect("is one");
            assert_eq!((request.cmd, request.timeout), (vec!["true".to_owned()], PROBE_TIMEOUT_S));
            match request.container_id.as_str() {
                "good" => Reply::of(&ExecSyncResponse { exit_code: 0 }),
                "bad" => Reply::of(&ExecSyncResponse { exit_code: 1 }),
                _ => Reply::Status(5, "no such container"),
            }
        });
        let client = Client::connect(&server.socket(), LONG).await.expect("connects");
        let containers = ["good", "bad", "gone"].map(String::from).into_iter();
        let probing = Probing::start(&client, containers, &["true".to_owned()]);
        // The first probe of each is at once, and the end waits for those that are on their way.
        while server.calls("ExecSync") < 4 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let calls = server.calls("ExecSync");
        let done = usize::try_from(probing.end().await).expect("few");
        assert!(done >= 1 && done <= calls - 2, "{done} of {calls}");
        tokio::time::sleep(PROBE_INTERVAL).await;
        assert!(server.calls("ExecSync") <= calls + 3, "it has ended");
    }

    #[tokio::test]
    async fn one_that_hangs_holds_up_no_other() {
        let server = Server::start(|_, request| {
            let request = ExecSyncRequest::decode(request).expect("is one");
            let hangs = request.container_id == "hangs";
            if hangs { Reply::Hang } else { Reply::of(&ExecSyncResponse { exit_code: 0 }) }
        });
        let client = Client::connect(&server.socket(), Duration::from_secs(2)).await.expect("connects");
        let probing = Probing::start(&client, ["hangs", "good"].map(String::from).into_iter(), &[]);
        while server.calls("ExecSync") < 3 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(probing.end().await >= 1, "the end waits no longer than the call's deadline");
    }

    #[test]
    fn names_are_those_of_the_command_line_and_of_the_json() {
        for phase in Phase::value_variants() {
            assert_eq!(phase.to_possible_value().expect("has one").get_name(), phase.name());
            assert_eq!(serde_json::to_value(phase).expect("is JSON"), phase.name());
        }
    }
}
