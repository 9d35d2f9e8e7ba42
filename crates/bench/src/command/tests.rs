use std::path::Path;

use clap::{CommandFactory, Parser, Subcommand};

use super::curve::CurveArgs;
use super::curve_cost::CurveCostArgs;
use super::generate::GenerateArgs;
use super::replay::ReplayArgs;
use super::run::RunArgs;
use super::slack::SlackArgs;
use super::*;

#[derive(Parser)]
struct Program {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Run(Box<RunArgs>),
    Replay(Box<ReplayArgs>),
    Slack(SlackArgs),
    Curve(CurveCostArgs),
    Generate(GenerateArgs),
}

#[derive(Parser)]
struct Curve {
    #[command(flatten)]
    args: CurveArgs,
}

/// `millpond curve`, which stands beside `bench`.
fn curve(line: &str) -> Result<String> {
    let words = std::iter::once("curve").chain(line.split_whitespace());
    let mut out = Vec::new();
    super::curve::execute(&Curve::try_parse_from(words)?.args, &mut out)?;
    Ok(String::from_utf8(out)?)
}

fn run(line: &str) -> Result<String> {
    let words = std::iter::once("bench").chain(line.split_whitespace());
    let mut out = Vec::new();
    match Program::try_parse_from(words)?.command {
        Command::Run(args) => run::execute(&args, &mut out)?,
        Command::Replay(args) => replay::execute(&args, &mut out)?,
        Command::Slack(args) => slack::execute(&args, &mut out)?,
        Command::Generate(args) => generate::execute(&args, &mut out)?,
        Command::Curve(args) => curve_cost::execute(&args, &mut out)?,
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
    for name in ["run", "replay", "generate"] {
        let command = program.find_subcommand_mut(name).expect(name);
        let help = command.render_long_help().to_string();
        for arg in command.get_arguments().filter(|arg| !["help", "version"].contains(&arg.get_id().as_str()))
        {
            let text = arg.get_help().map(ToString::to_string).unwrap_or_default();
            assert!(text.len() > 5, "{name} --{} has no help", arg.get_id());
            let has_default = !arg.get_default_values().is_empty() || text.contains("[default:");
            let takes_value = arg.get_action().takes_values() && !arg.is_required_set();
            let optional = ["ops", "class_list"].contains(&arg.get_id().as_str());
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
        ("replay", "--trace"),
        ("replay --trace /no/such/trace", "/no/such/trace"),
        ("replay --trace x --columns key,colour", "is not a column"),
        ("replay --trace x --value-size 5GiB", "larger than any item"),
        ("generate --clusters 7 --out /tmp/millpond-never-made/x", "creating"),
    ] {
        let error = refusal(line);
        assert!(error.contains(reason), "{line}: {error}");
    }
}

/// The sample that is shipped: values of all sizes, and hot keys.
fn sample() -> String {
    format!("{}/../../examples/sample-trace.csv.zst", env!("CARGO_MANIFEST_DIR"))
}

/// The memory for a share of hits: the curve over values alone said 118 MiB where the engine needed
/// more than 144.
#[test]
fn the_memory_that_is_told_for_a_hit_ratio_is_what_a_replay_needs() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("requests.csv");
    let unit = |i: u64| base::hash::mix64(i) as f64 / u64::MAX as f64;
    let requests: String = (0..200_000)
        .map(|i| (unit(i).powi(3) * 60_000.0) as u64)
        .map(|key| format!("{key},get,{}\n", (400.0 * 50_f64.powf(unit(key << 20))) as u64))
        .collect();
    std::fs::write(&file, format!("key,op,size\n{requests}")).expect("written");
    let trace = file.display();
    for policy in ["lru:0", "s3-fifo"] {
        let told = curve(&format!("{trace} --hits 60% --policy {policy} --json")).expect("an answer");
        let told: serde_json::Value = serde_json::from_str(&told).expect("json");
        let answer = &told["answer"];
        let memory = answer["memory_bytes"].as_u64().unwrap_or_else(|| panic!("{answer}"));
        let replayed = json(&format!("replay --trace {trace} --memory {memory} --policy {policy} --json"));
        let hit_ratio = replayed["hit_ratio"].as_f64().expect("a ratio");
        assert!(memory > 16 << 20, "more than a cache has at least: {answer}");
        assert!((0.59..=0.61).contains(&hit_ratio), "{policy}: {hit_ratio} of {answer}");
    }
    // Removals are neither hits nor misses: those of keys that are absent change nothing, but the
    // moments at which a replay maintains the cache. With twice as many rounds of rebalancing in as
    // many reads, some 5 % less memory is enough.
    let memory = || {
        let told = curve(&format!("{trace} --hits 60% --policy lru:0 --json")).expect("an answer");
        let told: serde_json::Value = serde_json::from_str(&told).expect("json");
        told["answer"]["memory_bytes"].as_u64().expect("a number")
    };
    let without = memory();
    let hits = |every: u64| {
        let options = format!("--memory {without} --policy lru:0 --maintain-every {every} --json");
        json(&format!("replay --trace {trace} {options}"))["hits"].as_u64().expect("a number")
    };
    let maintained_as_often = hits(5_000);
    let with_removals = requests.replace('\n', "\nabsent,delete,\n");
    std::fs::write(&file, format!("key,op,size\n{with_removals}")).expect("written");
    assert_eq!(hits(10_000), maintained_as_often);
    let with = memory();
    assert!(with.abs_diff(without) <= without / 10, "{with}, {without} without removals");
    // Those of keys that are there cost hits, in the curve as in the replay.
    let removing: String = requests
        .lines()
        .enumerate()
        .map(|(i, line)| match line.split_once(',') {
            Some((key, _)) if i % 2 == 0 => format!("{line}\n{key},delete,\n"),
            _ => format!("{line}\n"),
        })
        .collect();
    std::fs::write(&file, format!("key,op,size\n{removing}")).expect("written");
    let told = curve(&format!("{trace} --hits 99.9% --policy lru:0 --json")).expect("an answer");
    let told: serde_json::Value = serde_json::from_str(&told).expect("json");
    let most = told["answer"]["most_hits"].as_f64().expect("a ratio");
    let replayed = json(&format!("replay --trace {trace} --memory 1GiB --policy lru:0 --json"));
    let hit_ratio = replayed["hit_ratio"].as_f64().expect("a ratio");
    assert!((most - hit_ratio).abs() < 0.02 && hit_ratio < 0.6, "{most} told, {hit_ratio} replayed");
    let text = curve(&format!("{} --hits 99.9%", sample())).expect("an answer");
    assert!(text.contains("no cache has them") && text.contains("memory of a whole cache"), "{text}");
}

/// The curve alone is exact for items of one size: it knows the engine's overhead for them.
#[test]
fn the_curve_alone_knows_the_memory_for_items_of_one_size() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("keys.csv");
    let draw = |i: u64| (base::hash::mix64(i) as f64 / u64::MAX as f64).powi(3) * 60_000.0;
    let keys: String = (0..200_000).map(|i| format!("{}\n", draw(i) as u64)).collect();
    std::fs::write(&file, format!("key\n{keys}")).expect("written");
    let trace = format!("{} --value-size 1000", file.display());
    let told = curve(&format!("{trace} --hits 60% --policy lru --most-tried 0 --json")).expect("an answer");
    let told: serde_json::Value = serde_json::from_str(&told).expect("json");
    let memory = told["answer"]["memory_bytes"].as_u64().expect("it is on the curve");
    assert!(memory > 24 << 20, "{memory}");
    let replayed = json(&format!("replay --trace {trace} --memory {memory} --policy lru:0 --json"));
    let hit_ratio = replayed["hit_ratio"].as_f64().expect("a ratio");
    assert!((0.58..=0.62).contains(&hit_ratio), "{hit_ratio} with {memory}");
}

