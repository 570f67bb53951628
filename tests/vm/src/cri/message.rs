//! What a kubelet tells its runtime to make pods, as far as these tests do (`runtime.v1` of k8s.io/cri-api).

use enforcer::cri::message::{ContainerMetadata, ImageSpec, LinuxContainerResources, PodSandboxMetadata};
use prost::Message;

/// `NamespaceMode`: the node's own.
pub(crate) const NODE: i32 = 2;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct NamespaceOption {
    #[prost(int32, tag = "1")]
    pub(crate) network: i32,
}

/// `LinuxSandboxSecurityContext`
#[derive(Clone, PartialEq, Message)]
pub(crate) struct SandboxSecurity {
    #[prost(message, optional, tag = "1")]
    pub(crate) namespace_options: Option<NamespaceOption>,
}

/// `LinuxPodSandboxConfig`
#[derive(Clone, PartialEq, Message)]
pub(crate) struct LinuxSandbox {
    #[prost(string, tag = "1")]
    pub(crate) cgroup_parent: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) security_context: Option<SandboxSecurity>,
}

/// `DNSConfig`
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Dns {
    #[prost(string, repeated, tag = "1")]
    pub(crate) servers: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PodSandboxConfig {
    #[prost(message, optional, tag = "1")]
    pub(crate) metadata: Option<PodSandboxMetadata>,
    #[prost(message, optional, tag = "4")]
    pub(crate) dns_config: Option<Dns>,
    #[prost(message, optional, tag = "8")]
    pub(crate) linux: Option<LinuxSandbox>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RunPodSandboxRequest {
    #[prost(message, optional, tag = "1")]
    pub(crate) config: Option<PodSandboxConfig>,
    #[prost(string, tag = "2")]
    pub(crate) runtime_handler: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RunPodSandboxResponse {
    #[prost(string, tag = "1")]
    pub(crate) pod_sandbox_id: String,
}

/// Of a pod or container: `StopPodSandboxRequest`, `RemovePodSandboxRequest`, `StartContainerRequest`,
/// `RemoveContainerRequest`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct IdRequest {
    #[prost(string, tag = "1")]
    pub(crate) id: String,
}

/// Of all calls whose answer says nothing.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Nothing {}

/// `LinuxContainerSecurityContext`
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ContainerSecurity {
    #[prost(message, optional, tag = "3")]
    pub(crate) namespace_options: Option<NamespaceOption>,
}

/// `LinuxContainerConfig`
#[derive(Clone, PartialEq, Message)]
pub(crate) struct LinuxContainer {
    #[prost(message, optional, tag = "1")]
    pub(crate) resources: Option<LinuxContainerResources>,
    #[prost(message, optional, tag = "2")]
    pub(crate) security_context: Option<ContainerSecurity>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ContainerConfig {
    #[prost(message, optional, tag = "1")]
    pub(crate) metadata: Option<ContainerMetadata>,
    #[prost(message, optional, tag = "2")]
    pub(crate) image: Option<ImageSpec>,
    #[prost(string, repeated, tag = "3")]
    pub(crate) command: Vec<String>,
    #[prost(message, optional, tag = "15")]
    pub(crate) linux: Option<LinuxContainer>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct CreateContainerRequest {
    #[prost(string, tag = "1")]
    pub(crate) pod_sandbox_id: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) config: Option<ContainerConfig>,
    #[prost(message, optional, tag = "3")]
    pub(crate) sandbox_config: Option<PodSandboxConfig>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct CreateContainerResponse {
    #[prost(string, tag = "1")]
    pub(crate) container_id: String,
}
