//! A hostile-load test: a server of our own with two tenants, a victim with a steady load and a
//! neighbour from which the server is attacked, in every way that a client has.
//!
//! Each attack is checked by what the victim and an onlooker see: the process runs; every value of
//! the victim is the right one, and none is gone; limits of connections and memory hold; and when
//! the attack is over, everything is given back. How much slower the victim became is set against
//! the same load just before, round by round, because the speed of a machine that others use
//! changes from moment to moment.
//!
//! Server, victim and attackers are on one machine, so that an attacker could harm by taking
//! processors, which is not the server's doing. The server's workers have processors for
//! themselves, the attackers share those of the victim's clients and run only when these have
//! nothing to do. What the machine itself takes is measured by an attack on another process.

mod attack;
mod place;
mod report;
mod victim;
mod watch;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use base::{ByteSize, Clock};
use parking_lot::Mutex;
use rustix::thread::{CpuSet, sched_getaffinity};
use serde_json::Value;

pub use report::{AttackReport, Faults, Neighbour, Spread, SuiteReport};
pub use watch::{Bounded, Most};

use attack::{ATTACKS, Attack, Scene};
use bench::machine::{Machine, WakeFast};
use place::{NEIGHBOUR_CONNECTIONS, Place, number, tenant, tenant_limit};
use victim::{Seen, Victim};

/// Time for which an attack runs before the victim is measured.
const LEAD: Duration = Duration::from_millis(300);
/// Time for which an attack runs after the victim was measured.
const TRAIL: Duration = Duration::from_millis(200);
/// Longest time that the preparation of an attack may take.
const PREPARATION: Duration = Duration::from_secs(60);
/// The least memory with which the attacks make sense.
const LEAST_MEMORY: ByteSize = ByteSize::mib(64);

/// Options of a hostile-load test.
#[derive(Clone, Debug)]
pub struct SuiteOptions {
    /// The program that is run as `PROGRAM serve`.
    pub program: PathBuf,
    /// All memory of the server; each of its tenants may have three eighths.
    pub memory: ByteSize,
    /// Time for which the victim is measured, alone and again under each attack.
    pub time: Duration,
    /// Number of rounds, each of which makes every attack once.
    pub rounds: usize,
    /// Requests of the victim in a second.
    pub rate: f64,
    /// Names the random numbers.
    pub seed: u64,
    /// The attacks that are made; empty: all.
    pub only: Vec<String>,
    /// Shows progress on standard error.
    pub progress: bool,
}

/// Runs the attacks against a server.
///
/// # Errors
/// If the options make no sense or the server can't be started. Faults under attack are in
/// the report.
pub fn run(options: &SuiteOptions) -> Result<SuiteReport> {
    let chosen = chosen(&options.only)?;
    if options.rounds == 0 || options.time.is_zero() || options.memory < LEAST_MEMORY {
        bail!(
            "there is at least one round, which takes some time, and the server has at least {LEAST_MEMORY}"
        );
    }
    let wake = WakeFast::hold();
    let (for_server, for_clients) = processors()?;
    let mut suite = Suite::begin(options, &chosen, for_server, for_clients)?;
    let mut reports: Vec<AttackReport> = chosen.iter().map(|attack| AttackReport::new(attack)).collect();
    let rounds = (0..options.rounds).flat_map(|round| (0..chosen.len()).map(move |number| (round, number)));
    for (round, number) in rounds {
        let (attack, report) = (chosen[number], &mut reports[number]);
        if options.progress {
            eprintln!("round {} of {}: {}", round + 1, options.rounds, attack.name);
        }
        if !suite.round(attack, round, report)? {
            // What one attack broke is not to be held against the next.
            let cpus = suite.cpus.clone();
            drop(suite);
            suite = Suite::begin(options, &chosen, for_server, cpus)?;
        }
    }
    Ok(SuiteReport {
        memory: options.memory,
        rate: options.rate,
        seconds: options.time.as_secs_f64(),
        rounds: options.rounds,
        seed: options.seed,
        workers: for_server,
        machine: Machine::here(&wake, None),
        attacks: reports,
    })
}

fn chosen(names: &[String]) -> Result<Vec<&'static Attack>> {
    if let Some(unknown) = names.iter().find(|name| ATTACKS.iter().all(|attack| attack.name != **name)) {
        let known: Vec<&str> = ATTACKS.iter().map(|attack| attack.name).collect();
        bail!("there is no attack `{unknown}`: there are {}", known.join(", "));
    }
    Ok(ATTACKS
        .iter()
        .filter(|attack| names.is_empty() || names.iter().any(|name| name == attack.name))
        .collect())
}

/// Splits the processors: the number of those, from the first on, that the server's workers get,
/// and the list of those that the clients get.
fn processors() -> Result<(usize, Vec<usize>)> {
    let allowed = sched_getaffinity(None).context("asking for the processors")?;
    let all: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).collect();
    let for_server = (all.len() / 2).max(1);
    // Where there is one only, they share it.
    Ok((for_server, all.get(all.len() - for_server..).unwrap_or_default().to_vec()))
}

/// A server under attack.
struct Suite<'o> {
    options: &'o SuiteOptions,
    place: Place,
    /// The server that is attacked in place of it, to see what the machine takes.
    decoy: Option<Place>,
    victim: Arc<Victim>,
    cpus: Vec<usize>,
    base_files: u64,
}

