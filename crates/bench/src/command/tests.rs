use std::path::Path;

use clap::{CommandFactory, Parser};

use super::*;

#[derive(Parser)]
struct Program {
    #[command(subcommand)]
    command: BenchCommand,
}

fn run(line: &str) -> Result<String> {
    let words = std::iter::once("bench").chain(line.split_whitespace());
    let mut out = Vec::new();
    match Program::try_parse_from(words)?.command {
        BenchCommand::Run(args) => run::execute(&args, &mut out)?,
        BenchCommand::Replay(args) => replay::execute(&args, &mut out)?,
        BenchCommand::Slack(args) => slack::execute(&args, &mut out)?,
        BenchCommand::Check(args) => check::execute(&args, &mut out)?,
        BenchCommand::Soak(args) => soak::execute(&args, &mut out)?,
        BenchCommand::Siege(args) => siege::execute(&args, &mut out)?,
        BenchCommand::Generate(args) => generate::execute(&args, &mut out)?,
        BenchCommand::Curve(args) => curve_cost::execute(&args, &mut out)?,
    }
    Ok(String::from_utf8(out)?)
}

fn json(line: &str) -> serde_json::Value {
    serde_json::from_str(&run(line).expect(line)).expect("json")
}

fn refusal(line: &str) -> String {
    format!("{:#}", run(line).expect_err(line))
}

fn generate_into(folder: &Path, name: &str) -> String {
    let path = folder.join(name).display().to_string();
    run(&format!("generate --requests 4000 --out {path}")).expect("generated");
    path
}

#[test]
fn flags_are_consistent() {
    Program::command().debug_assert();
}

/// Every flag says what it does and, where it takes a value, which one it has otherwise.
#[test]
fn help_is_complete() {
    let mut program = Program::command();
    for name in ["run", "replay", "check", "generate"] {
        let command = program.find_subcommand_mut(name).expect(name);
        let help = command.render_long_help().to_string();
        for arg in command.get_arguments().filter(|arg| !["help", "version"].contains(&arg.get_id().as_str()))
        {
            let text = arg.get_help().map(ToString::to_string).unwrap_or_default();
            assert!(text.len() > 5, "{name} --{} has no help", arg.get_id());
            let has_default = !arg.get_default_values().is_empty() || text.contains("[default:");
            let takes_value = arg.get_action().takes_values() && !arg.is_required_set();
            let optional = ["ops", "class_list", "operations"].contains(&arg.get_id().as_str());
            assert!(!takes_value || has_default || optional, "{name} --{} tells no default", arg.get_id());
        }
        assert!(help.contains("--"), "{help}");
    }
}

#[test]
fn a_run_against_the_embedded_engine_reports_all_figures() {
    let flags = "--keys 2000 --value-size 10-500 --ops 20000 --allow-deep-sleep";
    let report = json(&format!("run {flags} --json --threads 2 --policy lru --lru-refresh 5"));
    assert_eq!(report["operations"], 20_000);
    assert_eq!(report["hit_ratio"], 1.0);
    assert_eq!(report["wrong_values"], 0);
    assert_eq!(report["holdings"]["items"], 2_000);
    assert_eq!(report["target"], "embedded, 64MiB, lru:5");
    let text = run(&format!("run {flags} --pipeline 8")).expect("a run");
    for word in ["throughput", "p99.9", "hit ratio    1.00000", "deep sleep allowed", "2000 items"] {
        assert!(text.contains(word), "no `{word}` in {text}");
    }
}

#[test]
fn a_check_reports_what_it_did_and_fails_where_it_finds_something() {
    let flags = "--operations 60000 --keys 500 --threads 3 --pools 2 --mix get=6,set=3,delete=1";
    let report = json(&format!("check {flags} --json"));
    assert_eq!((&report["operations"], &report["violations"]), (&60_000.into(), &serde_json::json!([])));
    let text = run(&format!("check {flags}")).expect("a check");
    for word in ["nothing wrong was found", "memory limits moved", "by 3 threads"] {
        assert!(text.contains(word), "no `{word}` in {text}");
    }
    let found = refusal(&format!("check {flags} --plant torn-value --plant-every 100"));
    assert!(found.contains("violations found: 1"), "{found}");
    let both = json("check --preset all --operations 300 --keys 3000 --threads 2 --memory 16MiB --json");
    assert_eq!(both.as_array().map(Vec::len), Some(18));
    let list = run("check --list-presets").expect("a list");
    assert!(list.contains("ram-with-deletes") && list.contains("slab-release-moving"), "{list}");
    let unknown = refusal("check --preset rams");
    assert!(unknown.contains("--list-presets"), "{unknown}");
}

