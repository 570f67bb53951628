//! The messages of CRI v1 (`runtime.v1` in pkg/apis/runtime/v1/api.proto of k8s.io/cri-api), as far as they are used:
//! what else is in them is passed over. Names and numbers are the API's own; "not specified" is zero or empty.
#![expect(missing_docs, reason = "the API says what its fields mean")]

use prost::Message;
use std::collections::BTreeMap;

#[derive(Clone, PartialEq, Message)]
pub struct VersionRequest {
    #[prost(string, tag = "1")]
    pub version: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct VersionResponse {
    #[prost(string, tag = "1")]
    pub version: String,
    #[prost(string, tag = "2")]
    pub runtime_name: String,
    #[prost(string, tag = "3")]
    pub runtime_version: String,
    #[prost(string, tag = "4")]
    pub runtime_api_version: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct PodSandboxMetadata {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub uid: String,
    #[prost(string, tag = "3")]
    pub namespace: String,
    #[prost(uint32, tag = "4")]
    pub attempt: u32,
}

/// Without a filter: all of them.
#[derive(Clone, PartialEq, Message)]
pub struct ListPodSandboxRequest {
    #[prost(message, optional, tag = "1")]
    pub filter: Option<IdFilter>,
}

/// `PodSandboxFilter` and `ContainerFilter`, whose first field is the same.
#[derive(Clone, PartialEq, Message)]
pub struct IdFilter {
    #[prost(string, tag = "1")]
    pub id: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct ListPodSandboxResponse {
    #[prost(message, repeated, tag = "1")]
    pub items: Vec<PodSandbox>,
}

/// `PodSandboxState`: 0 is ready, 1 is not.
pub const SANDBOX_READY: i32 = 0;

#[derive(Clone, PartialEq, Message)]
pub struct PodSandbox {
    #[prost(string, tag = "1")]
    pub id: String,
    #[prost(message, optional, tag = "2")]
    pub metadata: Option<PodSandboxMetadata>,
    #[prost(int32, tag = "3")]
    pub state: i32,
    /// Nanoseconds since 1970.
    #[prost(int64, tag = "4")]
    pub created_at: i64,
    #[prost(btree_map = "string, string", tag = "5")]
    pub labels: BTreeMap<String, String>,
    #[prost(btree_map = "string, string", tag = "6")]
    pub annotations: BTreeMap<String, String>,
    #[prost(string, tag = "7")]
    pub runtime_handler: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct PodSandboxStatusRequest {
    #[prost(string, tag = "1")]
    pub pod_sandbox_id: String,
    #[prost(bool, tag = "2")]
    pub verbose: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct PodSandboxStatusResponse {
    #[prost(message, optional, tag = "1")]
    pub status: Option<PodSandboxStatus>,
    #[prost(btree_map = "string, string", tag = "2")]
    pub info: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, Message)]
pub struct PodSandboxStatus {
    #[prost(string, tag = "1")]
    pub id: String,
    #[prost(message, optional, tag = "2")]
    pub metadata: Option<PodSandboxMetadata>,
    #[prost(int32, tag = "3")]
    pub state: i32,
    #[prost(int64, tag = "4")]
    pub created_at: i64,
    #[prost(btree_map = "string, string", tag = "7")]
    pub labels: BTreeMap<String, String>,
    #[prost(btree_map = "string, string", tag = "8")]
    pub annotations: BTreeMap<String, String>,
    #[prost(string, tag = "9")]
    pub runtime_handler: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct ContainerMetadata {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(uint32, tag = "2")]
    pub attempt: u32,
}

#[derive(Clone, PartialEq, Message)]
pub struct ImageSpec {
    #[prost(string, tag = "1")]
    pub image: String,
    #[prost(string, tag = "18")]
    pub user_specified_image: String,
}

/// Without a filter: all of them.
#[derive(Clone, PartialEq, Message)]
pub struct ListContainersRequest {
    #[prost(message, optional, tag = "1")]
    pub filter: Option<IdFilter>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ListContainersResponse {
    #[prost(message, repeated, tag = "1")]
    pub containers: Vec<Container>,
}

/// `ContainerState`
pub const CONTAINER_CREATED: i32 = 0;
/// `ContainerState`
pub const CONTAINER_RUNNING: i32 = 1;
/// `ContainerState`
pub const CONTAINER_EXITED: i32 = 2;

#[derive(Clone, PartialEq, Message)]
pub struct Container {
    #[prost(string, tag = "1")]
    pub id: String,
    #[prost(string, tag = "2")]
    pub pod_sandbox_id: String,
    #[prost(message, optional, tag = "3")]
    pub metadata: Option<ContainerMetadata>,
    #[prost(message, optional, tag = "4")]
    pub image: Option<ImageSpec>,
    #[prost(string, tag = "5")]
    pub image_ref: String,
    #[prost(int32, tag = "6")]
    pub state: i32,
    #[prost(int64, tag = "7")]
    pub created_at: i64,
    #[prost(btree_map = "string, string", tag = "8")]
    pub labels: BTreeMap<String, String>,
    #[prost(btree_map = "string, string", tag = "9")]
    pub annotations: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ContainerStatusRequest {
    #[prost(string, tag = "1")]
    pub container_id: String,
    #[prost(bool, tag = "2")]
    pub verbose: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct ContainerStatusResponse {
    #[prost(message, optional, tag = "1")]
    pub status: Option<ContainerStatus>,
    #[prost(btree_map = "string, string", tag = "2")]
    pub info: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ContainerStatus {
    #[prost(string, tag = "1")]
    pub id: String,
    #[prost(message, optional, tag = "2")]
    pub metadata: Option<ContainerMetadata>,
    #[prost(int32, tag = "3")]
    pub state: i32,
    #[prost(int64, tag = "4")]
    pub created_at: i64,
    #[prost(message, optional, tag = "8")]
    pub image: Option<ImageSpec>,
    #[prost(string, tag = "9")]
    pub image_ref: String,
    #[prost(btree_map = "string, string", tag = "12")]
    pub labels: BTreeMap<String, String>,
    /// Since CRI of Kubernetes 1.27.
    #[prost(message, optional, tag = "16")]
    pub resources: Option<ContainerResources>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ContainerResources {
    #[prost(message, optional, tag = "1")]
    pub linux: Option<LinuxContainerResources>,
}

/// Microseconds, shares as of cgroup v1, bytes; `memory_swap_limit_in_bytes` is memory and swap together.
#[derive(Clone, PartialEq, Message)]
pub struct LinuxContainerResources {
    #[prost(int64, tag = "1")]
    pub cpu_period: i64,
    #[prost(int64, tag = "2")]
    pub cpu_quota: i64,
    #[prost(int64, tag = "3")]
    pub cpu_shares: i64,
    #[prost(int64, tag = "4")]
    pub memory_limit_in_bytes: i64,
    #[prost(int64, tag = "5")]
    pub oom_score_adj: i64,
    #[prost(string, tag = "6")]
    pub cpuset_cpus: String,
    #[prost(string, tag = "7")]
    pub cpuset_mems: String,
    #[prost(message, repeated, tag = "8")]
    pub hugepage_limits: Vec<HugepageLimit>,
    #[prost(btree_map = "string, string", tag = "9")]
    pub unified: BTreeMap<String, String>,
    #[prost(int64, tag = "10")]
    pub memory_swap_limit_in_bytes: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct HugepageLimit {
    #[prost(string, tag = "1")]
    pub page_size: String,
    #[prost(uint64, tag = "2")]
    pub limit: u64,
}

#[derive(Clone, PartialEq, Message)]
pub struct UpdateContainerResourcesRequest {
    #[prost(string, tag = "1")]
    pub container_id: String,
    #[prost(message, optional, tag = "2")]
    pub linux: Option<LinuxContainerResources>,
}

#[derive(Clone, PartialEq, Message)]
pub struct UpdateContainerResourcesResponse {}

#[derive(Clone, PartialEq, Message)]
pub struct GetEventsRequest {}

/// What it says of states is how things were when it was made, which may be long ago: only the ids are used.
#[derive(Clone, PartialEq, Message)]
pub struct ContainerEventResponse {
    /// Of a container, or of a sandbox.
    #[prost(string, tag = "1")]
    pub container_id: String,
    #[prost(int32, tag = "2")]
    pub container_event_type: i32,
    #[prost(int64, tag = "3")]
    pub created_at: i64,
    #[prost(message, optional, tag = "4")]
    pub pod_sandbox_status: Option<PodSandboxStatus>,
}
