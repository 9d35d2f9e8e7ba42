//! `millpond bench generate`.

use std::fs::OpenOptions;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use anyhow::{Context, Result};
use base::ByteSize;
use clap::Args;

use workload::generate::{CLUSTERS, GenerateOptions, generate, generate_zstd};

/// Flags of `millpond bench generate`.
#[derive(Clone, Debug, Args)]
pub struct GenerateArgs {
    /// File for the trace; packed by zstd if the name ends in .zst, plain CSV otherwise
    #[arg(long, value_name = "FILE", default_value = "sample-trace.csv.zst")]
    pub out: PathBuf,
    /// Overwrite the file if it is there
    #[arg(long)]
    pub force: bool,
    /// Number of requests
    #[arg(long, value_name = "N", default_value_t = GenerateOptions::default().requests)]
    pub requests: u32,
    /// Number of seconds that the requests span
    #[arg(long, value_name = "SECS", default_value_t = GenerateOptions::default().span_secs)]
    pub span: u32,
    /// Numbers of the clusters to take, such as 12,52 [default: all that --list shows]
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',')]
    pub clusters: Vec<u32>,
    /// At most how many requests an object gets on average; the clusters themselves, watched for a
    /// week, have up to 660
    #[arg(long, value_name = "N", default_value_t = GenerateOptions::default().max_frequency)]
    pub max_frequency: f64,
    /// Names the sample
    #[arg(long, value_name = "N", default_value_t = GenerateOptions::default().seed)]
    pub seed: u64,
    /// Show the clusters and their published statistics, and generate nothing
    #[arg(long)]
    pub list: bool,
}

/// Does what the flags of `millpond bench generate` say, and prints the report.
///
/// # Errors
/// Where the file cannot be written, or is there already.
pub fn execute(args: &GenerateArgs, out: &mut dyn Write) -> Result<()> {
    if args.list {
        return list(out);
    }
    let options = GenerateOptions {
        requests: args.requests,
        span_secs: args.span,
        clusters: args.clusters.clone(),
        max_frequency: args.max_frequency,
        seed: args.seed,
    };
    let name = args.out.display();
    let mut open = OpenOptions::new();
    open.write(true);
    if args.force {
        open.create(true).truncate(true)
    } else {
        open.create_new(true)
    };
    let file = open.open(&args.out).with_context(|| format!("creating {name} (--force overwrites)"))?;
    let mut file = BufWriter::new(file);
    let packed = args.out.extension().is_some_and(|extension| extension == "zst");
    let write = if packed { generate_zstd } else { generate };
    let done = write(&options, &mut file).with_context(|| format!("generating {name}"))?;
    file.flush().with_context(|| format!("writing {name}"))?;
    let footprint = ByteSize::new(done.footprint_bytes);
    writeln!(out, "{name}: {} requests for {} keys, footprint {footprint}", done.requests, done.keys)?;
    Ok(())
}

fn list(out: &mut dyn Write) -> Result<()> {
    writeln!(out, "cluster  key B  value B  k requests/s  zipf    used once  operations")?;
    for cluster in &CLUSTERS {
        let ops: Vec<String> = cluster.ops.iter().map(|(op, share)| format!("{op} {share:.2}")).collect();
        writeln!(
            out,
            "{:>7}  {:>5}  {:>7}  {:>12.2}  {:.4}  {:>7.2} %  {} ({})",
            cluster.number,
            cluster.key_size,
            cluster.value_size,
            cluster.kqps,
            cluster.zipf_alpha,
            cluster.one_hit_share * 100.0,
            ops.join(", "),
            cluster.note
        )?;
    }
    writeln!(
        out,
        "\nSource: Yang, Yue, Rashmi, OSDI 2020; github.com/twitter/cache-trace, 2020Mar.md, CC BY 4.0"
    )?;
    Ok(())
}
