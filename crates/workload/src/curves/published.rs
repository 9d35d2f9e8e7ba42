//! Curves against published ones of the same trace.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use anyhow::{Context, Result, bail};
use curve::{Estimator, Shards, StackDistance, Unit};
use serde::Serialize;

use super::Source;
use crate::trace::decompressed;

/// The distance of our curve from the published points.
#[derive(Clone, Debug, Serialize)]
pub struct PublishedError {
    /// The name under which the curve was published.
    pub published: String,
    /// Points of it.
    pub points: usize,
    /// Mean and largest distance of the exact curve from them.
    pub exact: [f64; 2],
    /// The same of SHARDS.
    pub shards: [f64; 2],
}

/// A published miss ratio of LRU.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Published {
    /// The cache's size: in items where they are told, or else as a share of all keys.
    items: Option<f64>,
    share: Option<f64>,
    miss_ratio: f64,
}

/// The points of a published curve. The file is CSV, packed or not, whose first line names its
/// columns: `trace`; `cache_objects`, or `frac_of_unique` or `frac_of_footprint`; `lru_miss_ratio`
/// or `miss_ratio`; and where it has `algo`, lines of other policies than LRU are passed over.
fn read(file: &Path, trace: &str) -> Result<Vec<Published>> {
    let opened = File::open(file).with_context(|| file.display().to_string())?;
    let mut lines = BufReader::new(decompressed(&file.to_string_lossy(), Box::new(opened))?).lines();
    let header = lines.next().transpose()?.unwrap_or_default();
    let columns: Vec<&str> = header.split(',').collect();
    let column = |names: &[&str]| names.iter().find_map(|name| columns.iter().position(|it| it == name));
    let (Some(name), Some(miss_ratio)) = (column(&["trace"]), column(&["lru_miss_ratio", "miss_ratio"]))
    else {
        bail!("{}: the first line names no columns trace and miss_ratio: `{header}`", file.display());
    };
    let (algo, items) = (column(&["algo"]), column(&["cache_objects"]));
    let share = column(&["frac_of_unique", "frac_of_footprint"]);
    let mut points = Vec::new();
    for (number, line) in (2..).zip(lines) {
        let line = line?;
        let fields: Vec<&str> = line.split(',').collect();
        let is_lru = algo.is_none_or(|algo| fields.get(algo) == Some(&"LRU"));
        if !is_lru || fields.get(name) != Some(&trace) {
            continue;
        }
        let value = |column: usize| -> Result<f64> {
            let field = fields.get(column).copied().unwrap_or_default();
            field.parse().with_context(|| format!("{}, line {number}: `{field}`", file.display()))
        };
        points.push(Published {
            items: items.map(value).transpose()?,
            share: share.map(value).transpose()?,
            miss_ratio: value(miss_ratio)?,
        });
    }
    Ok(points)
}

/// Holds the exact curve of a trace, and that of SHARDS with `keys` keys, against the one that
/// `file` has under the name `published`. A trace is compared at the sizes in items; one that
/// stands for a longer one, of which `all` of its keys would be all, at the same shares of these.
/// `None` where the file has no curve of that name.
///
/// # Errors
/// Where a file cannot be read.
pub fn compare(
    trace: &Path,
    source: &Source,
    (file, published, all): (&Path, &str, Option<u64>),
    keys: usize,
) -> Result<Option<PublishedError>> {
    let points = read(file, published)?;
    if points.is_empty() {
        return Ok(None);
    }
    let mut exact = StackDistance::new(Unit::Items);
    let mut shards = Shards::fixed_size(Unit::Items, keys);
    source.feed(trace, &mut [&mut exact, &mut shards])?;
    let size = |point: &Published| match all {
        Some(all) => point.share.map(|share| (share * all as f64).floor()),
        None => point.items.or_else(|| point.share.map(|share| (share * exact.keys() as f64).floor())),
    };
    let off = |estimator: &dyn Estimator| {
        let curve = estimator.curve();
        let errors: Vec<f64> = points
            .iter()
            .filter_map(|point| Some((curve.miss_ratio(size(point)?) - point.miss_ratio).abs()))
            .collect();
        let largest = errors.iter().copied().fold(0.0, f64::max);
        [errors.iter().sum::<f64>() / errors.len().max(1) as f64, largest]
    };
    let (exact, shards) = (off(&exact), off(&shards));
    Ok(Some(PublishedError { published: published.to_owned(), points: points.len(), exact, shards }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::Builder::new().suffix(".csv").tempfile().unwrap();
        std::fs::write(file.path(), text).unwrap();
        file
    }

    /// Ten keys in a loop, which a cache of ten holds and one of nine misses.
    #[test]
    fn published_points_are_found_by_name_and_compared_at_their_sizes() {
        let keys: Vec<String> = (0..1_000).map(|request| (request % 10).to_string()).collect();
        let trace = file(&format!("key\n{}\n", keys.join("\n")));
        let own = file(
            "trace,cache_objects,frac_of_unique,lru_miss_ratio\nother,9,0.9,0.5\nloop,9,0.9,1\nloop,10,1,0.03\n",
        );
        let compared =
            compare(trace.path(), &Source::default(), (own.path(), "loop", None), 64).unwrap().unwrap();
        assert_eq!(compared.points, 2);
        assert!(
            (compared.exact[0] - 0.01).abs() < 1e-9 && (compared.exact[1] - 0.02).abs() < 1e-9,
            "{compared:?}"
        );
        assert_eq!(compared.shards, compared.exact, "so few keys are all followed");
        let text = "dataset,trace,algo,cache_objects,frac_of_footprint,requests,miss_ratio\n\
                    x,y,LRU,900000,0.9,7,1\nx,y,ARC,900000,0.9,7,0.2\n";
        let stand_in = file(text);
        let compared =
            compare(trace.path(), &Source::default(), (stand_in.path(), "y", Some(10)), 64).unwrap().unwrap();
        assert_eq!((compared.points, compared.exact), (1, [0.0, 0.0]));
        assert!(
            compare(trace.path(), &Source::default(), (own.path(), "nobody", None), 64).unwrap().is_none()
        );
        let wrong = compare(trace.path(), &Source::default(), (trace.path(), "loop", None), 64).unwrap_err();
        assert!(wrong.to_string().contains("names no columns"), "{wrong}");
    }
}
