mod wrong;

use super::{Config, changes_needing_restart, default_file, keys, load, taken};
use crate::{
    guard::GuardMode,
    policy::{Defaults, Mode},
};
use enforcer_gate::{Bytes, Limit, Micros};
use std::os::unix::fs::PermissionsExt;

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
    let expected = Defaults {
        default: Mode::Guard,
        label: String::new(),
        ceiling: Limit::Bytes(Bytes::from_mib(2048)),
        interval: Micros::from_secs(90),
        pressure_avg10: 700,
        ..Defaults::default()
    };
    assert_eq!(config.policy, expected);
}

#[test]
fn a_section_can_be_written_in_three_ways() {
    let header = parsed("[drift]\nmend = true", &[]);
    assert!(header.drift.mend);
    for text in [
        "drift = { mend = true }",
        "drift = {\n mend\n=\ntrue, # a\n}",
        "drift.mend = true",
        "'drift' . \"mend\" = true # a\r\n",
        "\u{feff}[drift]\nmend=true",
    ] {
        assert_eq!(parsed(text, &[]), header, "{text}");
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
        Defaults {
            default: Mode::AutoShrink,
            label: String::new(),
            floor: Bytes::from_mib(48),
            pressure_avg10: 25,
            changes_per_hour: 0,
            ..Defaults::default()
        }
    );
    assert_eq!((config.agent.paused, config.agent.oom_score_adj, config.http.listen), (true, -5, None));
    assert_eq!(config.oom.store.to_str(), Some("/a=b"));
    // What is wrong in the file stays wrong.
    assert!(
        wrong::errors("[policy]\ndefault = 1", &["policy.default=guard"])
            .starts_with("f:2:11: policy.default")
    );
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
pub(super) const OTHERS: [(&str, &str); 52] = [
    ("agent.state_dir", "/a"),
    ("agent.admin_socket", "/b"),
    ("agent.watch_config", "true"),
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
    ("overhead.watch", "true"),
    ("overhead.interval", "1s"),
    ("overhead.reads_per_second", "1"),
    ("gate.observe", "1s"),
    ("gate.window", "20s"),
    ("gate.watch", "1s"),
    ("gate.budget", "2s"),
    ("gate.headroom", "8Mi"),
    ("gate.allow_pressure_killer", "true"),
    ("policy.default", "auto-shrink"),
    ("policy.label", "a.b-c/D_e.f"),
    ("policy.namespaces", "!kube-system"),
    ("policy.selector", "tier in (batch,dev),!critical"),
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
    ("kubernetes.enabled", "true"),
    ("kubernetes.kubeconfig", "/k"),
    ("kubernetes.node", "node-b"),
    ("kubernetes.watch", "44s"),
    ("kubernetes.within", "59s"),
    ("kubernetes.take_back", "true"),
    ("kubernetes.events", "false"),
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

#[test]
fn a_pipe_is_not_waited_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let pipe = folder.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo");
    assert!(made.success());
    let errors = Config::load(Some(&pipe), &[]).expect_err("it is none").to_string();
    assert!(errors.contains("it is a pipe and no file"), "{errors}");
}
