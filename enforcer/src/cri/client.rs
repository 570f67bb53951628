//! The calls.

use super::{
    CriError,
    message::{
        Container, ContainerEventResponse, ContainerStatusRequest, ContainerStatusResponse, GetEventsRequest,
        IdFilter, LinuxContainerResources, ListContainersRequest, ListContainersResponse,
        ListPodSandboxRequest, ListPodSandboxResponse, PodSandbox, PodSandboxStatusRequest,
        PodSandboxStatusResponse, UpdateContainerResourcesRequest, UpdateContainerResourcesResponse,
        VersionRequest, VersionResponse,
    },
};
use enforcer_gate::Micros;
use http::uri::PathAndQuery;
use prost::Message;
use std::{error::Error, io, path::Path, sync::Arc, time::Duration};
use tokio::time::timeout;
use tonic::{
    Code, Request, Status, Streaming, TimeoutExpired,
    client::Grpc,
    transport::{Channel, Endpoint},
};
use tonic_prost::ProstCodec;

/// What a call may take where nothing else is said. A healthy runtime answers within milliseconds.
pub const DEADLINE: Duration = Duration::from_secs(10);
/// The longest answer that is taken; the kubelet takes as much.
pub const ANSWER_BYTES_MAX: usize = 16 << 20;
const SERVICE: &str = "/runtime.v1.RuntimeService/";
const IMAGE_SERVICE: &str = "/runtime.v1.ImageService/";
/// The version of the kubelet's own API, which is all that runtimes ask for.
const KUBELET_API: &str = "0.1.0";

/// A connection to a runtime. It is made anew by itself where it broke; a clone shares it.
#[derive(Debug, Clone)]
pub struct Client {
    grpc: Grpc<Channel>,
    socket: Arc<Path>,
    deadline: Duration,
}

