use super::{
    Config, changes_needing_restart, default_file, error::ERRORS_MAX, keys, load, model::Policy, taken,
};
use crate::{guard::GuardMode, policy::Mode};
use enforcer_gate::{Bytes, Limit, Micros};
use std::os::unix::fs::PermissionsExt;

/// The errors of a text, one a line.
fn errors(text: &str, overrides: &[&str]) -> String {
    let overrides: Vec<_> = overrides.iter().map(ToString::to_string).collect();
    Config::parse("f", text, &overrides).map_or_else(|errors| errors.to_string(), |_| String::new())
}

/// What is said about a text, without what to do.
fn check(text: &str, expected: &[&str]) {
    let errors = Config::parse("f", text, &[]).expect_err(text);
    let found: Vec<_> = errors.errors().iter().map(super::ConfigError::place_and_why).collect();
    assert_eq!(found, expected, "{text}");
}

fn parsed(text: &str, overrides: &[&str]) -> Config {
    let overrides: Vec<_> = overrides.iter().map(ToString::to_string).collect();
    Config::parse("f", text, &overrides).unwrap_or_else(|errors| panic!("{errors}"))
}

#[test]
fn nothing_is_the_default_and_so_is_the_default_file() {
    assert_eq!(parsed("", &[]), Config::default());
    let file = default_file();
    assert_eq!(parsed(&file, &[]), Config::default());
    let lines: Vec<_> = file.lines().filter(|line| !line.starts_with('#') && line.contains(" = ")).collect();
    assert_eq!(lines.len(), keys::all().count());
    for (line, key) in lines.iter().zip(keys::all()) {
        assert!(line.starts_with(&format!("{} = ", key.name())), "{line}");
    }
    assert!(file.lines().all(|line| line.len() <= 110), "{file}");
}

#[test]
fn every_key_is_in_the_section_that_its_path_names() {
    for section in &keys::SECTIONS {
        for key in section.keys {
            assert_eq!(key.path.split_once('.'), Some((section.name, key.name())));
        }
    }
}

#[test]
fn what_is_set_counts() {
    let text = "\
[agent]
state_dir = '/a \"b'
paused = true
reading_interval = \"1.5s\"
oom_score_adj = -1000
[cri]
socket = \"unix:///run/crio/crio.sock\"
events = false
[http]
listen = \"[::1]:80\"
[oom]
store_max = 0x200_0000
[guard]
mode = \"enforce\"
[policy]
default = \"\\u0067uard\"
label = \"\"
ceiling = \"2Gi\"
interval = \"1m30s\"
pressure_avg10 = 7
";
    let config = parsed(text, &[]);
    assert_eq!(config.agent.state_dir.to_str(), Some("/a \"b"));
    assert_eq!((config.agent.paused, config.agent.oom_score_adj), (true, -1000));
    assert_eq!(config.agent.reading_interval, Micros::from_millis(1500));
    assert_eq!(config.cri.socket.as_deref(), Some("unix:///run/crio/crio.sock"));
    assert_eq!((config.cri.events, config.http.listen), (false, "[::1]:80".parse().ok()));
    assert_eq!((config.oom.store_max, config.guard.mode), (Bytes::from_mib(32), GuardMode::Enforce));
    let expected = Policy {
        default: Mode::Guard,
        label: None,
        ceiling: Limit::Bytes(Bytes::from_mib(2048)),
        interval: Micros::from_secs(90),
        pressure_avg10: 700,
        ..Policy::default()
    };
    assert_eq!(config.policy, expected);
}

#[test]
fn a_section_can_be_written_in_three_ways() {
    let header = parsed("[drift]\nmend = true", &[]);
    assert!(header.drift.mend);
    for text in [
        "drift = { mend = true }",
        "drift.mend = true",
        "'drift' . \"mend\" = true # a\r\n",
        "\u{feff}[drift]\nmend=true",
    ] {
        assert_eq!(parsed(text, &[]), header, "{text}");
    }
}

