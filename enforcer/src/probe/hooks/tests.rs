use super::*;

/// A kernel on which every hook fits.
fn kernel() -> Summary {
    let mut kernel = Summary::default();
    for attachment in all() {
        let into = match attachment.point.tracepoint() {
            Some(_) => &mut kernel.tracepoints,
            None => &mut kernel.functions,
        };
        let arguments = into.entry(name(attachment.point)).or_default();
        for (position, argument) in attachment.arguments {
            if arguments.len() <= *position {
                arguments.resize(position + 1, "int".to_owned());
            }
            arguments[*position] = argument.to_string();
        }
    }
    kernel.offsets = (8..).zip(Field::ALL).map(|(offset, field)| (*field, offset)).collect();
    kernel
}

fn all() -> impl Iterator<Item = &'static Attachment> {
    Need::ALL.iter().flat_map(|need| need.hooks()).flat_map(|hook| hook.attachments)
}

fn name(point: Point) -> String {
    point.function().or_else(|| Some(point.tracepoint()?.into())).expect("one or the other")
}

/// The first hook that fits.
fn best(need: Need, kernel: &Summary, disabled: &[Program]) -> Option<&'static str> {
    let disabled = disabled.iter().copied().collect();
    need.hooks().iter().find(|hook| hook.fits(kernel, &disabled).is_ok()).map(|hook| hook.name)
}

#[test]
fn where_everything_fits_the_best_is_taken() {
    for need in Need::ALL {
        assert_eq!(best(*need, &kernel(), &[]), Some(need.hooks()[0].name), "{need}");
        assert_eq!(need.hooks()[0].lost, None, "the best hook for {need} loses nothing");
    }
}

#[test]
fn oom_kills_fall_back_step_by_step() {
    let mut old_tracepoint = kernel();
    old_tracepoint.tracepoints.insert("mark_victim".into(), vec!["int".into()]);
    let mut no_inner_function = kernel();
    no_inner_function.functions.remove("oom_kill_process");
    let hooks: Vec<_> = OOM_KILL.iter().map(|hook| hook.name).collect();
    for (kernel, disabled, expected) in [
        (kernel(), vec![Program::OomBeginFentry], Some(hooks[2])),
        (kernel(), vec![Program::OomBeginFentry, Program::OomBeginKprobe], Some(hooks[4])),
        (kernel(), vec![Program::OomVictimTp], Some(hooks[1])),
        (kernel(), vec![Program::OomVictimTp, Program::OomKillFentry], Some(hooks[3])),
        (kernel(), vec![Program::OomVictimTp, Program::OomVictimFentry, Program::OomVictimKprobe], None),
        (old_tracepoint, vec![], Some(hooks[1])),
        (no_inner_function, vec![], Some(hooks[4])),
    ] {
        assert_eq!(best(Need::OomKill, &kernel, &disabled), expected, "without {disabled:?}");
    }
}

#[test]
fn reclaim_tracepoints_without_the_cgroup_are_no_fallback() {
    let without = [Program::ReclaimBeginFentry];
    assert_eq!(best(Need::Reclaim, &kernel(), &without), Some(RECLAIM[1].name));
    let mut old = kernel();
    old.tracepoints.insert("mm_vmscan_memcg_reclaim_begin".into(), vec!["int".into(), "unsigned int".into()]);
    assert_eq!(best(Need::Reclaim, &old, &without), None);
    let mut swapped = kernel();
    swapped.functions.insert(
        "try_to_free_mem_cgroup_pages".into(),
        ["mem_cgroup*", "long unsigned int", "unsigned int", "bool"].map(String::from).to_vec(),
    );
    assert_eq!(best(Need::Reclaim, &swapped, &[]), Some(RECLAIM[1].name));
}

#[test]
fn a_field_that_is_not_known_rules_out_what_reads_it_and_nothing_else() {
    let mut without = kernel();
    without.offsets.remove(&Field::MemcgSwapMax);
    for need in Need::ALL {
        let expected = !matches!(need, Need::LimitWrite(LimitKind::SwapMax) | Need::Guard);
        assert_eq!(best(*need, &without, &[]).is_some(), expected, "{need}");
    }
    assert_eq!(SWAP_MAX[0].fits(&without, &BTreeSet::new()), Err(Unfit::NoField(Field::MemcgSwapMax)));
}

#[test]
fn a_kernel_without_anything_has_a_reason_for_each_need() {
    for need in Need::ALL {
        for hook in need.hooks() {
            let unfit = hook.fits(&Summary::default(), &BTreeSet::new()).expect_err("nothing is there");
            assert!(unfit.to_string().starts_with("this kernel has no "), "{unfit}");
        }
        assert!(!need.lost().is_empty());
    }
}

#[test]
fn every_program_is_in_the_table() {
    let used: BTreeSet<Program> = all().map(|attachment| attachment.program).collect();
    assert_eq!(used, Program::ALL.iter().copied().collect());
}

#[test]
fn every_field_is_read_by_somebody() {
    let read = all().flat_map(|attachment| attachment.fields).chain(OPTIONAL);
    let read: BTreeSet<Field> = read.copied().collect();
    assert_eq!(read, Field::ALL.iter().copied().collect());
}

#[test]
fn hot_paths_are_left_alone() {
    let hot = ["try_charge_memcg", "psi_group_change", "mod_memcg_state", "sys_enter", "sys_exit"];
    for attachment in all() {
        let name = name(attachment.point);
        assert!(!hot.contains(&name.as_str()) && !name.starts_with("__x64_sys"), "{name} is a hot path");
    }
}
