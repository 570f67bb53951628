//! Recorded traces: what the gate was told, and what it asked for.
