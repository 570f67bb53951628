use super::*;
use crate::overhead::measured::measured;
use proptest::prelude::*;

const fn mib(mib: u64) -> Bytes {
    Bytes::from_mib(mib)
}

fn declared(memory: Option<u64>, cpu: Option<u64>) -> Declared {
    Declared { name: "a".into(), handler: "b".into(), memory: memory.map(Bytes::from_mib), cpu }
}

/// Of a runtime that is a process beside the pod.
fn needs() -> Needs {
    Needs {
        memory: Bytes::new(10 * mib(1).get() + 5),
        memory_would_do: mib(12),
        in_pod: mib(1),
        peak: Some(mib(6)),
        machine: None,
        cpu: Some((3, 4)),
    }
}

#[test]
fn too_small_fits_and_too_large() {
    let size = |memory| check(&declared(memory, None), &needs(), Bytes::ZERO).memory;
    for (memory, expected) in [
        (None, Size::TooSmall),
        (Some(0), Size::TooSmall),
        (Some(10), Size::TooSmall),
        (Some(11), Size::Fits),
        (Some(12), Size::Fits),
        // A quarter of 12Mi is less than the 4Mi that nobody minds.
        (Some(16), Size::Fits),
        (Some(17), Size::TooLarge),
    ] {
        let found = size(memory);
        assert_eq!((found.size, found.would_do), (expected, mib(12).get()), "{memory:?}");
    }
    let cpu = |milli| check(&declared(None, milli), &needs(), Bytes::ZERO).cpu.map(|judged| judged.size);
    for (milli, expected) in [
        (None, Size::Undeclared),
        (Some(0), Size::TooSmall),
        (Some(3), Size::Fits),
        (Some(14), Size::Fits),
        (Some(15), Size::TooLarge),
    ] {
        assert_eq!(cpu(milli), Some(expected), "{milli:?}");
    }
    let none = Needs { cpu: None, ..needs() };
    assert_eq!(check(&declared(Some(12), Some(1)), &none, Bytes::ZERO).cpu, None);
}

#[test]
fn what_the_pod_holds_and_can_not_give_back_must_fit() {
    let oom = |memory, needs: Needs| check(&declared(Some(memory), None), &needs, Bytes::ZERO).oom;
    let much = Needs { in_pod: mib(20), ..needs() };
    assert_eq!(oom(19, much), Some(Oom { ground: Ground::Kept, holds: mib(20), room: mib(19) }));
    assert_eq!(oom(20, much), None);
    // A peak may have been page cache: it is told, and by itself no verdict.
    let peak = Needs { memory: mib(2), memory_would_do: mib(4), ..needs() };
    let checked = check(&declared(Some(4), None), &peak, Bytes::ZERO);
    assert_eq!(checked.oom, Some(Oom { ground: Ground::Peak, holds: mib(6), room: mib(4) }));
    assert!(!checked.is_too_small() && !checked.is_too_large());
}

/// 160Mi declared for a machine of 2048M.
#[test]
fn a_machine_that_its_guest_fills_is_killed() {
    let kata = Needs {
        memory: mib(150),
        memory_would_do: mib(152),
        in_pod: mib(120),
        peak: None,
        machine: Some(Machine { memory: mib(2048), beside: mib(40) }),
        cpu: None,
    };
    let checked = check(&declared(Some(160), None), &kata, Bytes::ZERO);
    assert_eq!(checked.oom, Some(Oom { ground: Ground::Machine, holds: mib(2048), room: mib(160) }));
    assert!(checked.is_too_small());
    assert_eq!((checked.memory.size, checked.memory.would_do), (Size::TooSmall, mib(2089).get()));
    let enough = check(&declared(Some(2089), None), &kata, Bytes::ZERO);
    assert_eq!((enough.oom, enough.memory.size), (None, Size::Fits));
    // Containers whose limits are as much as the machine has leave room for it.
    let shared = check(&declared(Some(160), None), &kata, mib(2048));
    assert_eq!((shared.oom, shared.memory.size), (None, Size::Fits));
    assert!(!shared.is_too_small());
}

#[test]
fn a_measurement_says_what_it_needs() {
    let run = measured(8, "");
    let needs = Needs::of(&run).expect("enough");
    let result = run.result.as_ref().expect("enough");
    assert!(needs.memory >= result.total.p95 && needs.memory_would_do == result.pod_fixed, "{needs:?}");
    assert_eq!((needs.in_pod, needs.peak, needs.machine), (mib(1), None, None));
    assert_eq!(needs.cpu, Some((2, 3)));
    assert_eq!(Needs::of(&crate::overhead::Run { result: None, ..run }), None);
}

proptest! {
    /// The number that would do is neither too small nor too large, and nothing is killed for it.
    #[test]
    fn what_would_do_does(
        memory in any::<u64>(), more in 0..1_u64 << 20, in_pod in any::<u64>(), machine in any::<Option<(u64, u64)>>(),
        limits in any::<u64>(), cpu in any::<(u64, u8)>(),
    ) {
        let bytes = Bytes::new;
        let needs = Needs {
            memory: bytes(memory),
            memory_would_do: bytes(memory.saturating_add(more)),
            // What lies in the pod's cgroup is a part of the whole.
            in_pod: bytes(in_pod.min(memory)),
            peak: None,
            machine: machine.map(|(memory, beside)| Machine { memory: bytes(memory), beside: bytes(beside) }),
            cpu: Some((cpu.0, cpu.0.saturating_add(cpu.1.into()))),
        };
        let first = check(&declared(None, None), &needs, bytes(limits));
        let would = Declared {
            memory: Some(bytes(first.memory.would_do)), cpu: first.cpu.map(|cpu| cpu.would_do), ..declared(None, None)
        };
        let again = check(&would, &needs, bytes(limits));
        prop_assert!(!again.is_too_small() && !again.is_too_large() && again.oom.is_none(), "{:?}", again);
        // More is never too small, less never too large.
        let more = Declared { memory: Some(bytes(u64::MAX)), cpu: Some(u64::MAX), ..would.clone() };
        prop_assert!(!check(&more, &needs, bytes(limits)).is_too_small());
        prop_assert!(!check(&declared(Some(0), Some(0)), &needs, bytes(limits)).is_too_large());
    }
}