/// A read that missed has no size, and the write that tells it was passed over: a hundredth of the
/// memory was told.
#[test]
fn a_key_has_the_size_that_any_of_its_requests_tells() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("log.csv");
    let fills: String = (0..4_000).map(|key| format!("{key},get,\n{key},set,10000\n")).collect();
    let hits: String = (0..4_000).map(|key| format!("{key},get,10000\n")).collect();
    let never: String = (0..30).map(|key| format!("{},get,\n", 1_000_000 + key)).collect();
    std::fs::write(&file, format!("key,op,size\n{fills}{}{never}", hits.repeat(4))).expect("written");
    let told = |writes: &str| -> serde_json::Value {
        let line =
            format!("{} --method exact --writes {writes} --hits 75% --policy lru:0 --json", file.display());
        serde_json::from_str(&curve(&line).expect("an answer")).expect("json")
    };
    let memory = |writes| told(writes)["answer"]["by_curve_bytes"].as_u64().expect("memory");
    let (counted, ignored) = (memory("count"), memory("ignore"));
    assert!(counted > 40 << 20 && ignored.abs_diff(counted) < 1 << 20, "{ignored} of {counted}");
    let text = curve(&format!("{} --method exact --writes ignore", file.display())).expect("a curve");
    assert!(text.contains("no size    for 30 of 4030 keys: 100 B is assumed"), "{text}");
}

