//! `millpond curve`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use base::ByteSize;
use clap::Args;
use curve::{Correction, Unit};
use millpond::PolicyKind;
use workload::curves::{
    CurveOptions, CurveReport, KeySizes, Method, Source, Writes, answer, chart, learn, traces_in,
};
use workload::engine_memory::EngineMemory;
use workload::plot;
use workload::replay::ReplayOptions;
use workload::trace::Column;

use super::{curve_compare, print_json};

/// Flags of `millpond curve`.
#[derive(Clone, Debug, Args)]
pub struct CurveArgs {
    /// Trace file: CSV with named columns, list of keys, ARC .lis, JSON lines with hash_ids, or
    /// CacheLib's CSV; plain, gzip or zstd. Or a folder of traces: every NAME/NAME.csv and every
    /// .lis in it
    #[arg(value_name = "TRACE", required = true)]
    pub traces: Vec<PathBuf>,
    /// Method that estimates the curve: exact, shards, shards-fixed-rate, ghost, mini, shadow or
    /// tail [default: shards; mini for policies other than lru]
    #[arg(long, value_name = "NAME")]
    pub method: Option<Method>,
    /// Policy whose curve is shown: lru, or any other policy of the engine, such as s3-fifo, by
    /// simulation in miniature. May be given several times
    #[arg(long, value_name = "POLICY", default_value = "lru")]
    pub policy: Vec<PolicyKind>,
    /// Show the memory that reaches this share of hits, such as 90% or 0.9. It is read from the
    /// curve and then tried: the trace is replayed through an engine with that memory, and with
    /// more or less if its share of hits differs
    #[arg(long, value_name = "SHARE", value_parser = hits, conflicts_with_all = ["csv", "compare", "compare_policies", "published"])]
    pub hits: Option<f64>,
    /// With --hits: no larger engine is tried; 0 = none at all, and the curve alone answers
    #[arg(long, value_name = "SIZE", default_value = "2GiB", requires = "hits")]
    pub most_tried: ByteSize,
    /// Unit of sizes: bytes or items [default: bytes where the trace or --value-size tells sizes,
    /// else items]
    #[arg(long, value_name = "UNIT", value_parser = unit)]
    pub unit: Option<Unit>,
    /// The share of keys that is followed
    /// [default: 0.01 for shards-fixed-rate, 1/32 for ghost, about 16,384 keys for mini]
    #[arg(long, value_name = "SHARE", value_parser = rate)]
    pub rate: Option<f64>,
    /// Keys that shards follows at most
    #[arg(long, value_name = "N", default_value_t = curve::shards::DEFAULT_KEYS)]
    pub keys: usize,
    /// Correction of a sample that has more or fewer requests than its share: none, count
    /// (SHARDS_adj) or regression. The error that is told holds for count
    #[arg(long, value_name = "HOW", default_value = "count")]
    pub correction: Correction,
    /// The largest cache that is asked about, in bytes or with a unit; or in items
    /// [default: one that holds all keys]
    #[arg(long, value_name = "SIZE")]
    pub max_size: Option<Amount>,
    /// Sizes that ghost tells apart, and at most 24 that mini simulates
    #[arg(long, value_name = "N", default_value_t = curve::ghost::DEFAULT_TICKS)]
    pub ticks: usize,
    /// With shadow and tail: the size of the cache around which they tell the curve
    /// [default: a tenth of the largest]
    #[arg(long, value_name = "SIZE")]
    pub at: Option<Amount>,
    /// Amount of memory to add when the report says what more memory would save, in bytes or with a
    /// unit; or in items [default: 1GiB, or a tenth of a small curve]
    #[arg(long, value_name = "SIZE")]
    pub more: Option<Amount>,
    /// Effect of writes: count (requests as reads are), refresh (they make the key recent only),
    /// ignore, or fill (they put in what reads missed; a read that tells no size puts nothing in).
    /// Except with count, hits and misses are those of reads [default: fill for the log of a server
    /// or the events of a cache, which are known by their columns, else count]
    #[arg(long, value_name = "HOW")]
    pub writes: Option<Writes>,
    /// Size of a value where the trace does not tell, in bytes or with a unit
    /// [default: 100, where bytes are asked for]
    #[arg(long, value_name = "SIZE")]
    pub value_size: Option<ByteSize>,
    /// Bytes that a cache spends on an item besides its value; engine = what Millpond does, with
    /// which sizes are the memory of a whole cache [default: engine; 0 where curves are compared]
    #[arg(long, value_name = "SIZE")]
    pub overhead: Option<Overhead>,
    /// No more than N requests of each trace [default: all]
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,
    /// The columns of a trace without a header line, such as ts,key,size,op (`-` passes one over)
    /// [default: the first line names them]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub columns: Vec<Column>,
    /// Of a trace with a column `tenant`, such as a server's request log: read the requests of this
    /// tenant alone [default: all, each tenant with keys of its own]
    #[arg(long, value_name = "NAME")]
    pub tenant: Option<String>,
    /// Names the sample: another seed follows other keys
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Draw the curves as FILE, an .svg or .png, with hulls and cliffs
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
    /// With --plot: sizes on a logarithmic axis
    #[arg(long, requires = "plot")]
    pub log: bool,
    /// Print reports with all points as JSON
    #[arg(long, conflicts_with = "csv")]
    pub json: bool,
    /// Print the points as CSV: trace, policy, unit, size, miss ratio, that of the hull
    #[arg(long)]
    pub csv: bool,
    /// Instead: how far shards and ghost lie from the exact curve of each trace, over items and
    /// over bytes. Fails where one misses the bound of 0.01
    #[arg(long, conflicts_with_all = ["method", "plot", "csv", "unit"])]
    pub compare: bool,
    /// Instead: how far simulation in miniature lies from simulation in full, over items, for each
    /// --policy, or all that the engine has where none is named
    #[arg(long, conflicts_with_all = ["method", "plot", "csv", "unit", "compare"])]
    pub compare_policies: bool,
    /// Instead: how far the exact curve and shards lie from the curve of LRU that FILE has under
    /// the trace's name, at its sizes in items. FILE is CSV with the columns trace, cache_objects
    /// and miss_ratio (or lru_miss_ratio). Fails where the mean is above 0.01
    #[arg(long, value_name = "FILE", conflicts_with_all = ["method", "plot", "csv", "unit", "compare", "compare_policies"])]
    pub published: Option<PathBuf>,
    /// With --published: the name there [default: the trace's]
    #[arg(long, value_name = "NAME", requires = "published")]
    pub published_as: Option<String>,
    /// With --published, for a trace that stands for a longer one: how many of its keys stand for
    /// all keys there. Sizes are then the same shares of these
    #[arg(long, value_name = "N", requires = "published")]
    pub published_keys: Option<u64>,
}

