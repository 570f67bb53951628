//! Of a cgroup that is not asked for as a container's.

use super::{
    Order,
    gated::{self, First},
    report::{Report, failed},
};
use crate::{
    cli::{Exit, Failure, options, print},
    resize::{ResizeError, look_at, plan_cgroup, resize_cgroup},
};
use std::path::Path;

pub(super) fn run(order: &Order<'_>, path: &Path) -> Result<Exit, Failure> {
    let what = order.what;
    let cgroup = options::open(what, path, &options::TO_READ)?;
    let failed = |error: &ResizeError| failed(order, error);
    let look = look_at(&cgroup).map_err(|error| failed(&error))?;
    let plan = plan_cgroup(&cgroup, &order.ask).map_err(|error| failed(&error))?;
    let report = Report::new(order, None, &look, &plan);
    let Some((_, to)) = plan.first_shrink() else {
        if order.dry_run || plan.steps.is_empty() {
            print(&report.render(Exit::Done, order.json))?;
            return Ok(Exit::Done);
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Failure::new(Exit::Failed, what, path, &error, ""))?;
        let done = runtime.block_on(resize_cgroup(&cgroup, &order.ask, None));
        return report.with(done.map_err(|error| failed(&error))?).finish(order);
    };
    gated::run(order, &First { cgroup: &cgroup, to, at_once: true }, report, async |gate| {
        resize_cgroup(&cgroup, &order.ask, Some(gate)).await
    })
}
