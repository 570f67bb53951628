use super::super::fixture::{MIB, look, set, set_pod};
use super::*;
use crate::{drift::parse, resize::MilliCpu};
use proptest::prelude::*;

fn memory(text: &str) -> Limit {
    match parse(LimitKind::MemoryMax, text) {
        Some(LimitValue::Memory(limit)) => limit,
        other => panic!("{text}: {other:?}"),
    }
}

fn to_memory(text: &str) -> Ask {
    Ask { memory: Some(memory(text)), ..Ask::default() }
}

fn to_cpu(milli: u64) -> Ask {
    Ask { cpu: Some(CpuLimit::Milli(MilliCpu::new(milli))), ..Ask::default() }
}

fn sent(plan: &Plan) -> LinuxContainerResources {
    plan.update().expect("the runtime is told").clone()
}

fn names(plan: &Plan) -> Vec<&'static str> {
    let name = |step: &Step| match step {
        Step::RaisePod(_) => "raise pod",
        Step::Shrink { .. } => "shrink",
        Step::Update(_) => "update",
        Step::Set(_) => "set",
        Step::ShrinkPod { .. } => "shrink pod",
        Step::LowerPod(_) => "lower pod",
    };
    plan.steps.iter().map(name).collect()
}

/// Whatever is asked, memory.swap.max stays: cases 10 and 11 from the field.
#[test]
fn only_what_changes_is_sent_and_swap_is_kept() {
    for (swap, total) in [("0", 48 * MIB), ("4096", 48 * MIB + 4096), ("16Mi", 64 * MIB), ("max", -1)] {
        let mut found = look(Oci::Runc);
        set(&mut found, 0, LimitKind::SwapMax, swap);
        let plan = plan(&to_memory("48Mi"), &found, Via::Cri).expect("a plan");
        assert_eq!(names(&plan), ["shrink", "update"], "{swap}");
        let expected = LinuxContainerResources {
            memory_limit_in_bytes: 48 * MIB,
            memory_swap_limit_in_bytes: total,
            ..LinuxContainerResources::default()
        };
        assert_eq!(sent(&plan), expected, "{swap}");
        let of_swap =
            plan.effects.iter().find(|effect| effect.file == LimitKind::SwapMax).expect("is written");
        assert_eq!(of_swap.after(), Some(of_swap.before), "{swap}");
        assert_eq!(plan.wanted.swap, Some(memory(swap)));
    }
    // crun's scope has memory and swap together, its container what counts.
    let mut found = look(Oci::Crun);
    set(&mut found, 1, LimitKind::SwapMax, "4096");
    let plan = plan(&to_memory("32Mi"), &found, Via::Cri).expect("a plan");
    assert_eq!(sent(&plan).memory_swap_limit_in_bytes, 32 * MIB + 4096);
    let after = |path: &str| {
        let effect = plan
            .effects
            .iter()
            .find(|effect| effect.file == LimitKind::SwapMax && effect.cgroup == Path::new(path));
        raw(effect.expect("is written").after().expect("is known")).to_string()
    };
    assert_eq!(after("pod/scope/container"), "4096");
    assert_eq!(after("pod/scope"), (32 * MIB + 4096).to_string());
}

#[test]
fn a_cpu_limit_alone_sends_no_memory_unless_swap_would_go() {
    let plan_of = |found: &Look| plan(&to_cpu(500), found, Via::Cri).expect("a plan");
    let quota = LinuxContainerResources { cpu_quota: 50_000, ..LinuxContainerResources::default() };
    assert_eq!(sent(&plan_of(&look(Oci::Runc))), quota);
    let mut drifted = look(Oci::Runc);
    set(&mut drifted, 0, LimitKind::SwapMax, "8Mi");
    let with_swap = LinuxContainerResources {
        memory_limit_in_bytes: 64 * MIB,
        memory_swap_limit_in_bytes: 72 * MIB,
        ..quota.clone()
    };
    assert_eq!(sent(&plan_of(&drifted)), with_swap);
    let mut other_period = look(Oci::Runc);
    set(&mut other_period, 0, LimitKind::CpuMax, "25000 50000");
    let with_period = LinuxContainerResources { cpu_quota: 25_000, cpu_period: 50_000, ..quota };
    assert_eq!(
        sent(&plan_of(&other_period)),
        with_period,
        "the period in force, which is not the stored one"
    );
}

/// As after a runtime that was killed between storing the specification and carrying it out.
#[test]
fn what_else_the_runtime_would_lower_is_refused() {
    let mut found = look(Oci::Runc);
    found.spec.memory_limit_in_bytes = 40 * MIB;
    found.spec.memory_swap_limit_in_bytes = 40 * MIB;
    let error = plan(&to_cpu(500), &found, Via::Cri).expect_err("memory would go down");
    assert_eq!(error, PlanError::AlsoLowers { from: memory("64Mi"), to: memory("40Mi") });
    // Named, memory is sent as it is to be.
    let both = Ask { memory: Some(memory("64Mi")), ..to_cpu(500) };
    let plan = plan(&both, &found, Via::Cri).expect("a plan");
    assert_eq!((names(&plan), sent(&plan).memory_limit_in_bytes), (vec!["update"], 64 * MIB));
}