/// A size of a cache: bytes where it has a unit of them, else whatever the curve counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Amount {
    amount: u64,
    is_bytes: bool,
}

impl FromStr for Amount {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let amount = text.parse::<ByteSize>().map_err(|error| error.to_string())?.as_u64();
        Ok(Self { amount, is_bytes: text.trim().ends_with(|c: char| c.is_ascii_alphabetic()) })
    }
}

/// The memory that a cache spends on an item besides its key and value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overhead {
    /// The engine's own overhead.
    Engine,
    /// This many bytes for each item.
    Bytes(ByteSize),
}

impl FromStr for Overhead {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "engine" {
            return Ok(Self::Engine);
        }
        text.parse().map(Self::Bytes).map_err(|error| format!("{error}; or engine"))
    }
}

/// A hit ratio: a percentage, or a share below 1.
fn hits(text: &str) -> Result<f64, String> {
    let share = match text.trim().strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().ok().map(|percent| percent / 100.0),
        None => text.trim().parse::<f64>().ok(),
    };
    share
        .filter(|share| *share > 0.0 && *share < 1.0)
        .ok_or_else(|| format!("`{text}` is not a hit ratio: give one between 0 and 1, such as 90% or 0.9"))
}

fn unit(text: &str) -> Result<Unit, String> {
    match text {
        "bytes" => Ok(Unit::Bytes),
        "items" => Ok(Unit::Items),
        _ => Err(format!("`{text}` is neither bytes nor items")),
    }
}