impl Client {
    /// Connects. Each call, and the connecting, may take `deadline`.
    pub async fn connect(socket: &Path, deadline: Duration) -> Result<Self, CriError> {
        const CALL: &str = "connect";
        let socket: Arc<Path> = socket.into();
        let failed = |error: &(dyn Error + 'static)| connect_error(&socket, error);
        let text = socket.to_str().ok_or_else(|| CriError::BadAddress {
            address: crate::cgroup::shown(&socket),
            why: "its path is no text".into(),
        })?;
        let endpoint = Endpoint::from_shared(format!("unix://{text}")).map_err(|error| failed(&error))?;
        let connecting = timeout(deadline, endpoint.connect());
        let channel = match connecting.await {
            Ok(connected) => connected.map_err(|error| failed(&error))?,
            Err(_) => return Err(deadline_passed(&socket, CALL, deadline)),
        };
        let grpc = Grpc::new(channel).max_decoding_message_size(ANSWER_BYTES_MAX);
        Ok(Self { grpc, socket, deadline })
    }

    /// The socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// What a call may take.
    pub fn deadline(&self) -> Duration {
        self.deadline
    }

    /// Makes a call of `runtime.v1.RuntimeService` that has one answer.
    pub async fn call<Q, A>(&self, call: &'static str, request: Q) -> Result<A, CriError>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        self.call_of(SERVICE, call, request).await
    }

    /// Makes a call of `runtime.v1.ImageService` that has one answer.
    pub async fn image_call<Q, A>(&self, call: &'static str, request: Q) -> Result<A, CriError>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        self.call_of(IMAGE_SERVICE, call, request).await
    }

    async fn call_of<Q, A>(&self, service: &str, call: &'static str, request: Q) -> Result<A, CriError>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let mut grpc = self.grpc.clone();
        let mut request = Request::new(request);
        // So that the runtime gives up as well.
        request.set_timeout(self.deadline);
        let answer = async {
            grpc.ready().await.map_err(|error| Status::from_error(error.into()))?;
            grpc.unary(request, path(service, call), ProstCodec::<Q, A>::default()).await
        };
        match timeout(self.deadline, answer).await {
            Ok(Ok(answer)) => Ok(answer.into_inner()),
            Ok(Err(status)) => Err(self.error(call, &status)),
            Err(_) => Err(deadline_passed(&self.socket, call, self.deadline)),
        }
    }

    /// The runtime's name and version.
    pub async fn version(&self) -> Result<VersionResponse, CriError> {
        self.call("Version", VersionRequest { version: KUBELET_API.into() }).await
    }

    /// All pods, also those that have ended; or only the one with this id.
    pub async fn list_pod_sandbox(&self, id: Option<&str>) -> Result<Vec<PodSandbox>, CriError> {
        let request = ListPodSandboxRequest { filter: filter(id) };
        let answer: ListPodSandboxResponse = self.call("ListPodSandbox", request).await?;
        // Runtimes take the beginning of an id for it.
        Ok(answer.items.into_iter().filter(|pod| id.is_none_or(|id| pod.id == id)).collect())
    }

    /// All containers, also those that have ended; or only the one with this id.
    pub async fn list_containers(&self, id: Option<&str>) -> Result<Vec<Container>, CriError> {
        let request = ListContainersRequest { filter: filter(id) };
        let answer: ListContainersResponse = self.call("ListContainers", request).await?;
        Ok(answer.containers.into_iter().filter(|container| id.is_none_or(|id| container.id == id)).collect())
    }

    /// All that the runtime says of a container; `None` where there is no such (any more).
    pub async fn container_status(&self, id: &str) -> Result<Option<ContainerStatusResponse>, CriError> {
        let request = ContainerStatusRequest { container_id: id.into(), verbose: true };
        found(self.call("ContainerStatus", request).await)
    }

    /// All that the runtime says of a pod; `None` where there is no such (any more).
    pub async fn pod_sandbox_status(&self, id: &str) -> Result<Option<PodSandboxStatusResponse>, CriError> {
        let request = PodSandboxStatusRequest { pod_sandbox_id: id.into(), verbose: true };
        found(self.call("PodSandboxStatus", request).await)
    }

    /// Sets a container's resources. What is zero or empty stays as it is, as far as the runtime keeps to the API.
    pub async fn update_container_resources(
        &self,
        id: &str,
        linux: LinuxContainerResources,
    ) -> Result<(), CriError> {
        let request = UpdateContainerResourcesRequest { container_id: id.into(), linux: Some(linux) };
        let _: UpdateContainerResourcesResponse = self.call("UpdateContainerResources", request).await?;
        Ok(())
    }

    /// What happens to containers from now on. Waits for the first of it: many runtimes do not answer before, so it has
    /// no deadline and is for a task of its own.
    pub async fn events(&self) -> Result<Events, CriError> {
        let mut grpc = self.grpc.clone();
        let codec = ProstCodec::<GetEventsRequest, ContainerEventResponse>::default();
        let answer = async {
            grpc.ready().await.map_err(|error| Status::from_error(error.into()))?;
            grpc.server_streaming(Request::new(GetEventsRequest {}), path(SERVICE, EVENTS), codec).await
        };
        match answer.await {
            Ok(stream) => Ok(Events { stream: stream.into_inner(), client: self.clone() }),
            Err(status) => Err(self.error(EVENTS, &status)),
        }
    }

    fn error(&self, call: &'static str, status: &Status) -> CriError {
        let socket = self.socket.to_path_buf();
        let message = status.message().to_owned();
        let is = |code: Code| status.code() == code;
        // tonic keeps to the deadline that it sends as well.
        if is(Code::DeadlineExceeded) || causes(status).any(<dyn Error>::is::<TimeoutExpired>) {
            deadline_passed(&self.socket, call, self.deadline)
        } else if is(Code::Unimplemented) {
            CriError::Unimplemented { socket, call }
        } else if is(Code::NotFound) {
            CriError::NotFound { socket, call, message }
        } else if is(Code::OutOfRange) && message.contains("decoded message length") {
            // tonic's own, for an answer that is longer than it may be.
            CriError::TooLong { socket, call, bytes_max: ANSWER_BYTES_MAX }
        } else if is(Code::Unavailable) && io_error(status).is_some() {
            connect_error(&self.socket, status)
        } else if status.source().is_some() {
            // A status that the runtime sent has no cause here.
            CriError::Broken { socket, call, message: source(status) }
        } else {
            CriError::Failed { socket, call, code: status.code().description(), message }
        }
    }
}

const EVENTS: &str = "GetContainerEvents";

/// A stream of events.
#[derive(Debug)]
pub struct Events {
    stream: Streaming<ContainerEventResponse>,
    client: Client,
}

impl Events {
    /// The next one; `None` where the runtime ends the stream.
    pub async fn next(&mut self) -> Result<Option<ContainerEventResponse>, CriError> {
        self.stream.message().await.map_err(|status| self.client.error(EVENTS, &status))
    }
}

fn path(service: &str, call: &'static str) -> PathAndQuery {
    PathAndQuery::from_maybe_shared(format!("{service}{call}")).expect("names of calls are letters")
}

fn filter(id: Option<&str>) -> Option<IdFilter> {
    id.map(|id| IdFilter { id: id.into() })
}

fn found<T>(answer: Result<T, CriError>) -> Result<Option<T>, CriError> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(CriError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

pub(crate) fn deadline_passed(socket: &Path, call: &'static str, deadline: Duration) -> CriError {
    let deadline = Micros::new(u64::try_from(deadline.as_micros()).unwrap_or(u64::MAX));
    CriError::Deadline { socket: socket.into(), call, deadline }
}

fn connect_error(socket: &Path, error: &(dyn Error + 'static)) -> CriError {
    let source = match io_error(error) {
        Some(found) => found.raw_os_error().map_or_else(|| found.kind().into(), io::Error::from_raw_os_error),
        None => io::Error::other(source(error)),
    };
    CriError::Connect { socket: socket.into(), source }
}

fn io_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a io::Error> {
    causes(error).find_map(|cause| cause.downcast_ref())
}

/// The innermost cause in words.
fn source(error: &(dyn Error + 'static)) -> String {
    causes(error).last().map(ToString::to_string).unwrap_or_default()
}

fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| (*error).source())
}