/// An application that fills what it misses, but for one key in five, which there is not: its hits
/// with this memory, and its requests as the log of a server has them.
fn application(memory_bytes: u64) -> (f64, String) {
    let config = millpond::CacheConfig { memory: base::ByteSize::new(memory_bytes), ..Default::default() };
    let cache = millpond::Cache::new(config).expect("a cache");
    let pool = cache.add_pool(millpond::PoolConfig::named("app")).expect("a pool");
    let mut log = String::from("ts,tenant,protocol,command,op,key,key_size,size,ttl,outcome,latency_us\n");
    let (mut hits, mut reads) = (0, 0);
    for i in 0..150_000_u64 {
        let unit = |seed: u64| base::hash::mix64(i ^ seed << 40) as f64 / u64::MAX as f64;
        let key = (unit(1).powi(3) * 40_000.0) as u64;
        let is_filled = !base::hash::mix64(key).is_multiple_of(5);
        let size = 200 + base::hash::mix64(key) % 1_800;
        let (bytes, ts) = (key.to_le_bytes(), i * 20);
        reads += 1;
        if cache.keys(pool).find(&bytes).is_some() {
            hits += 1;
            log += &format!("{ts},app,resp,get,get,{key},8,{size},,hit,5\n");
            continue;
        }
        log += &format!("{ts},app,resp,get,get,{key},8,,,miss,5\n");
        if is_filled {
            cache.put(cache.allocate(pool, &bytes, size as usize, &Default::default()).expect("room"));
            log += &format!("{},app,resp,set,set,{key},8,{size},,ok,5\n", ts + 1);
        }
    }
    (f64::from(hits) / f64::from(reads), log)
}

