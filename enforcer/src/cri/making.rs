//! The messages of CRI v1 that make pods and fetch images (`runtime.v1` in pkg/apis/runtime/v1/api.proto of
//! k8s.io/cri-api), as far as they are used. Names and numbers are the API's own; "not specified" is zero or empty.
#![expect(missing_docs, reason = "the API says what its fields mean")]

use super::message::{ContainerMetadata, ImageSpec, LinuxContainerResources, PodSandboxMetadata};
use prost::Message;
use std::collections::BTreeMap;

/// `NamespaceMode`: one for all of the pod.
pub const POD: i32 = 0;
/// `NamespaceMode`: each container's own.
pub const CONTAINER: i32 = 1;
/// `NamespaceMode`: the node's own.
pub const NODE: i32 = 2;

#[derive(Clone, PartialEq, Message)]
pub struct NamespaceOption {
    #[prost(int32, tag = "1")]
    pub network: i32,
    #[prost(int32, tag = "2")]
    pub pid: i32,
}

/// `LinuxSandboxSecurityContext`
#[derive(Clone, PartialEq, Message)]
pub struct SandboxSecurity {
    #[prost(message, optional, tag = "1")]
    pub namespace_options: Option<NamespaceOption>,
}

/// `LinuxPodSandboxConfig`
#[derive(Clone, PartialEq, Message)]
pub struct LinuxSandbox {
    #[prost(string, tag = "1")]
    pub cgroup_parent: String,
    #[prost(message, optional, tag = "2")]
    pub security_context: Option<SandboxSecurity>,
}

/// `DNSConfig`
#[derive(Clone, PartialEq, Message)]
pub struct Dns {
    #[prost(string, repeated, tag = "1")]
    pub servers: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub struct PodSandboxConfig {
    #[prost(message, optional, tag = "1")]
    pub metadata: Option<PodSandboxMetadata>,
    #[prost(message, optional, tag = "4")]
    pub dns_config: Option<Dns>,
    #[prost(btree_map = "string, string", tag = "6")]
    pub labels: BTreeMap<String, String>,
    #[prost(btree_map = "string, string", tag = "7")]
    pub annotations: BTreeMap<String, String>,
    #[prost(message, optional, tag = "8")]
    pub linux: Option<LinuxSandbox>,
}

#[derive(Clone, PartialEq, Message)]
pub struct RunPodSandboxRequest {
    #[prost(message, optional, tag = "1")]
    pub config: Option<PodSandboxConfig>,
    #[prost(string, tag = "2")]
    pub runtime_handler: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct RunPodSandboxResponse {
    #[prost(string, tag = "1")]
    pub pod_sandbox_id: String,
}

/// Of a pod or container: `StopPodSandboxRequest`, `RemovePodSandboxRequest`, `StartContainerRequest`,
/// `RemoveContainerRequest`.
#[derive(Clone, PartialEq, Message)]
pub struct IdRequest {
    #[prost(string, tag = "1")]
    pub id: String,
}

/// Of all calls without a question, or whose answer says nothing.
#[derive(Clone, PartialEq, Message)]
pub struct Nothing {}

/// `LinuxContainerSecurityContext`
#[derive(Clone, PartialEq, Message)]
pub struct ContainerSecurity {
    #[prost(message, optional, tag = "3")]
    pub namespace_options: Option<NamespaceOption>,
}

/// `LinuxContainerConfig`
#[derive(Clone, PartialEq, Message)]
pub struct LinuxContainer {
    #[prost(message, optional, tag = "1")]
    pub resources: Option<LinuxContainerResources>,
    #[prost(message, optional, tag = "2")]
    pub security_context: Option<ContainerSecurity>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ContainerConfig {
    #[prost(message, optional, tag = "1")]
    pub metadata: Option<ContainerMetadata>,
    #[prost(message, optional, tag = "2")]
    pub image: Option<ImageSpec>,
    #[prost(string, repeated, tag = "3")]
    pub command: Vec<String>,
    #[prost(btree_map = "string, string", tag = "9")]
    pub labels: BTreeMap<String, String>,
    #[prost(message, optional, tag = "15")]
    pub linux: Option<LinuxContainer>,
}

#[derive(Clone, PartialEq, Message)]
pub struct CreateContainerRequest {
    #[prost(string, tag = "1")]
    pub pod_sandbox_id: String,
    #[prost(message, optional, tag = "2")]
    pub config: Option<ContainerConfig>,
    #[prost(message, optional, tag = "3")]
    pub sandbox_config: Option<PodSandboxConfig>,
}

#[derive(Clone, PartialEq, Message)]
pub struct CreateContainerResponse {
    #[prost(string, tag = "1")]
    pub container_id: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct ExecSyncRequest {
    #[prost(string, tag = "1")]
    pub container_id: String,
    #[prost(string, repeated, tag = "2")]
    pub cmd: Vec<String>,
    /// Seconds; zero is none.
    #[prost(int64, tag = "3")]
    pub timeout: i64,
}

/// What it printed is of no use here.
#[derive(Clone, PartialEq, Message)]
pub struct ExecSyncResponse {
    #[prost(int32, tag = "3")]
    pub exit_code: i32,
}

/// `PullImageRequest`, `RemoveImageRequest`
#[derive(Clone, PartialEq, Message)]
pub struct ImageRequest {
    #[prost(message, optional, tag = "1")]
    pub image: Option<ImageSpec>,
}

#[derive(Clone, PartialEq, Message)]
pub struct PullImageResponse {
    #[prost(string, tag = "1")]
    pub image_ref: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct ImageStatusResponse {
    #[prost(message, optional, tag = "1")]
    pub image: Option<Image>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ListImagesResponse {
    #[prost(message, repeated, tag = "1")]
    pub images: Vec<Image>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Image {
    #[prost(string, tag = "1")]
    pub id: String,
    #[prost(string, repeated, tag = "2")]
    pub repo_tags: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub struct RuntimeConfigResponse {
    #[prost(message, optional, tag = "1")]
    pub linux: Option<LinuxRuntimeConfiguration>,
}

/// `CgroupDriver`: systemd is 0.
pub const CGROUPFS: i32 = 1;

#[derive(Clone, PartialEq, Message)]
pub struct LinuxRuntimeConfiguration {
    #[prost(int32, tag = "1")]
    pub cgroup_driver: i32,
}

#[derive(Clone, PartialEq, Message)]
pub struct StatusRequest {
    #[prost(bool, tag = "1")]
    pub verbose: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct StatusResponse {
    #[prost(btree_map = "string, string", tag = "2")]
    pub info: BTreeMap<String, String>,
}