#[test]
fn a_cachebench_configuration_is_run_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("config.json");
    let write = |cache: &str| {
        let text = format!(
            "{{\"cache_config\": {{\"cacheSizeMB\": 64, \"numPools\": 2, \"poolSizes\": [0.5, 0.5]{cache}}}, \
              \"test_config\": {{\"numKeys\": 4000, \"numOps\": 5000, \"numThreads\": 3, \"enableLookaside\": true, \
              \"keyPoolDistribution\": [0.5, 0.5], \"opPoolDistribution\": [0.9, 0.1], \"keySizeRange\": [8, 16], \
              \"keySizeRangeProbability\": [1], \"valSizeRange\": [64, 900], \"valSizeRangeProbability\": [1], \
              \"getRatio\": 1, \"loneGetRatio\": 0.1}}}}"
        );
        std::fs::write(&file, text).expect("written");
    };
    write("");
    let line = format!("run --config {} --allow-deep-sleep", file.display());
    let report = json(&format!("{line} --json"));
    assert_eq!((&report["operations"], &report["threads"]), (&15_000.into(), &3.into()));
    assert_eq!(report["target"], "embedded, 64MiB, lru");
    let pools = report["pools"].as_array().expect("pools").clone();
    let ratios: Vec<f64> = pools.iter().filter_map(|pool| pool["hit_ratio"].as_f64()).collect();
    assert!(
        ratios.len() == 2 && ratios[0] > ratios[1],
        "the pool that is asked more often hits more: {ratios:?}"
    );
    let text = run(&format!("{line} --scale 0.5 --threads 1 --ops 100 --no-pauses")).expect("a run");
    assert!(text.contains("pool1") && text.contains("scaled to 0.5"), "{text}");
    write(", \"nvmCacheSizeMB\": 100");
    assert!(refusal(&line).contains("cache_config.nvmCacheSizeMB = 100"));
    let text = run(&format!("{line} --ignore-unsupported --target null")).expect("a run");
    assert!(text.contains("ignored: cache_config.nvmCacheSizeMB"), "{text}");
    let twice = std::fs::read_to_string(&file).expect("read").replace(", \"nvmCacheSizeMB\": 100", "");
    std::fs::write(&file, format!("[{twice}, {twice}]")).expect("written");
    assert_eq!(json(&format!("{line} --json")).as_array().map(Vec::len), Some(2));
    assert!(refusal(&format!("{line} --mix get=1")).contains("can be overridden"));
}

#[test]
fn a_workload_file_is_read_and_flags_override_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("w.toml");
    std::fs::write(&file, "keys = 50\nmix = \"get=1\"\nlook_aside = true\n").expect("written");
    let line = format!("run --target null --workload {} --ops 100 --json --allow-deep-sleep", file.display());
    let report = json(&line);
    assert_eq!((&report["fills"], &report["hit_ratio"]), (&100.into(), &0.0.into()));
    assert!(report["workload"].as_str().is_some_and(|text| text.starts_with("50 keys")));
    let report = json(&format!("{line} --keys 70 --look-aside false"));
    assert_eq!(report["fills"], 0);
    assert!(report["workload"].as_str().is_some_and(|text| text.starts_with("70 keys")));
    std::fs::write(&file, "kyes = 50\n").expect("written");
    let error = refusal(&line);
    assert!(error.contains("w.toml") && error.contains("line 1") && error.contains("kyes"), "{error}");
}

#[test]
fn generated_traces_are_replayed_alone_and_together() {
    let folder = tempfile::tempdir().expect("a folder");
    let (packed, plain) = (generate_into(folder.path(), "a.csv.zst"), generate_into(folder.path(), "b.csv"));
    let engine = "--memory 64MiB --class-list 1KiB,64KiB";
    let one = json(&format!("replay --trace {packed} {engine} --json --compare-exact"));
    assert_eq!(one["requests"], 4_000);
    assert!(one["comparison"]["rivals"].as_array().is_some_and(|rivals| rivals.len() == 3));
    let text = run(&format!("replay --trace {plain} {engine} --policy lru:0")).expect("a replay");
    assert!(text.contains("hit ratio       0.") && text.contains("evictions"), "{text}");
    for flag in ["", "--together"] {
        let both = json(&format!("replay --trace {packed} --trace {plain} {engine} --json {flag}"));
        assert_eq!(both["requests"], 8_000);
        assert_eq!(both["traces"][1]["hits"], one["hits"]);
        assert_eq!(both["hit_ratio"], one["hit_ratio"]);
        assert_eq!(both["byte_hit_ratio"], one["byte_hit_ratio"]);
    }
    let again = refusal(&format!("generate --out {plain}"));
    assert!(again.contains("--force"), "{again}");
    assert!(run("generate --list").expect("a list").contains("CC BY 4.0"));
}

#[test]
fn what_makes_no_sense_is_refused_with_a_reason() {
    for (line, reason) in [
        ("run --target http://x", "memcached://host:port"),
        ("run --target redis://x --ops 1 --keys 10", "can be checked"),
        ("run --mix fly=1", "lone-get"),
        ("run --duration soon", "500ms"),
        ("run --duration 1s --ops 5", "cannot be used with"),
        ("run --policy fifo", "s3-fifo"),
        ("run --policy s3-fifo --lru-refresh 5", "--policy lru"),
        ("run --class-list 5GiB", "4 MiB"),
        ("run --memory 1KiB", "too little"),
        ("run --workload /no/such/file.toml", "/no/such/file.toml"),
        ("run --workload /tmp --mix get=1", "can be overridden"),
        ("run --target memcached://127.0.0.1:1 --ops 1", "connecting to 127.0.0.1:1"),
        ("siege --only stampede", "half-open"),
        ("siege --rounds 0", "at least one round"),
        ("siege --memory 8MiB", "at least 64MiB"),
        ("replay", "--trace"),
        ("replay --trace /no/such/trace", "/no/such/trace"),
        ("replay --trace x --columns key,colour", "is not a column"),
        ("replay --trace x --value-size 5GiB", "larger than any item"),
        ("check --target null", "nothing can be wrong"),
        ("check --target memcached://127.0.0.1:1", "connecting to 127.0.0.1:1"),
        ("check --target redis://127.0.0.1:1", "connecting to 127.0.0.1:1"),
        ("check --plant gremlins", "stale-read"),
        ("check --mix get=1,lone-get=1", "lone-get"),
        ("generate --clusters 7 --out /tmp/millpond-never-made/x", "creating"),
    ] {
        let error = refusal(line);
        assert!(error.contains(reason), "{line}: {error}");
    }
}
