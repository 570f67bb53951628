//! What is told of a resize, as fields and as text.

use super::Order;
use crate::{
    cgroup::shown,
    cli::{
        Exit, Failure, certificate, failure, json, print,
        shrink::explain,
        table::{Align, table},
    },
    cri::message::LinuxContainerResources,
    drift::raw,
    probe::LimitValue,
    resize::{Ended, Look, Of, Outcome, Plan, PlanError, ResizeError, Set, Step, Told, Writer},
    trace::Summary,
};
use enforcer_gate::{Certificate, Limit};
use serde::Serialize;
use std::{collections::BTreeMap, fmt::Write as _, path::Path};

/// Everything, with names fit to print.
#[derive(Serialize)]
pub(super) struct Report<'a> {
    target: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    container_id: Option<&'a str>,
    via: &'static str,
    dry_run: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    runtime: Option<Runtime>,
    before: Now,
    steps: Vec<StepRow>,
    effects: Vec<EffectRow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    certificate: Option<Certificate>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pod_certificate: Option<Certificate>,
    /// What came of telling the runtime.
    #[serde(skip_serializing_if = "Option::is_none")]
    told: Option<&'static str>,
    after: Option<Now>,
    notes: Vec<String>,
    /// What the kernel programs could not watch, and what that costs.
    lost: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_dropped: Option<u64>,
    #[serde(skip)]
    ended: Option<(Ended, Option<String>, &'static str)>,
}

#[derive(Serialize)]
struct Runtime {
    name: String,
    version: String,
    oci: &'static str,
    systemd: bool,
}

/// What is in force where limits act.
#[derive(Serialize)]
struct Now {
    cgroup: Option<String>,
    memory: Limit,
    swap: Option<Limit>,
    cpu_max: Option<String>,
    cpu_weight: Option<u64>,
    /// As the runtime says.
    #[serde(skip_serializing_if = "Option::is_none")]
    runtime_memory: Option<i64>,
}

#[derive(Serialize)]
struct StepRow {
    step: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    cgroup: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<String>,
    /// What is sent: what is not said is left alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    sent: Option<BTreeMap<&'static str, i64>>,
}

#[derive(Serialize)]
struct EffectRow {
    cgroup: String,
    file: &'static str,
    before: String,
    /// `null` where it is not known.
    after: Option<String>,
    /// Who writes it, in order.
    by: Vec<&'static str>,
}

impl<'a> Report<'a> {
    pub(super) fn new(order: &Order<'_>, of: Option<Of<'a>>, look: &Look, plan: &Plan) -> Self {
        let oci = look.engine.oci.name();
        let runtime = of.map(|_| Runtime {
            name: shown(&look.engine.name),
            version: shown(&look.engine.version),
            oci,
            systemd: look.engine.systemd,
        });
        let effects = plan.effects.iter().map(|effect| EffectRow {
            cgroup: shown(&effect.cgroup),
            file: effect.file.name(),
            before: raw(effect.before).to_string(),
            after: effect.after().map(|after| raw(after).to_string()),
            by: effect
                .writes
                .iter()
                .map(|write| match write.by {
                    Writer::Systemd => "systemd",
                    Writer::Oci => oci,
                })
                .collect(),
        });
        Self {
            target: shown(order.target),
            container_id: of.map(|of| of.container.id.as_str()),
            via: plan.via.name(),
            dry_run: order.dry_run,
            runtime,
            before: now(look),
            steps: plan.steps.iter().map(step).collect(),
            effects: effects.collect(),
            certificate: None,
            pod_certificate: None,
            told: None,
            after: None,
            notes: plan.notes.clone(),
            lost: Vec::new(),
            trace_dropped: None,
            ended: None,
        }
    }

    pub(super) fn recorded(&mut self, trace: Option<Summary>, lost: Vec<String>) {
        self.trace_dropped = trace.map(|summary| summary.dropped);
        self.lost = lost;
    }