impl<'o> Suite<'o> {
    fn begin(
        options: &'o SuiteOptions,
        chosen: &[&Attack],
        workers: usize,
        cpus: Vec<usize>,
    ) -> Result<Self> {
        let place = Place::start(&options.program, options.memory, workers)?;
        let decoy = match chosen.iter().any(|attack| attack.is_elsewhere) {
            true => Some(start_decoy(options, workers)?),
            false => None,
        };
        let limit = tenant_limit(options.memory);
        let victim = Victim::new(place.victim, limit, options.rate, options.seed, &cpus)?;
        let base_files = watch::base_files(&place)?;
        victim.load()?;
        Ok(Self { options, place, decoy, victim: Arc::new(victim), cpus, base_files })
    }

    /// Measures the victim alone, then under attack, and checks what was seen. Returns whether the
    /// server withstood the attack.
    fn round(&mut self, attack: &Attack, round: usize, report: &mut AttackReport) -> Result<bool> {
        self.place.set_rate(attack.is_rated).context("setting the neighbour's rate")?;
        let prepared = attack.prepare(&self.scene(attack, round));
        let mut unseen = Most::default();
        let alone = self.measure(&mut unseen, &mut Vec::new());
        let before = self.statistics(attack)?;
        let logged = self.place.served.log()?.len();

        let time = LEAD + self.options.time + TRAIL;
        let scene = Arc::new(Scene { until: after(time), ..self.scene(attack, round) });
        let begun = after(Duration::ZERO);
        let under_way = attack.begin(&scene, &self.cpus)?;
        base::thread::sleep(LEAD);
        let (mut most, mut faults) = (Most::default(), Faults::default());
        let attacked = self.measure(&mut most, &mut faults.server);
        faults.attack = under_way.finish();
        let took = Duration::from_nanos(after(Duration::ZERO) - begun);
        faults.attack.extend(prepared.err().map(|error| format!("{error:#}")));
        faults.returned = watch::await_return(&self.place, self.base_files);
        scene.left_open.lock().clear();
        self.judge_server(logged, &mut faults);
        faults.values = attacked.faults;
        // Where the victim is harmed without an attack, the figures say nothing.
        faults.values.extend(alone.faults.iter().map(|fault| format!("before the attack: {fault}")));
        faults.kept = self.victim.look();
        faults.limits = most.beyond_limits();
        faults.memory = most.beyond_memory();
        let after = self.statistics(attack);
        let neighbour = after.map(|after| {
            let evictions = |stats| number(tenant(stats, "victim"), "evictions");
            let evicted = evictions(&after.0).saturating_sub(evictions(&before.0));
            if evicted > 0 {
                faults.kept.push(format!("{evicted} items of the victim were evicted"));
            }
            Neighbour::between(&before.1, &after.1, took)
        });
        let neighbour = neighbour.unwrap_or_else(|error| {
            faults.server.push(format!("{error:#}"));
            Neighbour::default()
        });
        report.add(round, &faults, &most, &neighbour, (alone.p99_us, attacked.p99_us));
        Ok(faults.is_empty())
    }

    /// The server that is attacked.
    fn target(&self, attack: &Attack) -> &Place {
        self.decoy.as_ref().filter(|_| attack.is_elsewhere).unwrap_or(&self.place)
    }

    /// Reads the statistics of the server, and of the server that is attacked.
    fn statistics(&self, attack: &Attack) -> Result<(Value, Value)> {
        let own = self.place.served.stats()?;
        let of_target = if attack.is_elsewhere { self.target(attack).served.stats()? } else { own.clone() };
        Ok((own, of_target))
    }

    fn scene(&self, attack: &Attack, round: usize) -> Scene {
        let target = self.target(attack);
        Scene {
            neighbour: target.neighbour,
            tls: target.tls,
            admin: target.admin,
            limit: tenant_limit(self.options.memory),
            max_connections: NEIGHBOUR_CONNECTIONS,
            seed: self.options.seed.wrapping_add(round as u64),
            until: after(PREPARATION),
            left_open: Mutex::new(Vec::new()),
        }
    }

    /// Lets the victim ask at its rate, and looks at the server meanwhile.
    fn measure(&self, most: &mut Most, failures: &mut Vec<String>) -> Seen {
        let (victim, time) = (Arc::clone(&self.victim), self.options.time);
        let panicked = || Seen { p99_us: f64::NAN, faults: vec!["the victim's load panicked".to_owned()] };
        let Ok(thread) = base::thread::spawn("victim", move || victim.measure(time)) else {
            return panicked();
        };
        while !thread.is_finished() {
            if let Err(error) = most.look(&self.place)
                && failures.is_empty()
            {
                failures.push(format!("{error:#}"));
            }
            base::thread::sleep(watch::INTERVAL);
        }
        thread.join().unwrap_or_else(|_| panicked())
    }

    /// Checks that the server runs and has logged no error.
    fn judge_server(&mut self, logged: usize, faults: &mut Faults) {
        let served = &mut self.place.served;
        if let Some(status) = served.exit_status() {
            faults.server.push(format!("the server ended with {status}"));
        }
        let log = served.log().unwrap_or_default();
        let new = log.get(logged..).unwrap_or_default();
        let bad = new.lines().filter(|line| line.contains("ERROR") || line.contains("panicked"));
        faults.server.extend(bad.take(3).map(str::to_owned));
    }
}

/// A moment of the monotonic clock.
fn after(time: Duration) -> u64 {
    Clock::System.monotonic_nanos() + time.as_nanos() as u64
}

/// Starts a server that yields to everything else: threads inherit the policy of the idle thread
/// that starts them.
fn start_decoy(options: &SuiteOptions, workers: usize) -> Result<Place> {
    let (program, memory) = (options.program.clone(), options.memory);
    let start = move || {
        base::thread::run_when_idle()?;
        Place::start(&program, memory, workers)
    };
    let thread = base::thread::spawn("decoy", start).context("starting a thread")?;
    thread.join().map_err(|_| anyhow!("starting a server panicked; its message is above"))?
}
