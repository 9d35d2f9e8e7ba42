//! Comparisons of the curves of `millpond curve`: with exact ones, with caches that are simulated
//! in full, and with published ones.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use curve::Unit;
use millpond::PolicyKind;
use serde::Serialize;
use workload::curves::Source;
use workload::curves::accuracy::{self, Accuracy, MOST_ERROR};
use workload::curves::miniature::{MiniatureError, compare_policies};
use workload::curves::published::{self, PublishedError};

use super::curve::CurveArgs;
use super::print_json;

pub(super) fn estimators(
    args: &CurveArgs,
    source: &Source,
    traces: &[PathBuf],
    out: &mut dyn Write,
) -> Result<()> {
    let rate = args.rate.unwrap_or(curve::ghost::DEFAULT_RATE);
    let mut all = Vec::new();
    if !args.json {
        let columns =
            ["requests", "keys", "sizes", "method", "error", "told", "plain", "regress", "keys", "memory"];
        write!(out, "{:<26}", "trace")?;
        columns.iter().try_for_each(|column| write!(out, " {column:>10}"))?;
        writeln!(out)?;
    }
    for trace in traces {
        for accuracy in accuracy::compare(trace, source, args.keys, rate)? {
            if !args.json {
                lines(&accuracy, out)?;
            }
            all.push(accuracy);
        }
    }
    if args.json {
        print_json(out, &all)?;
    }
    let misses: usize = all.iter().map(|accuracy| accuracy.misses().count()).sum();
    if misses > 0 {
        bail!("{misses} curves err by more than {}", accuracy::MOST_ERROR);
    }
    Ok(())
}

fn lines(accuracy: &Accuracy, out: &mut dyn Write) -> Result<()> {
    let name = accuracy.trace.file_name().unwrap_or_default().to_string_lossy();
    let name = name.trim_end_matches(".zst").trim_end_matches(".csv");
    let sizes = match (accuracy.unit, accuracy.is_bimodal) {
        (Unit::Items, _) => "items",
        (Unit::Bytes, false) => "bytes",
        (Unit::Bytes, true) => "two bytes",
    };
    for estimate in &accuracy.estimates {
        let memory = estimate.bytes as f64 / 1024.0;
        let missed = accuracy.misses().any(|missed| missed.method == estimate.method);
        writeln!(
            out,
            "{name:<26} {:>10} {:>10} {sizes:>10} {:>10} {:>10.4} {:>10.4} {:>10.4} {:>10.4} {:>10} {memory:>6.0} KiB{}",
            accuracy.requests,
            accuracy.keys,
            estimate.method,
            estimate.error,
            estimate.told,
            estimate.uncorrected,
            estimate.regression,
            estimate.keys,
            if missed { "  missed" } else { "" },
        )?;
    }
    Ok(())
}

/// A trace's name: that of its file without what says how it is packed.
fn name_of(trace: &Path) -> String {
    let name = trace.file_name().unwrap_or_default().to_string_lossy();
    name.trim_end_matches(".zst").trim_end_matches(".gz").trim_end_matches(".csv").to_owned()
}

#[derive(Serialize)]
struct OfTrace<T> {
    trace: PathBuf,
    #[serde(flatten)]
    told: T,
}

/// Compares miniatures of each policy with full caches, trace by trace.
pub(super) fn policies(
    args: &CurveArgs,
    source: &Source,
    traces: &[PathBuf],
    out: &mut dyn Write,
) -> Result<()> {
    // Whoever names none asks about all.
    let asked = match &args.policy[..] {
        [PolicyKind::Lru { .. }] => PolicyKind::ALL.to_vec(),
        some => some.to_vec(),
    };
    let mut all: Vec<OfTrace<MiniatureError>> = Vec::new();
    if !args.json {
        write!(out, "{:<26} {:<14}", "trace", "policy")?;
        let columns = ["keys", "rate", "error", "told", "worst", "worst at", "of items"];
        columns.iter().try_for_each(|column| write!(out, " {column:>9}"))?;
        writeln!(out)?;
    }
    for trace in traces {
        for told in compare_policies(trace, source, &asked, args.rate)? {
            if !args.json {
                let MiniatureError { policy, keys, rate, error, told, worst, worst_at, worst_items, .. } =
                    &told;
                let name = name_of(trace);
                writeln!(
                    out,
                    "{name:<26} {policy:<14} {keys:>9} {rate:>9.4} {error:>9.4} {told:>9.4} {worst:>9.4} {:>8.1}% {worst_items:>9}",
                    worst_at * 100.0,
                )?;
            }
            all.push(OfTrace { trace: trace.clone(), told });
        }
    }
    if args.json { print_json(out, &all) } else { Ok(()) }
}

/// Compares curves with published ones, trace by trace.
pub(super) fn published(
    args: &CurveArgs,
    file: &Path,
    source: &Source,
    traces: &[PathBuf],
    out: &mut dyn Write,
) -> Result<()> {
    let mut all: Vec<OfTrace<PublishedError>> = Vec::new();
    for trace in traces {
        let name = args.published_as.clone().unwrap_or_else(|| name_of(trace));
        let with = (file, name.as_str(), args.published_keys);
        if let Some(told) = published::compare(trace, source, with, args.keys)? {
            all.push(OfTrace { trace: trace.clone(), told });
        }
    }
    if args.json {
        print_json(out, &all)?;
    } else {
        let titles = ["points", "exact", "largest", "shards", "largest"];
        write!(out, "{:<26} {:<26}", "trace", "published as")?;
        titles.iter().try_for_each(|title| write!(out, " {title:>9}"))?;
        writeln!(out)?;
        for OfTrace { trace, told: PublishedError { published, points, exact, shards } } in &all {
            let name = name_of(trace);
            write!(out, "{name:<26} {published:<26} {points:>9}")?;
            exact.iter().chain(shards).try_for_each(|error| write!(out, " {error:>9.4}"))?;
            writeln!(out)?;
        }
    }
    let misses =
        all.iter().filter(|it| it.told.exact[0] > MOST_ERROR || it.told.shards[0] > MOST_ERROR).count();
    match (all.len(), misses) {
        (0, _) => bail!(
            "{}: no curve of any of these traces is in it; --published-as names another",
            file.display()
        ),
        (_, 0) => Ok(()),
        (_, misses) => bail!("{misses} traces lie further than {MOST_ERROR} from their published curves"),
    }
}
