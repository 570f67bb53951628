//! Every metric that there is: name, type, unit, labels, stability, meaning. The exposition and docs/metrics.md come
//! from here, and dashboard and alerts are checked against it.

use super::labels::Label;

/// Containers that have series of their own at a time; of more, none but a count of those that were left out.
pub const CONTAINERS_MAX: usize = 4096;

/// Pods that have series of their own at a time.
pub const PODS_MAX: usize = 1024;

/// Upper bounds of the buckets of how long shrinks take, in seconds.
pub const SHRINK_SECONDS: [f64; 12] = [1.0, 2.5, 5.0, 7.5, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0, 120.0, 300.0];

/// What a metric is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only ever grows, and begins at zero when the agent or what it counts does.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts by size: [`SHRINK_SECONDS`].
    Histogram,
    /// Always 1; its labels tell.
    Info,
}

/// What a metric is measured in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// A count, or a yes (1) or no (0).
    None,
    /// Bytes.
    Bytes,
    /// Seconds.
    Seconds,
}

/// What may be relied on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stability {
    /// Name, labels and meaning stay; label values may be added.
    Stable,
    /// It may change or go.
    Experimental,
}

/// A metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Definition {
    /// Its name, without unit and type.
    pub base: &'static str,
    /// What it is.
    pub kind: Kind,
    /// What it is measured in.
    pub unit: Unit,
    /// Its labels.
    pub labels: &'static [Label],
    /// What may be relied on.
    pub stability: Stability,
    /// What it says; one sentence, and what its absence means.
    pub meaning: &'static str,
}

impl Kind {
    /// As Prometheus calls it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
            Self::Info => "info",
        }
    }
}

impl Unit {
    /// As it stands in names; empty for none.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Bytes => "bytes",
            Self::Seconds => "seconds",
        }
    }
}

impl Stability {
    /// In a word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stable => "stable",
            Self::Experimental => "experimental",
        }
    }
}

impl Definition {
    /// The name that queries use.
    pub fn name(&self) -> String {
        let unit = match self.unit {
            Unit::None => String::new(),
            Unit::Bytes | Unit::Seconds => format!("_{}", self.unit.name()),
        };
        let end = match self.kind {
            Kind::Counter => "_total",
            Kind::Info => "_info",
            Kind::Gauge | Kind::Histogram => "",
        };
        format!("{}{unit}{end}", self.base)
    }

    /// The most series that it can have.
    pub fn series_max(&self) -> usize {
        let each = match self.kind {
            Kind::Counter | Kind::Gauge | Kind::Info => 1,
            // One a bucket, one for what is above them all, the sum and the count.
            Kind::Histogram => SHRINK_SECONDS.len() + 3,
        };
        // The three names of a container go together, and so do the two of a pod.
        let names = [Label::Namespace, Label::Pod, Label::Container];
        let of_names = match () {
            () if self.labels.contains(&Label::Container) => CONTAINERS_MAX,
            () if self.labels.contains(&Label::Pod) => PODS_MAX,
            () => 1,
        };
        let labels = self.labels.iter().filter(|label| !names.contains(label));
        labels.map(|label| label.values().count_max()).product::<usize>() * of_names * each
    }
}

macro_rules! metrics {
    ($($metric:ident = $base:literal, $kind:ident, $unit:ident, [$($label:ident),*], $stability:ident, $meaning:literal;)*) => {
        /// A metric, by what it is about.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Metric {
            $(#[doc = $meaning] $metric,)*
        }

        impl Metric {
            /// All of them, in the order in which they are shown.
            pub const ALL: &'static [Self] = &[$(Self::$metric,)*];

            /// What it is.
            pub const fn definition(self) -> &'static Definition {
                match self {
                    $(Self::$metric => &Definition {
                        base: $base,
                        kind: Kind::$kind,
                        unit: Unit::$unit,
                        labels: &[$(Label::$label),*],
                        stability: Stability::$stability,
                        meaning: $meaning,
                    },)*
                }
            }
        }
    };
}

