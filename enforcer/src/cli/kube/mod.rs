//! What commands have to do with the API server: how it is found, and how failures of it end.

mod changes;
mod follow;
mod node;
mod order;
mod view;

use super::{Exit, Failure, options::span};
use crate::kube::{
    call::CallError,
    connect::{ConnectError, Deadlines, Server, Source},
    patch::PlanError,
};
use enforcer_gate::Micros;
pub(super) use node::of_node;
pub(super) use order::{Order, carry_out};
use std::path::PathBuf;
pub(super) use view::{View, view, view_of};

/// How the API server is found.
#[derive(Debug, Clone, Default, clap::Args)]
pub(super) struct Access {
    /// The kubeconfig by which the API server is found; by default KUBECONFIG, or the service account of the pod that this
    /// runs in
    #[arg(long, value_name = "FILE")]
    pub(super) kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig; by default its current one
    #[arg(long, value_name = "NAME")]
    pub(super) context: Option<String>,
}

/// How a resize through the kubelet is followed.
#[derive(Debug, clap::Args)]
pub(super) struct Following {
    #[command(flatten)]
    pub(super) access: Access,
    /// With --via kube: how long the kubelet may take; 0s asks and does not wait
    #[arg(long, value_name = "TIME", value_parser = span)]
    #[arg(default_value_t = Micros::from_secs(300))]
    pub(super) wait: Micros,
}

impl Access {
    /// Where it was said or is plain that there is one; a kubeconfig in the home folder is not looked for.
    fn is_given(&self) -> bool {
        let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        self.kubeconfig.is_some()
            || self.context.is_some()
            || is_set("KUBECONFIG")
            || is_set("KUBERNETES_SERVICE_HOST")
    }

    async fn connect(&self, what: &str, on: &str) -> Result<Server, Failure> {
        let source = Source::find(self.kubeconfig.as_deref(), self.context.as_deref());
        let source = source.map_err(|error| no_client(what, on, &error))?;
        Server::connect(source, Deadlines::default()).await.map_err(|error| no_client(what, on, &error))
    }
}

/// Runs it to its end. A file or a plugin of the configuration that hangs is not waited for after that.
fn wait_for<T>(what: &str, on: &str, work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let built = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = built.map_err(|error| Failure::new(Exit::Failed, what, on, &error, ""))?;
    let done = runtime.block_on(work);
    runtime.shutdown_background();
    done
}

fn no_client(what: &str, on: &str, error: &ConnectError) -> Failure {
    Failure::new(Exit::Usage, what, on, error, error.advice())
}

fn no_answer(what: &str, on: &str, error: &CallError) -> Failure {
    let exit = match error {
        CallError::Unreachable { .. } | CallError::Deadline { .. } | CallError::Broken { .. } => {
            Exit::Unsupported
        }
        CallError::Status { status: 404, .. } => Exit::Usage,
        CallError::Status { status: 500.., .. } => Exit::Unsupported,
        CallError::TooLong { .. } | CallError::Garbage { .. } | CallError::Status { .. } => Exit::Failed,
    };
    Failure::new(exit, what, on, error, error.advice())
}

fn no_patch(what: &str, on: &str, error: &PlanError) -> Failure {
    Failure::new(Exit::Usage, what, on, error, error.advice())
}
