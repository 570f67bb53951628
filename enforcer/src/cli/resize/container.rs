//! Of a container, by its runtime or without it.

use super::{
    Order,
    gated::{self, First},
    report::{Report, failed, plan_failed},
};
use crate::{
    cgroup::Cgroup,
    cli::{Exit, Failure, print, target::Node},
    inventory::{Container, Pod},
    resize::{Actor, Look, Of, Plan, ResizeError, Step, plan},
};
use enforcer_gate::Limit;

pub(in crate::cli) fn of_container(
    order: &Order<'_>,
    node: &Node,
    pod: &Pod,
    container: &Container,
) -> Result<Exit, Failure> {
    let of = Of { pod, container };
    let actor = Actor::new(node.client.clone(), node.mount.clone());
    let failed = |error: &ResizeError| failed(order, error);
    let look = node.runtime.block_on(actor.look(of)).map_err(|error| failed(&error))?;
    let plan = plan(&order.ask, &look, order.via).map_err(|error| plan_failed(order, &error))?;
    let plan = if order.only_down { down_only(plan, &look, order) } else { plan };
    let report = Report::new(order, Some(of), &look, &plan);
    let Some((path, to)) = plan.first_shrink() else {
        if order.dry_run || plan.steps.is_empty() {
            print(&report.render(Exit::Done, order.json))?;
            return Ok(Exit::Done);
        }
        let done = node.runtime.block_on(actor.carry_out(of, &plan, None));
        return report.with(done.map_err(|error| failed(&error))?).finish(order);
    };
    let cgroup = Cgroup::open_in(&node.mount, path);
    let cgroup = cgroup.map_err(|error| Failure::cgroup(order.what, path, &error))?;
    let at_once = matches!(plan.steps.first(), Some(Step::Shrink { .. }));
    gated::run(order, &First { cgroup: &cgroup, to, at_once }, report, async |gate| {
        // A connection belongs to the loop that it was made on.
        let actor = actor.connected().await?;
        actor.carry_out(of, &plan, Some(gate)).await
    })
}

/// What is no shrink is for the gate to refuse, with its reason.
fn down_only(plan: Plan, look: &Look, order: &Order<'_>) -> Plan {
    let Some(Limit::Bytes(to)) = order.ask.memory else { return plan };
    if Limit::Bytes(to) <= look.memory() {
        return plan;
    }
    let cgroup = look.memory_level().map(|level| level.path.clone()).unwrap_or_default();
    Plan { steps: vec![Step::Shrink { cgroup, from: look.memory(), to }], ..plan }
}