#[test]
fn what_drifted_and_is_put_back_is_told_before() {
    let mut found = look(Oci::Runc);
    set(&mut found, 0, LimitKind::MemoryMax, "48Mi");
    set(&mut found, 0, LimitKind::MemoryHigh, "40Mi");
    found.unit = vec![(LimitKind::MemoryHigh, LimitValue::Memory(Limit::Max))];
    let plan = plan(&to_cpu(500), &found, Via::Cri).expect("a plan");
    let notes = plan.notes.join("\n");
    assert!(notes.contains("memory limit of 64Mi, which its update puts back in place of 48Mi"), "{notes}");
    assert!(notes.contains("memory.high of pod/scope goes from 40Mi to max along with it"), "{notes}");
    assert_eq!(plan.wanted.memory, Some(memory("64Mi")));
}

#[test]
fn nothing_is_done_where_all_is_as_asked() {
    for via in [Via::Cri, Via::Cgroup] {
        let ask = Ask { memory: Some(memory("64Mi")), share: Some(CpuShare::Shares(256)), ..to_cpu(250) };
        assert_eq!(plan(&ask, &look(Oci::Crun), via).expect("a plan").steps, []);
    }
    // The kernel has it and the books have not: a call that was given up may leave that.
    let mut found = look(Oci::Runc);
    set(&mut found, 0, LimitKind::MemoryMax, "48Mi");
    let plan = plan(&to_memory("48Mi"), &found, Via::Cri).expect("a plan");
    assert_eq!((names(&plan), sent(&plan).memory_limit_in_bytes), (vec!["update"], 48 * MIB));
    assert_eq!(super::plan(&Ask::default(), &found, Via::Cri), Err(PlanError::Nothing));
}

#[test]
fn a_pods_limit_goes_up_before_and_down_after() {
    let mut found = look(Oci::Runc);
    set_pod(&mut found, LimitKind::MemoryMax, "96Mi");
    set_pod(&mut found, LimitKind::CpuMax, "50000 50000");
    let both = |text: &str, milli| Ask { memory: Some(memory(text)), ..to_cpu(milli) };
    let up = plan(&both("80Mi", 500), &found, Via::Cri).expect("a plan");
    assert_eq!(names(&up), ["raise pod", "raise pod", "update"]);
    let to = |step: &Step| match step {
        Step::RaisePod(set) | Step::LowerPod(set) => raw(set.to).to_string(),
        Step::ShrinkPod { to, .. } => to.get().to_string(),
        Step::Shrink { .. } | Step::Update(_) | Step::Set(_) => String::new(),
    };
    assert_eq!(
        up.steps.iter().map(to).take(2).collect::<Vec<_>>(),
        [(112 * MIB).to_string(), "62500 50000".into()]
    );
    let down = plan(&both("48Mi", 100), &found, Via::Cri).expect("a plan");
    assert_eq!(names(&down), ["shrink", "update", "shrink pod", "lower pod"]);
    assert_eq!(to(&down.steps[2]), (80 * MIB).to_string());
    assert_eq!(to(&down.steps[3]), "42500 50000");
    let mixed = plan(&both("48Mi", 500), &found, Via::Cgroup).expect("a plan");
    assert_eq!(names(&mixed), ["raise pod", "shrink", "set", "shrink pod"]);
    let none = plan(&to_memory("max"), &found, Via::Cri).expect("a plan");
    assert!(
        none.notes.iter().any(|note| note.contains("pod's own memory.max stays at 96Mi")),
        "{:?}",
        none.notes
    );
}

#[test]
fn no_limit_on_cpu_is_refused_where_crun_makes_it_the_tightest() {
    let ask = Ask { cpu: Some(CpuLimit::Max), ..Ask::default() };
    assert_eq!(plan(&ask, &look(Oci::Crun), Via::Cri), Err(PlanError::CrunNoQuota));
    assert_eq!(names(&plan(&ask, &look(Oci::Crun), Via::Cgroup).expect("a plan")), ["set", "set"]);
    assert_eq!(sent(&plan(&ask, &look(Oci::Runc), Via::Cri).expect("a plan")).cpu_quota, -1);
}

