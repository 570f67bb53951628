//! Quantities in the grammar of Kubernetes.