/// A share as a number, or as one number over another.
fn rate(text: &str) -> Result<f64, String> {
    let number = |text: &str| text.trim().parse::<f64>().ok();
    let share = match text.split_once('/') {
        Some((part, whole)) => number(part).zip(number(whole)).map(|(part, whole)| part / whole),
        None => number(text),
    };
    share.filter(|share| *share > 0.0 && *share <= 1.0).ok_or_else(|| {
        format!("`{text}` is not a share of keys: give a number above 0 and at most 1, such as 0.01 or 1/32")
    })
}

impl CurveArgs {
    fn source(&self) -> Result<Source> {
        let small = |size: ByteSize, what| {
            u32::try_from(size.as_u64()).ok().with_context(|| format!("{what} of {size} is more than 4 GiB"))
        };
        let overhead = match self.overhead {
            Some(Overhead::Bytes(bytes)) => bytes,
            Some(Overhead::Engine) | None => ByteSize::new(0),
        };
        Ok(Source {
            value_size: small(self.value_size.unwrap_or(ByteSize::new(100)), "an item")?,
            overhead: small(overhead, "an overhead")?,
            engine: None,
            sizes: None,
            bimodal: false,
            writes: self.writes.unwrap_or_default(),
            limit: self.limit,
            columns: (!self.columns.is_empty()).then(|| self.columns.clone()),
            tenant: self.tenant.clone(),
            seed: self.seed,
        })
    }

    fn options(&self, policy: PolicyKind) -> Result<CurveOptions> {
        let is_lru = matches!(policy, PolicyKind::Lru { .. });
        let method = match self.method {
            Some(method) if !is_lru && method != Method::Mini => {
                bail!("--method {method} knows LRU alone; {policy} is simulated in miniature: --method mini")
            }
            Some(method) => method,
            None if is_lru => Method::Shards,
            None => Method::Mini,
        };
        if self.ticks == 0 {
            bail!("--ticks 0 asks about no size: give 1 or more");
        }
        Ok(CurveOptions {
            method,
            policy,
            unit: self.unit,
            rate: self.rate,
            keys: self.keys,
            max_size: self.max_size.map(|size| size.amount),
            ticks: self.ticks,
            correction: self.correction,
            at: self.at.map(|size| size.amount),
        })
    }

    /// The unit of sizes in a trace's curve.
    fn unit_of(&self, trace: &Path, source: &Source) -> Result<Unit> {
        let tells = source.tells_sizes(trace)?;
        let unit = match self.unit {
            Some(unit) => unit,
            None if tells || self.value_size.is_some() => Unit::Bytes,
            None => Unit::Items,
        };
        let name = trace.display();
        if self.hits.is_some() && (unit == Unit::Items || !tells && self.value_size.is_none()) {
            bail!(
                "{name} tells no sizes, so that no memory can be told: give --value-size SIZE, the mean size of its values"
            );
        }
        let sizes = [("max-size", self.max_size), ("at", self.at), ("more", self.more)];
        for (flag, size) in sizes.into_iter().filter_map(|(flag, size)| Some((flag, size?))) {
            if unit == Unit::Items && size.is_bytes {
                let size = ByteSize::new(size.amount);
                bail!(
                    "--{flag} {size} is memory, but the curve of {name} counts items, {}: give a number of items, or --value-size SIZE \
                     and so bytes",
                    if tells { "as --unit asks for" } else { "for the trace tells no sizes" },
                );
            }
        }
        Ok(unit)
    }

