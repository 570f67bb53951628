//! The way to the API server: where it is, who we are, and a client that is made anew when that changes.
//!
//! By a kubeconfig, or by the service account of the pod that we run in. Every wait has a deadline. A token's file is
//! read again at least once a minute, and at once where the API server says that the token is no good (401).

use crate::cgroup::{printable, shown};
use ::kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Where a service account's files are (`kube::Config::incluster`).
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// A client is made anew no more often than this.
const RENEW_MIN: Duration = Duration::from_secs(1);
/// What reading the configuration may take; a plugin of a kubeconfig's may ask a cloud.
const CONFIG_DEADLINE: Duration = Duration::from_secs(30);
/// As whom we ask, in the API server's audit log.
const USER_AGENT: &str = concat!("enforcer/", env!("CARGO_PKG_VERSION"));

/// How the API server is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The service account of the pod that we run in.
    ServiceAccount,
    /// A kubeconfig, with its current context or the one that is named.
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// The context.
        context: Option<String>,
    },
}

/// What may be waited.
#[derive(Debug, Clone, Copy)]
pub struct Deadlines {
    /// Until the connection stands, TLS included.
    pub connect: Duration,
    /// Until the whole answer is there.
    pub answer: Duration,
    /// How long a watch is asked for; without a word for that long and `answer` besides, it is taken for dead.
    pub watch: Duration,
    /// The first wait after a failure; it doubles.
    pub retry_min: Duration,
    /// The longest wait of our own; a server may ask for more.
    pub retry_max: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            answer: Duration::from_secs(10),
            watch: Duration::from_mins(3),
            retry_min: Duration::from_secs(1),
            retry_max: Duration::from_secs(30),
        }
    }
}

/// Why there is no client.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// Nothing says where the API server is.
    #[error("neither a kubeconfig nor a service account is there")]
    Nothing,
    /// The kubeconfig is no good.
    #[error("kubeconfig {}: {}", shown(path), printable(why))]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// The service account's files are no good.
    #[error("service account in {SERVICE_ACCOUNT}: {}", printable(why))]
    ServiceAccount {
        /// What is wrong.
        why: String,
    },
    /// No client can be made of it.
    #[error("{}: can't make a client: {}", shown(server), printable(why))]
    Client {
        /// The server's address.
        server: String,
        /// Why.
        why: String,
    },
}

impl ConnectError {
    /// The way out.
    pub const fn advice(&self) -> &'static str {
        match self {
            Self::Nothing => {
                "name a kubeconfig with --kubeconfig or KUBECONFIG; in a pod, let it have its service account's token \
                 (automountServiceAccountToken)"
            }
            Self::Kubeconfig { .. } => {
                "mend the file, or name another with --kubeconfig; kubectl --kubeconfig tries it"
            }
            Self::ServiceAccount { .. } => {
                "let the pod have its service account's token (automountServiceAccountToken)"
            }
            Self::Client { .. } => {
                "look at certificates and plugins of the configuration; proxies are not supported"
            }
        }
    }
}

impl Source {
    /// Where it is found: what was named, `KUBECONFIG`, the service account, `~/.kube/config`. A context, where one is named,
    /// is one of a kubeconfig: no service account is taken then.
    pub fn find(named: Option<&Path>, context: Option<&str>) -> Result<Self, ConnectError> {
        let env = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let found = Self::found(
            named,
            env("KUBECONFIG").map(PathBuf::from),
            context.is_none()
                && env("KUBERNETES_SERVICE_HOST").is_some()
                && Path::new(SERVICE_ACCOUNT).exists(),
            env("HOME").map(|home| Path::new(&home).join(".kube/config")).filter(|path| path.exists()),
        )?;
        Ok(match found {
            Self::Kubeconfig { path, .. } => Self::Kubeconfig { path, context: context.map(str::to_owned) },
            Self::ServiceAccount => Self::ServiceAccount,
        })
    }

    fn found(
        named: Option<&Path>,
        env: Option<PathBuf>,
        has_account: bool,
        home: Option<PathBuf>,
    ) -> Result<Self, ConnectError> {
        let file = |path| Self::Kubeconfig { path, context: None };
        if let Some(path) = named.map(Path::to_owned).or(env) {
            return Ok(file(path));
        }
        if has_account { Ok(Self::ServiceAccount) } else { home.map(file).ok_or(ConnectError::Nothing) }
    }

    /// On a thread of its own: it reads files, also those that a kubeconfig names, and a disk or a pipe may hang.
    async fn config(&self) -> Result<Config, ConnectError> {
        let (source, on) = (self.clone(), tokio::runtime::Handle::current());
        let reading = tokio::task::spawn_blocking(move || on.block_on(source.read()));
        reading.await.unwrap_or_else(|panicked| {
            Err(ConnectError::Client { server: format!("{self:?}"), why: panicked.to_string() })
        })
    }

    async fn read(&self) -> Result<Config, ConnectError> {
        match self {
            Self::ServiceAccount => {
                Config::incluster().map_err(|error| ConnectError::ServiceAccount { why: chain(&error) })
            }
            Self::Kubeconfig { path, context } => {
                let failed = |error: &dyn std::error::Error| ConnectError::Kubeconfig {
                    path: path.clone(),
                    why: chain(error),
                };
                let options = KubeConfigOptions { context: context.clone(), ..KubeConfigOptions::default() };
                let file = Kubeconfig::read_from(path).map_err(|error| failed(&error))?;
                Config::from_custom_kubeconfig(file, &options).await.map_err(|error| failed(&error))
            }
        }
    }
}

