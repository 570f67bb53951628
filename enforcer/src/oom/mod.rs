//! OOM kills, remembered.
