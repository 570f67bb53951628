//! What Prometheus is told, and what deploy/ makes of it.

mod deploy;
mod exposition;
mod full;
mod prometheus;
mod promtool;
mod query;
