//! Looks at a server every second, and prints its memory, its misses and its curve. With a limit in
//! MiB as a further argument, it sets that limit first.
//!
//! ```text
//! cargo run --release -p millpond-agent --example look -- redis://localhost:6379 window=1 pause=30
//! ```

use std::time::Duration;

use control::amounts::{memory, of_memory};
use millpond_agent::Instance;
use millpond_agent::targets::{RedisLearning, Target, TargetSettings};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let usage = "usage: look ADDRESS [window=SECS] [pause=SECS] [way=ages|monitor|both] [every=SECS] \
                 [keys=COUNT] [looks=COUNT] [limit=MIB]";
    let target = Target::parse(&arguments.next().ok_or(usage)?)?;
    let (mut settings, mut looks, mut limit) = (TargetSettings::default(), u64::MAX, None);
    for argument in arguments {
        let (name, value) = argument.split_once('=').ok_or(usage)?;
        let secs = || value.parse().map(Duration::from_secs_f64);
        match name {
            "window" => settings.sampling.window = Some(secs()?),
            "pause" => settings.sampling.pause = Some(secs()?),
            "every" => settings.sampling.ages_every = secs()?,
            "keys" => settings.sampling.ages_keys = value.parse()?,
            "looks" => looks = value.parse()?,
            "limit" => limit = Some(value.parse::<u64>()? << 20),
            "way" => {
                settings.sampling.redis = match value {
                    "ages" => RedisLearning::Ages,
                    "monitor" => RedisLearning::Monitor,
                    "both" => RedisLearning::Both,
                    _ => return Err(usage.into()),
                }
            }
            _ => return Err(usage.into()),
        }
    }
    let mut instance = target.open(settings)?;
    if let Some(limit) = limit {
        instance.resize(&of_memory(limit), &[])?;
    }
    for _ in 0..looks {
        match instance.look() {
            Ok(look) => {
                let pool = look.pools.first().ok_or("no pool")?;
                println!(
                    "{} {}: limit {}, in use {}, {} reads, {} misses",
                    look.instance.kind,
                    look.instance.version,
                    memory(&look.limits),
                    memory(&look.used),
                    pool.reads,
                    pool.misses
                );
                if let Some(curve) = &pool.curve {
                    let points = control::curve::read(curve)?;
                    let points: Vec<String> =
                        points.iter().map(|(size, missed)| format!("{size}:{missed:.4}")).collect();
                    println!("  {:.0} samples: {}", curve.samples, points.join(" "));
                }
            }
            Err(error) => println!("{error}: {:?}", std::error::Error::source(&error)),
        }
        base::thread::sleep(Duration::from_secs(1));
    }
    Ok(())
}