    /// Adds what came of it.
    pub(super) fn with(mut self, outcome: Outcome) -> Self {
        self.ended = Some((outcome.ended(), outcome.why(), outcome.advice()));
        self.told = outcome.told.as_ref().map(|told| match told {
            Told::Taken | Told::TakenAfterAll(_) => "taken",
            Told::NotAsked(_) => "not asked",
            Told::Refused(_) => "refused",
            Told::Open(_) => "not answered",
        });
        self.after = outcome.after.as_ref().map(now);
        self.notes
            .extend(outcome.notes.into_iter().filter(|note| !self.notes.contains(note)).collect::<Vec<_>>());
        self.certificate = outcome.certificate;
        self.pod_certificate = outcome.pod_certificate;
        self
    }

    /// Prints it; what failed beside the gate goes to standard error as well.
    pub(super) fn finish(self, order: &Order<'_>) -> Result<Exit, Failure> {
        let (ended, why, advice) = match &self.ended {
            Some((ended, why, advice)) => (*ended, why.clone(), *advice),
            None => (Ended::Done, None, ""),
        };
        let exit = match ended {
            Ended::Done => Exit::Done,
            Ended::Refused => Exit::Refused,
            Ended::Failed => Exit::Failed,
        };
        print(&self.render(exit, order.json))?;
        match why {
            Some(why) => Err(Failure::new(exit, order.what, order.target, &why, advice)),
            None => Ok(exit),
        }
    }

    pub(super) fn render(&self, exit: Exit, json: bool) -> String {
        if json {
            return json::line(&WithExit { report: self, exit: exit.code() });
        }
        let mut text = String::new();
        match &self.certificate {
            Some(found) => text.push_str(&certificate::render(Path::new(&self.target), found)),
            None => self.heading(&mut text),
        }
        if self.dry_run || self.certificate.is_none() {
            self.plan(&mut text);
        }
        if let Some(found) = &self.pod_certificate {
            text.push_str(&certificate::render(Path::new("its pod"), found));
        }
        self.told(&mut text);
        for note in &self.notes {
            // Writing to a String can't fail, here and below.
            let _ = writeln!(text, "note: {}", shown(note));
        }
        text.extend(self.lost.iter().map(|lost| format!("note: not watched: {lost}\n")));
        text
    }

    fn heading(&self, text: &mut String) {
        let became = match (self.dry_run, self.steps.is_empty()) {
            (_, true) => "is as asked already",
            (true, false) => "a dry run, left as it is",
            (false, false) => "resized",
        };
        let _ = writeln!(text, "{}: {became}", self.target);
    }

    fn plan(&self, text: &mut String) {
        let rows: Vec<_> = self.steps.iter().map(StepRow::cells).collect();
        text.push_str(&table(2, [Align::Left; 3], &rows));
        if self.effects.is_empty() {
            return;
        }
        text.push_str("  written by the runtime's update\n");
        let mut rows = vec![["cgroup", "file", "before", "after", "by"].map(String::from)];
        rows.extend(self.effects.iter().map(|effect| {
            let after = effect.after.clone().unwrap_or_else(|| "the unit's own".into());
            let after = if after == effect.before { "the same".into() } else { after };
            [last(&effect.cgroup), effect.file.into(), effect.before.clone(), after, effect.by.join(", ")]
        }));
        text.push_str(&table(4, [Align::Left; 5], &rows));
    }

    fn told(&self, text: &mut String) {
        let Some(after) = &self.after else { return };
        let cpu = after.cpu_max.as_ref().map(|cpu| format!(", cpu.max {cpu}")).unwrap_or_default();
        let weight = after.cpu_weight.map(|weight| format!(", cpu.weight {weight}")).unwrap_or_default();
        let swap = after.swap.map(|swap| format!(", memory.swap.max {swap}")).unwrap_or_default();
        let _ = writeln!(text, "in force: memory.max {}{swap}{cpu}{weight}", after.memory);
        if let Some(runtime) = &self.runtime
            && self.told == Some("taken")
        {
            let _ = writeln!(text, "the runtime ({}, {}) has it too", runtime.name, runtime.oci);
        }
    }
}

/// A cgroup's name is long enough.
fn last(path: &str) -> String {
    path.rsplit('/').next().unwrap_or(path).to_owned()
}

#[derive(Serialize)]
struct WithExit<'a, 'b> {
    #[serde(flatten)]
    report: &'a Report<'b>,
    exit: u8,
}