#[test]
fn every_error_has_its_place() {
    for (text, expected) in [
        ("[polciy]\ndefault = \"guard\"", &["f:1:1: polciy: there is no such section"] as &[_]),
        ("[policy]\n  defualt = \"guard\"", &["f:2:3: policy.defualt: there is no such key"]),
        ("[policy]\ndefault = true", &["f:2:11: policy.default: it is true, not text in quotes"]),
        ("[policy]\ndefault = \"Guard\"", &["f:2:11: policy.default: \"Guard\" is none of them"]),
        (
            "[policy]\nfloor = \"10x\"",
            &[
                "f:2:9: policy.floor: \"x\" is no suffix; those of Kubernetes are Ki Mi Gi Ti Pi Ei, k M G T P E, m u n, or an exponent such as e6",
            ],
        ),
        ("[policy]\nfloor = 1", &["f:2:9: policy.floor: 1 is too little"]),
        ("[policy]\nfloor = -1", &["f:2:9: policy.floor: it is negative"]),
        ("[policy]\nfloor = 1.5", &["f:2:9: policy.floor: it is a number with a point, not text in quotes"]),
        (
            "[policy]\nceiling = \"min\"",
            &["f:2:11: policy.ceiling: \"min\" does not begin with a number; give a quantity such as 256Mi"],
        ),
        ("[policy]\nceiling = \"1m\"", &["f:2:11: policy.ceiling: 1 is too little"]),
        ("[policy]\ninterval = 10", &["f:2:12: policy.interval: it is a whole number, not text in quotes"]),
        (
            "[policy]\ninterval = \"10\"",
            &["f:2:12: policy.interval: the unit is missing; give a time such as 10s or 500ms"],
        ),
        (
            "[policy]\ninterval = \"169h\"\ninterval_max = \"1ms\"",
            &["f:2:12: policy.interval: 169h is too much", "f:3:16: policy.interval_max: 1ms is too little"],
        ),
        ("[policy]\nchanges_per_hour = 1001", &["f:2:20: policy.changes_per_hour: 1001 is out of range"]),
        ("[policy]\nchanges_per_hour = -1", &["f:2:20: policy.changes_per_hour: -1 is out of range"]),
        (
            "[policy]\nchanges_per_hour = \"6\"",
            &["f:2:20: policy.changes_per_hour: it is text in quotes, not a whole number"],
        ),
        ("[policy]\npressure_avg10 = 100.01", &["f:2:18: policy.pressure_avg10: 100.01 is out of range"]),
        (
            "[policy]\npressure_avg10 = 1.001",
            &["f:2:18: policy.pressure_avg10: 1.001 has more than two digits behind the point"],
        ),
        ("[policy]\npressure_avg10 = nan", &["f:2:18: policy.pressure_avg10: NaN is out of range"]),
        (
            "[policy]\npressure_avg10 = 1979-05-27",
            &["f:2:18: policy.pressure_avg10: it is a date or a time of day, not a number"],
        ),
        (
            "[policy]\nlabel = \"a b\"",
            &[
                "f:2:9: policy.label: \"a b\" is no name of a label: that is up to 63 letters, digits, \"-\", \"_\" and \".\", the first and the last a letter or digit",
            ],
        ),
        ("[policy]\nlabel = \"A.b/c\"", &["f:2:9: policy.label: \"A.b\" is no domain in lower case"]),
        ("[agent]\nstate_dir = \"x\"", &["f:2:13: agent.state_dir: \"x\" is not absolute"]),
        ("[agent]\nstate_dir = \"/a\\u0000\"", &["f:2:13: agent.state_dir: it has a zero byte in it"]),
        (
            "[agent]\nstate_dir = [\"/a\", [1, {b = 2}]]\npaused = 1",
            &[
                "f:2:13: agent.state_dir: it is a list, not text in quotes",
                "f:3:10: agent.paused: it is a whole number, not true or false",
            ],
        ),
        ("[agent]\nstate_dir = {a = 1}", &["f:2:13: agent.state_dir: it is a table, not text in quotes"]),
        ("[http]\nlisten = \"9464\"", &["f:2:10: http.listen: \"9464\" is no address with a port"]),
        ("[http]\nlisten = \"0.0.0.0:0\"", &["f:2:10: http.listen: port 0 is another one at each start"]),
        (
            "[http]\nlisten = \"localhost:9464\"",
            &["f:2:10: http.listen: \"localhost:9464\" is no address with a port"],
        ),
        (
            "[cri]\nsocket = \"tcp://a\"",
            &["f:2:10: cri.socket: tcp://a: neither unix:///path nor an absolute path"],
        ),
        ("[cri]\ndeadline = \"601s\"", &["f:2:12: cri.deadline: 601s is too much"]),
        ("mode = \"audit\"", &["f:1:1: mode: it stands in no section"]),
        ("policy = 3", &["f:1:1: policy: it is a section and has no value of its own"]),
        (
            "frob = 3\n[http]\nfrob = 3",
            &["f:1:1: frob: there is no such section", "f:3:1: http.frob: there is no such key"],
        ),
        ("[[policy]]\ndefault = 1", &["f:1:1: policy: [[ ]] makes a list"]),
        ("[policy.default]\na = 1", &["f:1:1: policy.default: policy.default is a key, not a section"]),
        (
            "[policy]\ndefault.x = 1",
            &["f:2:1: policy.default.x: policy.default is a key, and nothing is below it"],
        ),
        ("[policy]\n[policy.foo]\na = 1", &["f:2:1: policy.foo: there is no such key"]),
        (
            "[drift]\nmend = false\nmend = true",
            &["f:3:1: drift.mend: it is set twice; the first is in line 2"],
        ),
        (
            "[drift]\n[http]\n[drift]\nmend = 1",
            &[
                "f:3:1: drift: the section is begun twice; the first is in line 1",
                "f:4:8: drift.mend: it is a whole number, not true or false",
            ],
        ),
        (
            "drift.mend = false\ndrift.watch = true\n[drift]",
            &["f:3:1: drift: the section is begun twice; the first is in line 1"],
        ),
    ] {
        check(text, expected);
    }
}