#[test]
fn a_weight_is_sent_as_the_shares_that_become_it() {
    let share = |share| Ask { share: Some(share), ..Ask::default() };
    let linear = plan(&share(CpuShare::Weight(20)), &look(Oci::Runc), Via::Cri).expect("a plan");
    let shares = u64::try_from(sent(&linear).cpu_shares).expect("shares");
    assert_eq!((Conversion::Linear.weight(shares), linear.wanted.weight), (20, Some(20)));
    let mut newer = look(Oci::Runc);
    set(&mut newer, 0, LimitKind::CpuWeight, "35");
    let quadratic = plan(&share(CpuShare::Weight(100)), &newer, Via::Cri).expect("a plan");
    let shares = u64::try_from(sent(&quadratic).cpu_shares).expect("shares");
    assert_eq!(Conversion::Quadratic.weight(shares), 100);
    assert_eq!(plan(&share(CpuShare::Weight(0)), &newer, Via::Cri), Err(PlanError::Share));
    assert_eq!(plan(&share(CpuShare::Shares(1)), &newer, Via::Cgroup), Err(PlanError::Share));
}

#[test]
fn a_quota_that_is_too_short_is_told() {
    let error = plan(&to_cpu(9), &look(Oci::Runc), Via::Cri).expect_err("900us");
    assert_eq!(
        error.to_string(),
        "9m is too little CPU: the kernel takes no quota of less than 1000us, which is 10m of the period of 100ms that is \
         in force"
    );
    plan(&to_cpu(10), &look(Oci::Runc), Via::Cri).expect("1000us");
}

#[test]
fn swap_that_can_not_be_kept_is_told_before() {
    let mut found = look(Oci::Runc);
    set(&mut found, 0, LimitKind::SwapMax, "16Mi");
    let plan = plan(&to_memory("max"), &found, Via::Cri).expect("a plan");
    assert_eq!((sent(&plan).memory_limit_in_bytes, sent(&plan).memory_swap_limit_in_bytes), (-1, 0));
    assert!(
        plan.notes.iter().any(|note| note.contains("memory.swap.max goes from 16Mi to max")),
        "{:?}",
        plan.notes
    );
}

fn limits() -> impl Strategy<Value = String> {
    prop_oneof![Just("max".to_owned()), (1_u64..1000).prop_map(|mib| format!("{mib}Mi"))]
}

proptest! {
    /// Whatever is found and asked: memory goes down only through the gate, and swap stays or is told.
    #[test]
    fn memory_goes_down_through_the_gate_alone(
        crun: bool,
        held in limits(),
        inner in limits(),
        swap in prop_oneof![limits(), Just("0".to_owned())],
        stored in prop_oneof![Just(-1_i64), Just(0), (1_i64..1000).prop_map(|mib| mib * MIB)],
        ask in proptest::option::of(limits()),
        milli in proptest::option::of(10_u64..4000),
        cri: bool,
    ) {
        let mut found = look(if crun { Oci::Crun } else { Oci::Runc });
        set(&mut found, 0, LimitKind::MemoryMax, &held);
        let last = found.levels.len() - 1;
        set(&mut found, last, LimitKind::MemoryMax, &inner);
        set(&mut found, last, LimitKind::SwapMax, &swap);
        found.spec.memory_limit_in_bytes = stored;
        found.spec.memory_swap_limit_in_bytes = stored;
        let ask = Ask {
            memory: ask.map(|text| memory(&text)),
            cpu: milli.map(|milli| CpuLimit::Milli(MilliCpu::new(milli))),
            share: None,
        };
        let Ok(plan) = plan(&ask, &found, if cri { Via::Cri } else { Via::Cgroup }) else { return Ok(()) };
        let mut in_force = found.memory();
        for step in &plan.steps {
            match step {
                Step::Shrink { to, .. } => {
                    prop_assert!(Limit::Bytes(*to) < in_force);
                    in_force = Limit::Bytes(*to);
                }
                Step::Set(set) => prop_assert!(
                    set.file != LimitKind::MemoryMax || matches!(set.to, LimitValue::Memory(to) if to >= in_force)
                ),
                Step::Update(_) | Step::RaisePod(_) | Step::ShrinkPod { .. } | Step::LowerPod(_) => {}
            }
        }
        let lowest = |file| plan.effects.iter().filter(|effect| effect.file == file).filter_map(|effect| {
            match effect.after()? {
                LimitValue::Memory(limit) => Some(limit),
                LimitValue::Cpu { .. } | LimitValue::Weight(_) | LimitValue::Cpus(_) | LimitValue::Count(_) => None,
            }
        }).min();
        if let Some(after) = lowest(LimitKind::MemoryMax) {
            prop_assert!(after >= in_force, "{after} after {in_force}: {plan:?}");
            prop_assert_eq!(Some(after), plan.wanted.memory);
        }
        if let (Some(after), Some(before)) = (lowest(LimitKind::SwapMax), found.swap()) {
            let is_told = plan.notes.iter().any(|note| note.contains("memory.swap.max"));
            prop_assert!(after == before || is_told, "{before} becomes {after}: {plan:?}");
        }
    }
}