/// The application's refill after a miss counted as a hit: half of the memory was told that a
/// server needs.
#[test]
fn the_memory_that_is_told_for_a_servers_log_is_what_a_server_needs() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("log.csv");
    for taken_with in [12 << 20, 64 << 20] {
        std::fs::write(&file, application(taken_with).1).expect("written");
        let line = format!("{} --hits 60% --policy s3-fifo --json", file.display());
        let told: serde_json::Value = serde_json::from_str(&curve(&line).expect("an answer")).expect("json");
        assert_eq!((&told["writes"], &told["requests"]), (&"fill".into(), &150_000.into()));
        let memory = told["answer"]["memory_bytes"].as_u64().unwrap_or_else(|| panic!("{told}"));
        let (hits, _) = application(memory);
        assert!((0.58..=0.63).contains(&hits), "{hits} with {memory}: {}", told["answer"]);
        let replayed = json(&format!(
            "replay --trace {} --trace-time us --own-fills --writes-replace --memory {memory} --json",
            file.display()
        ));
        assert!((replayed["get_hit_ratio"].as_f64().expect("a ratio") - hits).abs() < 0.02);
        let most = 1.0
            - told["curve"]["points"].as_array().and_then(|it| it.last()).expect("points")["miss_ratio"]
                .as_f64()
                .expect("a ratio");
        assert!(most < 0.8, "what is never filled is never hit: {most}");
    }
    let text = curve(&file.display().to_string()).expect("a curve");
    assert!(text.contains("those of reads") && text.contains("nothing fills them"), "{text}");
}

/// Two tenants' keys of the same name were one key: half of the memory was told, and 0.833 hits of
/// 0.667.
#[test]
fn keys_of_a_log_are_told_apart_by_tenant() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("two.csv");
    let pass: String = (0..5_000).map(|key| format!("a,{key},get,1000\nb,{key},get,1000\n")).collect();
    std::fs::write(&file, format!("tenant,key,op,size\n{}", pass.repeat(3))).expect("written");
    let trace = file.display();
    let told = |flags: &str| -> serde_json::Value {
        let told =
            curve(&format!("{trace} --hits 60% --method exact --policy lru:0 {flags} --json")).expect(flags);
        serde_json::from_str(&told).expect("json")
    };
    let replayed = json(&format!("replay --trace {trace} --json"));
    assert_eq!((&replayed["requests"], &replayed["hits"]), (&30_000.into(), &20_000.into()));
    let only = json(&format!("replay --trace {trace} --tenant b --json"));
    assert_eq!((&only["requests"], &only["hits"]), (&15_000.into(), &10_000.into()));
    let (all, one) = (told(""), told("--tenant a"));
    assert_eq!((&all["requests"], &one["requests"]), (&30_000.into(), &15_000.into()));
    let memory = |report: &serde_json::Value| report["answer"]["by_curve_bytes"].as_u64().expect("memory");
    assert!(memory(&all) > memory(&one) + (4 << 20), "{} {}", memory(&all), memory(&one));
    for line in
        [format!("replay --trace {trace} --tenant c"), format!("replay --trace {trace} --tenant c --limit 5")]
    {
        assert!(refusal(&line).contains("a, b"), "{line}");
    }
    let error = format!("{:#}", curve(&format!("{trace} --tenant c")).expect_err("no such tenant"));
    assert!(error.contains("no request is of tenant `c`") && error.contains("a, b"), "{error}");
}

/// MiB were taken for items without a word.
#[test]
fn memory_is_never_taken_for_items() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("keys.csv");
    let keys: String = (0..5_000_u32).map(|i| format!("{}\n", i * i % 700)).collect();
    std::fs::write(&file, format!("key\n{keys}")).expect("written");
    let trace = file.display();
    for flag in ["--more 16MiB", "--max-size 64MiB", "--method shadow --at 1KiB"] {
        let error = format!("{:#}", curve(&format!("{trace} {flag}")).expect_err(flag));
        assert!(error.contains("is memory") && error.contains("--value-size"), "{flag}: {error}");
        curve(&format!("{trace} {flag} --value-size 500")).expect(flag);
    }
    let error = curve(&format!("{trace} --hits 0.5")).expect_err("no sizes").to_string();
    assert!(error.contains("tells no sizes"), "{error}");
    assert!(curve(&format!("{trace} --more 100")).expect("items").contains("100 more"));
    for wrong in ["--hits 120%", "--hits many", "--overhead lots"] {
        assert!(curve(&format!("{trace} {wrong}")).is_err(), "{wrong}");
    }
}