    /// The report of one trace and policy.
    fn report(&self, trace: &Path, source: &Source, policy: PolicyKind) -> Result<CurveReport> {
        let mut source = source.clone();
        let unit = self.unit_of(trace, &source)?;
        let is_log = source.has_own_fills(trace)?;
        source.writes = self.writes.unwrap_or(if is_log { Writes::Fill } else { Writes::Count });
        if unit == Unit::Bytes && source.tells_sizes(trace)? {
            source.sizes = KeySizes::of(trace, &source)?.map(Arc::new);
        }
        if unit == Unit::Bytes && matches!(self.overhead, None | Some(Overhead::Engine)) {
            let examples = source.examples(trace)?;
            if !examples.is_empty() {
                source.engine = Some(Arc::new(EngineMemory::ask(policy, &examples)?));
            }
        }
        let mut report = learn(trace, &source, &CurveOptions { unit: Some(unit), ..self.options(policy)? })?;
        if let Some(hits) = self.hits {
            let replayed = ReplayOptions {
                policy,
                value_size: source.value_size,
                sizes: source.sizes.clone(),
                limit: self.limit,
                columns: source.columns.clone(),
                tenant: source.tenant.clone(),
                progress: !self.json,
                ..ReplayOptions::default()
            };
            let replayed = source.writes.replayed(is_log, &replayed);
            report.answer =
                Some(answer(&report.curve, trace, hits, source.writes, &replayed, self.most_tried)?);
        }
        Ok(report)
    }

    fn traces(&self) -> Result<Vec<PathBuf>> {
        Ok(self.traces.iter().map(|path| traces_in(path)).collect::<Result<Vec<_>>>()?.concat())
    }
}

/// Does what `millpond curve` says, and prints the report.
///
/// # Errors
/// Where flags contradict each other, a trace cannot be read, a picture cannot be written, or
/// `--compare` finds a curve that misses its bound.
pub fn execute(args: &CurveArgs, out: &mut dyn Write) -> Result<()> {
    let (source, traces) = (args.source()?, args.traces()?);
    if let Some(path) = &args.plot {
        plot::check_name(path)?;
    }
    if args.compare {
        return curve_compare::estimators(args, &source, &traces, out);
    }
    if args.compare_policies {
        return curve_compare::policies(args, &source, &traces, out);
    }
    if let Some(file) = &args.published {
        return curve_compare::published(args, file, &source, &traces, out);
    }
    let mut reports = Vec::new();
    for trace in &traces {
        for &policy in &args.policy {
            reports.push(args.report(trace, &source, policy)?);
        }
    }
    if let Some(path) = &args.plot {
        if reports.iter().any(|report| report.curve.unit() != reports[0].curve.unit()) {
            bail!("curves over bytes and over items do not fit into one picture: give --unit");
        }
        chart(&reports, args.log).write(path)?;
    }
    match &reports[..] {
        _ if args.csv => points(&reports, out),
        [report] if args.json => print_json(out, report),
        reports if args.json => print_json(out, &reports),
        reports => {
            for (i, report) in reports.iter().enumerate() {
                let more = args.more.map_or(report.default_more(), |more| more.amount);
                write!(out, "{}{}", if i == 0 { "" } else { "\n" }, report.table(more))?;
            }
            Ok(())
        }
    }
}

fn points(reports: &[CurveReport], out: &mut dyn Write) -> Result<()> {
    writeln!(out, "trace,policy,unit,size,miss_ratio,hull")?;
    for report in reports {
        let hull = report.curve.hull();
        let unit = if report.curve.unit() == Unit::Bytes { "bytes" } else { "items" };
        for point in report.curve.points() {
            let (size, misses) = (point.size, point.miss_ratio);
            let below = hull.miss_ratio(size as f64);
            writeln!(out, "{},{},{unit},{size},{misses:.6},{below:.6}", report.trace, report.policy)?;
        }
    }
    Ok(())
}