#[test]
fn columns_count_characters() {
    check("[policy]\n\"ü\\u001b\" = 1", &["f:2:1: policy.ü\\u{1b}: there is no such key"]);
    check(
        "policy = { default = \"guard\", \"ü\" = 2, floor = 3 }",
        &["f:1:31: policy.ü: there is no such key", "f:1:48: policy.floor: 3 is too little"],
    );
}

#[test]
fn the_text_itself_can_be_wrong_in_several_places() {
    let text = "\
[agent
paused = maybe
[drift]
mend = yes
watch =
= 3
[policy]
default = \"guard
floor = 3
interval = \"\"\"
";
    let errors = Config::parse("f", text, &[]).expect_err("has errors");
    let places: Vec<_> =
        errors.errors().iter().filter_map(|error| Some((error.line?, error.column?))).collect();
    let lines: Vec<_> = places.iter().map(|(line, _)| *line).collect();
    for line in [1, 2, 4, 5, 6, 8, 9, 11] {
        assert!(lines.contains(&line), "line {line}: {errors}");
    }
    assert!(!errors.to_string().contains("no such"), "{errors}");
}

#[test]
fn what_was_meant_is_said() {
    for (text, says) in [
        ("[policy]\ndefualt = 1", "did you mean policy.default?"),
        ("[policy]\nstore-max = 1", "did you mean oom.store_max?"),
        ("[policy]\nstore_max = 1", "did you mean oom.store_max?"),
        ("[http]\nfrob = 1", "[http] has listen"),
        ("[gaurd]", "did you mean [guard]?"),
        ("[frob]", "the sections are agent, cri, http, oom, drift, guard, gate, policy"),
        ("store = 1", "there is oom.store and guard.store"),
        ("policy = 1", "its keys are default, label, margin_percent"),
        ("gaurd.mode = 1", "did you mean [guard]?"),
        ("[guard]\nmode = enforce", "text stands in quotes: \"enforce\""),
        ("[guard]\nmode = \"on\"", "give one of \"off\", \"audit\", \"enforce\""),
        ("[agent\n", "there should be \"]\""),
    ] {
        assert!(errors(text, &[]).contains(says), "{text}: {}", errors(text, &[]));
    }
}

