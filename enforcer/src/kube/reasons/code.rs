//! The codes of reasons: for scripts, metrics and dashboards, so they stay as they are.

use serde::{Serialize, Serializer};
use std::fmt;

/// Declares each code once, with its name.
macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// Which reason it is.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Code {
            $($(#[$doc])* $variant,)*
        }

        impl Code {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// As scripts know it.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

codes! {
    /// The node has not enough memory for it now.
    DeferredMemory = "deferred-memory",
    /// The node has not enough CPU for it now.
    DeferredCpu = "deferred-cpu",
    /// It waits for something else.
    DeferredOther = "deferred-other",
    /// In-place resize is off on the node.
    InfeasibleFeatureOff = "infeasible-feature-off",
    /// In-place resize of a pod's own resources is off on the node.
    InfeasiblePodLevelOff = "infeasible-pod-level-off",
    /// The pod is a static one.
    InfeasibleStaticPod = "infeasible-static-pod",
    /// The container may swap.
    InfeasibleSwap = "infeasible-swap",
    /// The node's CPU manager is static and the pod Guaranteed.
    InfeasibleCpuManager = "infeasible-cpu-manager",
    /// The node's memory manager is static and the pod Guaranteed.
    InfeasibleMemoryManager = "infeasible-memory-manager",
    /// More is asked for than the node has for pods in all.
    InfeasibleCapacity = "infeasible-capacity",
    /// A volume in memory would change its size.
    InfeasibleMemoryVolume = "infeasible-memory-volume",
    /// Words that are not known.
    InfeasibleOther = "infeasible-other",
    /// Usage is above the new limit, and the page cache in it could go.
    ErrorUsagePageCache = "error-usage-page-cache",
    /// Usage is above the new limit, and stays there whatever is reclaimed.
    ErrorUsageResident = "error-usage-resident",
    /// Usage is above the new limit; of what kind is not known.
    ErrorUsage = "error-usage",
    /// Usage was above the new limit and is under it now; the kubelet's figure is old.
    ErrorUsageStale = "error-usage-stale",
    /// The kubelet has no figure of the usage.
    ErrorNoUsage = "error-no-usage",
    /// The runtime or the kernel refused.
    ErrorRuntime = "error-runtime",
    /// A quota of the namespace has no room.
    RefusedQuota = "refused-quota",
    /// A limit range of the namespace does not allow it.
    RefusedLimitRange = "refused-limit-range",
    /// The pod's class would change.
    RefusedQosChange = "refused-qos-change",
    /// A limit or request would be taken away.
    RefusedRemoval = "refused-removal",
    /// More is asked for than the node has for pods in all.
    RefusedNodeCapacity = "refused-node-capacity",
    /// The node can't do it.
    RefusedNodeFeature = "refused-node-feature",
    /// The pod is a static one.
    RefusedStaticPod = "refused-static-pod",
    /// Who asked may not.
    RefusedNotAllowed = "refused-not-allowed",
    /// An admission policy or webhook of the cluster refuses it.
    RefusedPolicy = "refused-policy",
    /// The values make no sense to the API server.
    RefusedInvalid = "refused-invalid",
    /// Words that are not known.
    RefusedOther = "refused-other",
    /// The kubelet has not seen the newest spec.
    KubeletBehind = "kubelet-behind",
    /// The node says that it is not ready.
    NodeNotReady = "node-not-ready",
    /// The node has not been heard of.
    NodeSilent = "node-silent",
    /// Spec and status differ and nobody says why.
    Unexplained = "unexplained",
    /// A container has no memory limit, so the pod's cgroup has none.
    ContainerWithoutLimit = "container-without-limit",
    /// The change restarts the container.
    RestartContainer = "restart-container",
    /// The pod's own limit goes down and the kubelet compares it with nothing.
    UncheckedPodDecrease = "unchecked-pod-decrease",
    /// The pod's cgroup has not followed its containers' limits.
    PodCgroupLeftBehind = "pod-cgroup-left-behind",
    /// Several writers, or one, change it to and fro.
    Flapping = "flapping",
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
