//! The folder in which tests find published traces, which the project reads in place and does not
//! hold.

use std::path::PathBuf;

/// The folder of traces: `MILLPOND_TRACES`, or `../shared/traces` seen from the root of the
/// project. Where there is none, the reason is printed and the caller is to leave.
pub fn traces() -> Option<PathBuf> {
    let folder = match std::env::var_os("MILLPOND_TRACES") {
        Some(folder) => PathBuf::from(folder),
        None => PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/traces")),
    };
    if folder.join("STATS.csv").is_file() {
        return Some(folder);
    }
    println!(
        "skipped: no traces in {}; set MILLPOND_TRACES to the folder that holds STATS.csv",
        folder.display()
    );
    None
}

/// The file of the trace that the statistics call `name`: `NAME/NAME.csv.zst`, or for `arc_P2_512B`
/// the original of `arc_P2`.
pub fn trace_file(folder: &std::path::Path, name: &str) -> PathBuf {
    match name.strip_suffix("_512B") {
        Some(block) => {
            folder.join(block).join(format!("{}.lis.zst", block.strip_prefix("arc_").unwrap_or(block)))
        }
        None => folder.join(name).join(format!("{name}.csv.zst")),
    }
}