/// An API server that can be asked. Clones are the same.
#[derive(Clone)]
pub struct Server(Arc<Inner>);

struct Inner {
    source: Source,
    address: String,
    namespace: String,
    deadlines: Deadlines,
    /// And when it was last made anew.
    client: Mutex<(Client, Option<Instant>)>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("address", &self.0.address).field("source", &self.0.source).finish()
    }
}

impl Server {
    /// Reads the configuration and makes a client; nothing is sent yet. Must be called in a tokio runtime.
    pub async fn connect(source: Source, deadlines: Deadlines) -> Result<Self, ConnectError> {
        let made = make(&source, deadlines).await?;
        let client = Mutex::new((made.client, None));
        Ok(Self(Arc::new(Inner {
            source,
            address: made.address,
            namespace: made.namespace,
            deadlines,
            client,
        })))
    }

    /// Where it is.
    pub fn address(&self) -> &str {
        &self.0.address
    }

    /// The namespace that the configuration names.
    pub fn namespace(&self) -> &str {
        &self.0.namespace
    }

    /// What may be waited.
    pub fn deadlines(&self) -> Deadlines {
        self.0.deadlines
    }

    pub(super) fn client(&self) -> Client {
        self.0.client.lock().unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    /// Reads the configuration again, tokens and certificates with it. `false`: that was done a moment ago.
    pub(super) async fn renew(&self) -> Result<bool, ConnectError> {
        let last = self.0.client.lock().unwrap_or_else(PoisonError::into_inner).1;
        if last.is_some_and(|last| last.elapsed() < RENEW_MIN) {
            return Ok(false);
        }
        let made = make(&self.0.source, self.0.deadlines).await?;
        *self.0.client.lock().unwrap_or_else(PoisonError::into_inner) = (made.client, Some(Instant::now()));
        Ok(true)
    }
}

struct Made {
    client: Client,
    address: String,
    namespace: String,
}

/// Files and plugins may hang: that is waited for on another thread, and not for ever.
async fn make(source: &Source, deadlines: Deadlines) -> Result<Made, ConnectError> {
    let too_long = || ConnectError::Client {
        server: format!("{source:?}"),
        why: format!("reading the configuration took longer than {} s", CONFIG_DEADLINE.as_secs()),
    };
    let config = tokio::time::timeout(CONFIG_DEADLINE, source.config()).await.map_err(|_| too_long())??;
    let config = with_bounds(config, deadlines);
    let (address, namespace) = (config.cluster_url.to_string(), config.default_namespace.clone());
    let address = address.trim_end_matches('/').to_owned();
    let making = tokio::task::spawn_blocking(move || Client::try_from(config).map_err(|error| chain(&error)));
    let client = match tokio::time::timeout(CONFIG_DEADLINE, making).await {
        Ok(Ok(made)) => made,
        Ok(Err(panicked)) => Err(panicked.to_string()),
        Err(_) => return Err(too_long()),
    };
    let client = client.map_err(|why| ConnectError::Client { server: address.clone(), why })?;
    Ok(Made { client, address, namespace })
}

fn with_bounds(mut config: Config, deadlines: Deadlines) -> Config {
    config.connect_timeout = Some(deadlines.connect);
    config.read_timeout = Some(deadlines.watch + deadlines.answer);
    config.write_timeout = Some(deadlines.answer);
    config.reset_reader_on_write = true;
    // What is to be tried again, and when, is decided by whoever asks.
    config.default_retry = false;
    if let Ok(agent) = USER_AGENT.parse() {
        config.headers.push((http::header::USER_AGENT, agent));
    }
    config
}

/// An error with what it came from; many say only half of it.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    const DEPTH_MAX: usize = 8;
    let mut text = error.to_string();
    let mut source = error.source();
    for _ in 0..DEPTH_MAX {
        let Some(error) = source else { break };
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        source = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_named_comes_first_and_home_last() {
        let file = |name: &str| Source::Kubeconfig { path: name.into(), context: None };
        let found = |named: Option<&str>, env: Option<&str>, account, home: Option<&str>| {
            Source::found(named.map(Path::new), env.map(Into::into), account, home.map(Into::into))
        };
        assert_eq!(found(Some("a"), Some("b"), true, Some("c")), Ok(file("a")));
        assert_eq!(found(None, Some("b"), true, Some("c")), Ok(file("b")));
        assert_eq!(found(None, None, true, Some("c")), Ok(Source::ServiceAccount));
        assert_eq!(found(None, None, false, Some("c")), Ok(file("c")));
        assert_eq!(found(None, None, false, None), Err(ConnectError::Nothing));
    }

    #[tokio::test]
    async fn a_kubeconfig_that_is_no_good_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("config");
        let connect = || {
            Server::connect(Source::Kubeconfig { path: path.clone(), context: None }, Deadlines::default())
        };
        for text in ["", "a: [", "\u{1b}[2J", "apiVersion: v1\nkind: Config\ncurrent-context: x\n"] {
            std::fs::write(&path, text).expect("writes");
            let error = connect().await.expect_err(text);
            let told = error.to_string();
            assert!(matches!(error, ConnectError::Kubeconfig { .. }), "{text}: {error:?}");
            assert!(told.starts_with("kubeconfig /") && !told.contains('\u{1b}'), "{text}: {told}");
            assert!(error.advice().contains("--kubeconfig"));
        }
        std::fs::remove_file(&path).expect("is there");
        let error = connect().await.expect_err("it is gone");
        assert!(error.to_string().contains("No such file"), "{error}");
    }
}