#[test]
fn what_is_set_over_the_file_counts_and_the_last_most() {
    let text = "[policy]\ndefault = \"observe\"\nfloor = \"48Mi\"";
    let sets = [
        "policy.default=guard",
        "policy.default=auto-shrink",
        "policy.ceiling=max",
        "policy.label=",
        "policy.pressure_avg10=0.25",
        "policy.changes_per_hour=0",
        "agent.oom_score_adj=-5",
        "agent.paused=true",
        "http.listen=",
        "oom.store=/a=b",
    ];
    let config = parsed(text, &sets);
    assert_eq!(
        config.policy,
        Policy {
            default: Mode::AutoShrink,
            label: None,
            floor: Bytes::from_mib(48),
            pressure_avg10: 25,
            changes_per_hour: 0,
            ..Policy::default()
        }
    );
    assert_eq!((config.agent.paused, config.agent.oom_score_adj, config.http.listen), (true, -5, None));
    assert_eq!(config.oom.store.to_str(), Some("/a=b"));
    // What is wrong in the file stays wrong.
    assert!(errors("[policy]\ndefault = 1", &["policy.default=guard"]).starts_with("f:2:11: policy.default"));
}

#[test]
fn what_is_wrong_on_the_command_line_is_told_with_the_rest() {
    let sets = [
        "policy.default",
        "=1",
        "policy.defualt=guard",
        "policy.default.x=1",
        "policy=1",
        "mode=audit",
        "frob.x=1",
        "policy.floor=0",
        "policy.pressure_avg10=x\u{1b}",
        "agent.paused=yes",
        "policy.changes_per_hour=1.5",
        "policy.default=\"guard\"",
    ];
    let expected = "\
f:1:1: frob: there is no such section; the sections are agent, cri, http, oom, drift, guard, gate, policy
--set policy.default: it is not KEY=VALUE; write KEY=VALUE, as in policy.default=guard
--set =1: it is not KEY=VALUE; write KEY=VALUE, as in policy.default=guard
--set policy.defualt: there is no such key; did you mean policy.default?
--set policy.default.x: policy.default is a key, and nothing is below it; give one of \"observe\", \"guard\", \"auto-shrink\"
--set policy: it is a section and has no value of its own; its keys are default, label, margin_percent, margin_min, \
floor, ceiling, gain_min, interval, interval_max, window, changes_per_hour, pressure_avg10
--set mode: it stands in no section; there is guard.mode
--set frob.x: there is no such key; the sections are agent, cri, http, oom, drift, guard, gate, policy
--set policy.floor: 0 is too little; give a quantity such as \"256Mi\", or a number of bytes, from 4Ki to 1Ti
--set policy.pressure_avg10: it is \"x\\u{1b}\", not a number; give a number from 0 to 100 with at most two digits \
behind the point
--set agent.paused: it is \"yes\", not true or false; give true or false
--set policy.changes_per_hour: it is \"1.5\", not a whole number; give a whole number from 0 to 1000
--set policy.default: \"\"guard\"\" is none of them; give one of \"observe\", \"guard\", \"auto-shrink\"";
    assert_eq!(errors("[frob]", &sets), expected);
}

