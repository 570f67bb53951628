//! Asks the agent that runs on this node.

use super::{Exit, Failure, options::deadline};
use crate::{
    admin::{self, AskError, Client},
    cli::failure,
};
use clap::Args;
use enforcer_gate::Micros;
use std::{path::PathBuf, time::Duration};

/// How every command ends that asks the agent, and does no more than that.
pub(super) const EXITS: &str = "Exit codes: 0 done, 1 the agent ends or its answer makes no sense, 64 wrong usage, 69 no \
                                agent runs, or none that answers in time or lets this user in.";

/// Where the agent is asked.
#[derive(Debug, Args)]
pub(super) struct Admin {
    /// The admin socket of the agent
    #[arg(long, value_name = "PATH", default_value = admin::SOCKET_DEFAULT)]
    pub(super) socket: PathBuf,
    /// What the agent may take to answer
    #[arg(long, value_name = "TIME", value_parser = deadline)]
    #[arg(default_value_t = Micros::from_millis(admin::DEADLINE.as_secs() * 1000))]
    pub(super) deadline: Micros,
}

impl Admin {
    pub(super) fn client(&self) -> Client {
        Client::new(&self.socket, self.deadline())
    }

    pub(super) fn deadline(&self) -> Duration {
        Duration::from_micros(self.deadline.get())
    }

    /// Asks one thing.
    pub(super) fn ask<A>(
        &self,
        what: &str,
        call: impl AsyncFnOnce(&Client) -> Result<A, AskError>,
    ) -> Result<A, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Failure::new(Exit::Failed, what, "", &error, ""))?;
        let client = self.client();
        runtime.block_on(call(&client)).map_err(|error| failure::admin(what, &error))
    }
}
