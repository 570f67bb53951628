//! The gate's part: first what one reading refuses, then the shrink with all that belongs to it.

use super::{
    Order,
    report::{Report, failed},
};
use crate::{
    actuate::{SessionOptions, StateDir, check_free},
    cgroup::{Cgroup, Sampler},
    cli::{
        Exit, Failure, failure, options,
        shrink::{Guided, NEEDS, Recorded, cut_short},
    },
    node::pressure_killer,
    resize::{Gate, Outcome, ResizeError},
    shrink::{self, refused_at_once},
};
use enforcer_gate::{Bytes, Certificate, Policy, Request};
use std::path::Path;

/// What the gate works on first.
pub(super) struct First<'a> {
    pub(super) cgroup: &'a Cgroup,
    pub(super) to: Bytes,
    /// Nothing comes before it, so that what one reading refuses needs no more.
    pub(super) at_once: bool,
}

/// Has `work` done with a gate; for a dry run the gate alone says whether it would try.
pub(super) fn run(
    order: &Order<'_>,
    first: &First<'_>,
    mut report: Report<'_>,
    work: impl AsyncFnOnce(Gate<'_>) -> Result<Outcome, ResizeError>,
) -> Result<Exit, Failure> {
    let (what, cgroup) = (order.what, first.cgroup);
    let path = cgroup.absolute();
    failure::require(what, path, &NEEDS)?;
    let policy = options::checked(order.thresholds.policy(&options::node_policy()))?;
    let on_cgroup = |error| Failure::cgroup(what, path, &error);
    let mut sampler = Sampler::new(cgroup).map_err(on_cgroup)?;
    let actuate = |error| failure::actuate(what, path, &error);
    let folder = &order.thresholds.state_dir.state_dir;
    let state_dir = (!order.dry_run).then(|| StateDir::open(folder)).transpose().map_err(actuate)?;
    if !order.dry_run {
        check_free(cgroup).map_err(actuate)?;
    }
    let killer = pressure_killer(cgroup).map_err(on_cgroup)?;
    let mut guided = Guided::start(what, cgroup, &policy, order.thresholds.trace.as_deref(), order.json)?;
    let request =
        Request { target: first.to, dry_run: order.dry_run, pressure_killer: killer, by_other: false };
    let as_found = state_dir.as_ref().is_none_or(StateDir::is_empty);
    let refused = if as_found && first.at_once {
        refused_at_once(&request, &policy, &mut sampler, guided.observer())
    } else {
        Ok(None)
    };
    drop(sampler);
    let result = match (refused, state_dir) {
        (Err(error), _) => Err(error.into()),
        (Ok(Some(refused)), _) => Ok(certified(refused)),
        (Ok(None), None) => dry_run(&mut guided, cgroup, request, policy).map(certified),
        (Ok(None), Some(state_dir)) => guided.carry_out(async |bus, observer| {
            work(Gate { bus, policy, state_dir, observer, cancel: None }).await
        }),
    };
    let Recorded { trace, lost, cut } = guided.end();
    let outcome = result.map_err(|error| failed(order, &error))?;
    report.recorded(trace, lost);
    let told = report.with(outcome).finish(order);
    match cut {
        None => told,
        Some(error) => Err(cut_short(Exit::Failed, Path::new(order.target), &error, told.map(drop))),
    }
}

fn certified(certificate: Certificate) -> Outcome {
    Outcome { certificate: Some(certificate), ..Outcome::default() }
}

fn dry_run(
    guided: &mut Guided,
    cgroup: &Cgroup,
    request: Request,
    policy: Policy,
) -> Result<Certificate, ResizeError> {
    let session = SessionOptions::of(&policy);
    let plan =
        shrink::Plan { cgroup: cgroup.clone(), request, policy, state_dir: None, session, cancel: None };
    guided.carry_out(async |bus, observer| Ok(shrink::run(plan, bus, observer).await?))
}