#[test]
fn contradictions_stand_where_the_later_of_the_two_does() {
    for (text, sets, expected) in [
        (
            "[policy]\nfloor = \"64Mi\"\nceiling = \"32Mi\"",
            &[] as &[_],
            "f:3:1: policy.ceiling: policy.floor is 64Mi and policy.ceiling 32Mi: no limit is right; lower the floor \
             or raise the ceiling",
        ),
        (
            "[policy]\nceiling = \"16Mi\"",
            &[],
            "f:2:1: policy.ceiling: policy.floor is 32Mi and policy.ceiling 16Mi: no limit is right; lower the floor or raise the ceiling",
        ),
        (
            "[policy]\nceiling = \"64Mi\"",
            &["policy.floor=65Mi"],
            "--set policy.floor: policy.floor is 65Mi and policy.ceiling 64Mi: no limit is right; lower the floor or raise the ceiling",
        ),
        (
            "[policy]\ninterval_max = \"9m\"",
            &[],
            "f:2:1: policy.interval_max: policy.interval is 10m and policy.interval_max 9m: pressure can't shorten it; make policy.interval_max the longer one",
        ),
        (
            "[policy]\ninterval = \"5s\"",
            &[],
            "f:2:1: policy.interval: policy.interval is 5s and agent.reading_interval 15s: there would be nothing new to go by; read at least once in each policy.interval",
        ),
        (
            "[drift]\nwatch = false\nmend = true",
            &[],
            "f:3:1: drift.mend: drift.mend is true and drift.watch false: what is not seen can't be put back; set both to true, or drift.mend to false",
        ),
        (
            "[oom]\nstore = \"/var/lib/enforcer/guard\"",
            &[],
            "f:2:1: oom.store: oom.store and guard.store are the same folder: each needs one of its own; name another folder",
        ),
        (
            "[agent]\nadmin_socket = \"/run/a.sock\"\n[cri]\nsocket = \"unix:///run/a.sock\"",
            &[],
            "f:4:1: cri.socket: agent.admin_socket and cri.socket are the same: the one is the agent's, the other the runtime's; name another path",
        ),
        // Where one of the two is wrong by itself, nothing is said of both.
        (
            "[policy]\nceiling = \"16Mi\"\nfloor = 5",
            &[],
            "f:3:9: policy.floor: 5 is too little; give a quantity such as \"256Mi\", or a number of bytes, from 4Ki to 1Ti",
        ),
    ] {
        assert_eq!(errors(text, sets), expected, "{text}");
    }
    // A store that is not used is nobody's.
    assert_eq!(errors("guard.mode = \"off\"\noom.store = \"/var/lib/enforcer/guard\"", &[]), "");
}

#[test]
fn only_so_many_errors_are_kept_and_the_others_counted() {
    let text = "a = 1\n".repeat(ERRORS_MAX + 5);
    let errors = Config::parse("f", &text, &[]).expect_err("has errors");
    assert_eq!((errors.errors().len(), errors.more()), (ERRORS_MAX, 5));
    assert!(errors.to_string().ends_with("\nand 5 more"));
}

#[test]
fn files_are_found_bounded_and_told_by_name() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("e\u{1b}.toml");
    let shown = crate::cgroup::shown(&path);
    let why = |is_named| {
        load(&path, is_named, &[]).map(|(_, loaded)| loaded.file).map_err(|errors| errors.to_string())
    };
    assert_eq!(why(false), Ok(None));
    let missing = format!(
        "{shown}: it can't be read: No such file or directory (os error 2); enforcer config default > FILE makes one"
    );
    assert_eq!(why(true), Err(missing));
    for (bytes, says) in [
        (
            b"[policy]\n# \xc3\xbc\xff".to_vec(),
            ": it is no UTF-8 from line 2, column 4 on: byte 0xff; save it as UTF-8",
        ),
        (vec![b'\n'; (1 << 20) + 1], ": it is larger than 1048576 bytes; name a configuration file"),
        (vec![b'\n'; 1 << 20], ""),
        (b"\xef\xbb\xbf[policy]\nx = 1".to_vec(), ":2:1: policy.x: there is no such key"),
        (b"\xef\xbb\xbfx = 1".to_vec(), ":1:1: x: there is no such section"),
    ] {
        std::fs::write(&path, bytes).expect("writes");
        let found = why(true).err().unwrap_or_default();
        assert!(
            found.starts_with(&if says.is_empty() { String::new() } else { format!("{shown}{says}") }),
            "{found}"
        );
        assert_eq!(found.is_empty(), says.is_empty(), "{found}");
    }
    std::fs::write(&path, "[drift]\nmend = true\n").expect("writes");
    for (mode, warned) in [(0o600, false), (0o644, false), (0o646, true), (0o602, true)] {
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).expect("is ours");
        let (config, loaded) = load(&path, false, &["drift.watch=true".into()]).expect("is fine");
        assert!(config.drift.mend && loaded.file.as_deref() == Some(&path));
        assert_eq!(loaded.warnings.len(), usize::from(warned), "{mode:o}");
        assert!(
            loaded
                .warnings
                .iter()
                .all(|warning| warning.starts_with("everybody can change") && warning.contains(&shown))
        );
    }
}

