//! What a kubelet tells its runtime to make pods, as far as these tests do (`runtime.v1` of k8s.io/cri-api).

use enforcer::cri::message::{ContainerMetadata, ImageSpec, LinuxContainerResources, PodSandboxMetadata};
use prost::Message;

/// `NamespaceMode`: the node's own.
pub(super) const NODE: i32 = 2;

#[derive(Clone, PartialEq, Message)]
pub(super) struct NamespaceOption {
    #[prost(int32, tag = "1")]
    pub(super) network: i32,
}

/// `LinuxSandboxSecurityContext`
#[derive(Clone, PartialEq, Message)]
pub(super) struct SandboxSecurity {
    #[prost(message, optional, tag = "1")]
    pub(super) namespace_options: Option<NamespaceOption>,
}

/// `LinuxPodSandboxConfig`
#[derive(Clone, PartialEq, Message)]
pub(super) struct LinuxSandbox {
    #[prost(string, tag = "1")]
    pub(super) cgroup_parent: String,
    #[prost(message, optional, tag = "2")]
    pub(super) security_context: Option<SandboxSecurity>,
}

/// `DNSConfig`
#[derive(Clone, PartialEq, Message)]
pub(super) struct Dns {
    #[prost(string, repeated, tag = "1")]
    pub(super) servers: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct PodSandboxConfig {
    #[prost(message, optional, tag = "1")]
    pub(super) metadata: Option<PodSandboxMetadata>,
    #[prost(message, optional, tag = "4")]
    pub(super) dns_config: Option<Dns>,
    #[prost(message, optional, tag = "8")]
    pub(super) linux: Option<LinuxSandbox>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct RunPodSandboxRequest {
    #[prost(message, optional, tag = "1")]
    pub(super) config: Option<PodSandboxConfig>,
    #[prost(string, tag = "2")]
    pub(super) runtime_handler: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct RunPodSandboxResponse {
    #[prost(string, tag = "1")]
    pub(super) pod_sandbox_id: String,
}

/// Of a pod or container: `StopPodSandboxRequest`, `RemovePodSandboxRequest`, `StartContainerRequest`,
/// `RemoveContainerRequest`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct IdRequest {
    #[prost(string, tag = "1")]
    pub(super) id: String,
}

/// Of all calls whose answer says nothing.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Nothing {}

/// `LinuxContainerSecurityContext`
#[derive(Clone, PartialEq, Message)]
pub(super) struct ContainerSecurity {
    #[prost(message, optional, tag = "3")]
    pub(super) namespace_options: Option<NamespaceOption>,
}

/// `LinuxContainerConfig`
#[derive(Clone, PartialEq, Message)]
pub(super) struct LinuxContainer {
    #[prost(message, optional, tag = "1")]
    pub(super) resources: Option<LinuxContainerResources>,
    #[prost(message, optional, tag = "2")]
    pub(super) security_context: Option<ContainerSecurity>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ContainerConfig {
    #[prost(message, optional, tag = "1")]
    pub(super) metadata: Option<ContainerMetadata>,
    #[prost(message, optional, tag = "2")]
    pub(super) image: Option<ImageSpec>,
    #[prost(string, repeated, tag = "3")]
    pub(super) command: Vec<String>,
    #[prost(message, optional, tag = "15")]
    pub(super) linux: Option<LinuxContainer>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct CreateContainerRequest {
    #[prost(string, tag = "1")]
    pub(super) pod_sandbox_id: String,
    #[prost(message, optional, tag = "2")]
    pub(super) config: Option<ContainerConfig>,
    #[prost(message, optional, tag = "3")]
    pub(super) sandbox_config: Option<PodSandboxConfig>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct CreateContainerResponse {
    #[prost(string, tag = "1")]
    pub(super) container_id: String,
}
