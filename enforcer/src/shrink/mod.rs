//! Drives the gate over a real cgroup.