/// For each key a value that is not its default.
pub(super) const OTHERS: [(&str, &str); 39] = [
    ("agent.state_dir", "/a"),
    ("agent.admin_socket", "/b"),
    ("agent.paused", "true"),
    ("agent.settle_timeout", "1m30s"),
    ("agent.oom_score_adj", "7"),
    ("agent.reading_interval", "1.5s"),
    ("cri.socket", "unix:///run/c"),
    ("cri.deadline", "7ms"),
    ("cri.events", "false"),
    ("http.listen", "[::]:1"),
    ("oom.record", "false"),
    ("oom.store", "/d \"e\\f\u{1b}ü"),
    ("oom.store_max", "100M"),
    ("oom.writes", "0s"),
    ("drift.watch", "false"),
    ("drift.mend", "true"),
    ("guard.mode", "enforce"),
    ("guard.margin", "0"),
    ("guard.store", "/g"),
    ("guard.store_max", "65Mi"),
    ("gate.observe", "1s"),
    ("gate.window", "20s"),
    ("gate.watch", "1s"),
    ("gate.budget", "2s"),
    ("gate.headroom", "8Mi"),
    ("gate.allow_pressure_killer", "true"),
    ("policy.default", "auto-shrink"),
    ("policy.label", "a.b-c/D_e.f"),
    ("policy.margin_percent", "0"),
    ("policy.margin_min", "1"),
    ("policy.floor", "4Ki"),
    ("policy.ceiling", "1.5Gi"),
    ("policy.gain_min", "1Mi"),
    ("policy.interval", "1h1us"),
    ("policy.interval_max", "168h"),
    ("policy.window", "1s"),
    ("policy.changes_per_hour", "1000"),
    ("policy.pressure_avg10", "12.34"),
    ("policy.pressure_avg10", "0"),
];

#[test]
fn a_reload_is_told_exactly_what_takes_a_restart() {
    let seen: std::collections::BTreeSet<_> = OTHERS.iter().map(|(key, _)| *key).collect();
    assert_eq!(seen, keys::all().map(|key| key.path).collect());
    let default = Config::default();
    for (path, value) in OTHERS {
        let sets: &[&str] = &[&format!("{path}={value}")];
        // By itself it may go against the default of another.
        let Ok(other) = Config::parse("f", "", &sets.iter().map(ToString::to_string).collect::<Vec<_>>())
        else {
            assert_eq!(path, "drift.watch");
            continue;
        };
        assert_ne!(other, default, "{path}");
        let key = keys::find(path).expect("there is one");
        let expected = if key.takes == keys::Takes::Restart { vec![path] } else { vec![] };
        assert_eq!(changes_needing_restart(&default, &other), expected);
        let taken = taken(&default, other.clone());
        assert_eq!(taken, if expected.is_empty() { other.clone() } else { default.clone() }, "{path}");
        assert_eq!(parsed(&other.to_toml(), &[]), other, "{path}");
    }
    assert!(changes_needing_restart(&default, &default).is_empty());
}