fn now(look: &Look) -> Now {
    Now {
        cgroup: look.memory_level().map(|level| shown(&level.path)),
        memory: look.memory(),
        swap: look.swap(),
        cpu_max: look.cpu().map(|cpu| raw(cpu.value()).to_string()),
        cpu_weight: look.weight(),
        runtime_memory: look.status.as_ref().map(|status| status.memory_limit_in_bytes),
    }
}

fn step(step: &Step) -> StepRow {
    let set = |name, set: &Set| StepRow {
        step: name,
        cgroup: Some(shown(&set.cgroup)),
        file: Some(set.file.name()),
        from: Some(raw(set.from).to_string()),
        to: Some(raw(set.to).to_string()),
        sent: None,
    };
    let shrink = |name, cgroup: &Path, from: Limit, to| {
        let memory = |limit| Some(raw(LimitValue::Memory(limit)).to_string());
        StepRow {
            step: name,
            cgroup: Some(shown(cgroup)),
            file: Some("memory.max"),
            from: memory(from),
            to: memory(Limit::Bytes(to)),
            sent: None,
        }
    };
    match step {
        Step::RaisePod(what) => set("raise the pod's", what),
        Step::Set(what) => set("set", what),
        Step::LowerPod(what) => set("lower the pod's", what),
        Step::Shrink { cgroup, from, to } => shrink("the gate lowers", cgroup, *from, *to),
        Step::ShrinkPod { cgroup, from, to } => shrink("the gate lowers the pod's", cgroup, *from, *to),
        Step::Update(resources) => StepRow {
            step: "UpdateContainerResources",
            cgroup: None,
            file: None,
            from: None,
            to: None,
            sent: Some(sent(resources)),
        },
    }
}

fn sent(resources: &LinuxContainerResources) -> BTreeMap<&'static str, i64> {
    let all = [
        ("cpu_period", resources.cpu_period),
        ("cpu_quota", resources.cpu_quota),
        ("cpu_shares", resources.cpu_shares),
        ("memory_limit_in_bytes", resources.memory_limit_in_bytes),
        ("memory_swap_limit_in_bytes", resources.memory_swap_limit_in_bytes),
    ];
    all.into_iter().filter(|(_, value)| *value != 0).collect()
}

impl StepRow {
    fn cells(&self) -> [String; 3] {
        let file = self.file.unwrap_or_default();
        let change = match (&self.from, &self.to, &self.sent) {
            (Some(from), Some(to), _) => format!("{from} -> {to}"),
            (_, _, Some(sent)) => {
                let all: Vec<_> = sent.iter().map(|(name, value)| format!("{name}={value}")).collect();
                all.join(" ")
            }
            (..) => String::new(),
        };
        let cgroup = self.cgroup.as_deref().map(|cgroup| format!(" of {}", last(cgroup))).unwrap_or_default();
        [self.step.into(), format!("{file}{cgroup}"), change]
    }
}

/// What could not be begun or carried through.
pub(super) fn failed(order: &Order<'_>, error: &ResizeError) -> Failure {
    let (what, on) = (order.what, Path::new(order.target));
    match error {
        ResizeError::Cri(error) => failure::cri(what, error),
        ResizeError::NoHome(_) => {
            Failure::new(Exit::Failed, what, on, error, "look whether it still runs: enforcer ps --all")
        }
        ResizeError::NoSpec => Failure::new(Exit::Unsupported, what, on, error, "use --via cgroup"),
        ResizeError::Plan(error) => plan_failed(order, error),
        ResizeError::Cgroup(error) => Failure::cgroup(what, on, error),
        ResizeError::Shrink(error) => explain(what, on, error),
        ResizeError::Set { .. } | ResizeError::NoGate | ResizeError::Stopped | ResizeError::Thread => {
            let todo = failure::of_the_process(error).unwrap_or_default();
            Failure::new(Exit::Failed, what, on, &failure::chain(error), todo)
        }
    }
}

/// What can't be done so.
pub(super) fn plan_failed(order: &Order<'_>, error: &PlanError) -> Failure {
    let exit = match error {
        PlanError::Nothing
        | PlanError::QuotaTooShort { .. }
        | PlanError::Share
        | PlanError::NoShares { .. } => Exit::Usage,
        PlanError::NoFile(_) | PlanError::CrunNoQuota => Exit::Unsupported,
        PlanError::AlsoLowers { .. } => Exit::Refused,
    };
    Failure::new(exit, order.what, order.target, error, error.advice())
}