metrics! {
    // A container's.
    Desired = "enforcer_container_memory_desired", Gauge, Bytes, [Namespace, Pod, Container], Stable,
        "The memory limit in the pod's spec. Absent where there is none, or where `kubernetes.enabled` is off.";
    Admitted = "enforcer_container_memory_admitted", Gauge, Bytes, [Namespace, Pod, Container], Stable,
        "The memory limit that the kubelet has admitted (Kubernetes' allocated), as it follows from the pod's status. Absent as the desired one, and where it can't be told.";
    Reported = "enforcer_container_memory_reported", Gauge, Bytes, [Namespace, Pod, Container], Stable,
        "The memory limit that the kubelet says is in force (Kubernetes' actual; `resources` of the container's status). Absent as the desired one.";
    Allocated = "enforcer_container_memory_allocated", Gauge, Bytes, [Namespace, Pod, Container], Stable,
        "The memory limit as the container runtime has it. Absent where there is none, or where the runtime does not tell.";
    Limit = "enforcer_container_memory_limit", Gauge, Bytes, [Namespace, Pod, Container], Stable,
        "The memory.max in force in the kernel. Absent where there is none, or where it can't be read.";
    Usage = "enforcer_container_memory_usage", Gauge, Bytes, [Namespace, Pod, Container], Stable,
        "memory.current, page cache included.";
    Floor = "enforcer_container_memory_floor", Gauge, Bytes, [Namespace, Pod, Container], Stable,
        "The part of the usage that stays whatever reclaim does (docs/semantics.md).";
    SafeMinimum = "enforcer_container_memory_safe_minimum", Gauge, Bytes, [Namespace, Pod, Container], Stable,
        "The lowest limit that the gate would let in, by what was read lately.";
    Stalled = "enforcer_container_memory_stalled", Counter, Seconds, [Namespace, Pod, Container, Extent], Stable,
        "Time in which tasks of the container waited for memory (PSI). Absent where PSI is off.";
    Refaults = "enforcer_container_memory_refaults", Counter, None, [Namespace, Pod, Container], Stable,
        "Pages read back after they were reclaimed, of file and of anonymous memory.";
    Reclaimed = "enforcer_container_memory_reclaimed", Counter, Bytes, [Namespace, Pod, Container], Experimental,
        "Memory that the kernel took back from the container (pgsteal of memory.stat).";
    ContainerOomKills = "enforcer_container_oom_kills", Counter, None, [Namespace, Pod, Container], Stable,
        "Processes of the container that the OOM killer ended, as its cgroup counts them.";
    ContainerDrift = "enforcer_container_drifted_limits", Gauge, None, [Namespace, Pod, Container], Stable,
        "Limits of the container that are not what the runtime has, right now.";
    ContainerPolicy = "enforcer_container_policy", Gauge, None, [Namespace, Pod, Container, Mode], Stable,
        "1 for the mode that the policy has the container in.";

    // A pod's, where `overhead.watch` is on.
    Overhead = "enforcer_pod_overhead", Gauge, Bytes, [Namespace, Pod, Term], Experimental,
        "What a pod takes beyond its containers, by term (docs/overhead.md). Absent where `overhead.watch` is off, or before the pod was looked at.";
    OverheadResidue = "enforcer_pod_overhead_residue", Gauge, Bytes, [Namespace, Pod], Experimental,
        "What containers that have ended left charged in the pod's cgroup; no part of the overhead.";
    OverheadHelpers = "enforcer_pod_overhead_helpers", Gauge, None, [Namespace, Pod], Experimental,
        "Processes that work for the pod outside of its containers (shim, monitor, virtual machine).";
    OverheadCpu = "enforcer_pod_overhead_cpu", Counter, Seconds, [Namespace, Pod], Experimental,
        "CPU time beyond the pod's containers since the agent first looked at it: in its cgroup, of its helpers, and of what these have reaped.";
    OverheadReads = "enforcer_overhead_reads", Counter, None, [], Experimental,
        "Files that were read to tell what pods cost; at most `overhead.reads_per_second` in a second.";
    OverheadReader = "enforcer_overhead_reader_cpu", Counter, Seconds, [], Experimental,
        "CPU time of the thread that tells what pods cost.";

    // Shrinks.
    Verdicts = "enforcer_shrink_verdicts", Counter, None, [Verdict, Reason], Stable,
        "Shrinks that ended, by verdict and reason (reason is none where the verdict needs none).";
    ShrinkDuration = "enforcer_shrink_duration", Histogram, Seconds, [Verdict], Stable,
        "How long shrinks took from the request to the verdict.";
    InFlight = "enforcer_shrinks_in_flight", Gauge, None, [], Stable,
        "Shrinks that are being carried out right now.";

    // What happens on the node.
    OomKills = "enforcer_oom_kills", Counter, None, [Owner, Constraint], Stable,
        "Processes that the OOM killer ended, by what the cgroup is whose limit was hit (node where it was none's, unknown where it was not seen) and by what the allocation was held to.";
    LimitWrites = "enforcer_limit_writes", Counter, None, [File, Writer], Stable,
        "Writes to limit files of cgroups, by file and by who wrote, as far as the kernel vouches for it.";
    Drifts = "enforcer_drifts", Counter, None, [File, Writer], Stable,
        "Limits that were found to be other than the runtime has them, by file and by who wrote (`other` where no write was seen).";
    Mends = "enforcer_mends", Counter, None, [File, Outcome], Stable,
        "Tries to put back a limit that had drifted.";
    GuardArmed = "enforcer_guard_armed", Gauge, None, [], Stable,
        "1 while the guard judges writes. Absent where the configuration leaves it off.";
    GuardVerdicts = "enforcer_guard_verdicts", Counter, None, [GuardVerdict, GuardReason], Stable,
        "Writes to limit files that the guard judged, by verdict and reason (docs/guard.md).";

    // The agent.
    Build = "enforcer_build", Info, None, [Version], Stable,
        "The agent's version.";
    PartState = "enforcer_part_state", Gauge, None, [Part, State], Stable,
        "1 for the state that a part of the agent is in, 0 for the others.";
    Paused = "enforcer_paused", Gauge, None, [], Stable,
        "1 while all actuation is stopped.";
    Pods = "enforcer_pods", Gauge, None, [], Stable,
        "Pods that the inventory knows.";
    Containers = "enforcer_containers", Gauge, None, [], Stable,
        "Containers that run, those without series of their own included.";
    RuntimeErrors = "enforcer_runtime_call_errors", Counter, None, [Call], Stable,
        "Calls of the container runtime that failed or were not answered in time.";
    Reloads = "enforcer_config_reloads", Counter, None, [Outcome], Stable,
        "Times that the configuration was read again. One with errors is not taken (failed).";
    Dropped = "enforcer_dropped", Counter, None, [Loss], Stable,
        "What was lost, or left out, for there was no room or no time.";
    ProbeTime = "enforcer_probe_run", Counter, Seconds, [Program], Experimental,
        "Time that a kernel program of the agent ran.";
    ProbeRuns = "enforcer_probe_runs", Counter, None, [Program], Experimental,
        "Runs of a kernel program of the agent.";
    ProbeMisses = "enforcer_probe_recursion_misses", Counter, None, [Program], Experimental,
        "Runs that the kernel left out, for the program was running on that CPU already.";

    // The names are those that every exporter has.
    ProcessCpu = "process_cpu", Counter, Seconds, [], Stable,
        "CPU time of the agent, user and system.";
    ProcessMemory = "process_resident_memory", Gauge, Bytes, [], Stable,
        "Memory of the agent that is resident.";
    ProcessFds = "process_open_fds", Gauge, None, [], Stable,
        "File descriptors that the agent has open.";
    ProcessFdsMax = "process_max_fds", Gauge, None, [], Stable,
        "File descriptors that the agent may have open.";
    ProcessStart = "process_start_time", Gauge, Seconds, [], Stable,
        "When the agent began, in seconds since 1970.";
}
