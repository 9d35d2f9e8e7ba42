//! The report of a hostile-load test: a table for people, JSON for tools.

use std::fmt;

use base::ByteSize;
use bench::machine::Machine;
use serde::Serialize;
use serde_json::Value;

use super::attack::Attack;
use super::place::{number, tenant};
use super::watch::Most;

/// The result of a hostile-load test.
#[derive(Clone, Debug, Serialize)]
pub struct SuiteReport {
    /// All memory of the server.
    pub memory: ByteSize,
    /// Requests of the victim in a second.
    pub rate: f64,
    /// For how long the victim was measured at a time.
    pub seconds: f64,
    /// Number of times that each attack was made.
    pub rounds: usize,
    /// The seed of the random numbers.
    pub seed: u64,
    /// Workers of the server.
    pub workers: usize,
    /// The machine.
    pub machine: Machine,
    /// The attacks, in their order.
    pub attacks: Vec<AttackReport>,
}

/// The result of an attack, all rounds together.
#[derive(Clone, Debug, Serialize)]
pub struct AttackReport {
    /// Its name.
    pub name: &'static str,
    /// A description in a few words.
    pub about: &'static str,
    /// Rounds in which it was made.
    pub rounds: usize,
    /// The faults that were found.
    pub faults: Faults,
    /// The most that was seen of what has a limit.
    pub most: Most,
    /// The neighbour's traffic during the attack.
    pub neighbour: Neighbour,
    /// The p99 of the victim's reads alone, in microseconds, by round.
    pub alone_p99_us: Vec<f64>,
    /// And under attack.
    pub attacked_p99_us: Vec<f64>,
    /// Highest allowed ratio of the p99 under attack to the p99 alone, if the attack has one.
    pub aim: Option<f64>,
}

/// The faults of an attack, each with the round in which it was found.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Faults {
    /// The attack did not take place.
    pub attack: Vec<String>,
    /// The server is gone, another, does not answer its operators, or complains.
    pub server: Vec<String>,
    /// The victim was given wrong values, none, or refused.
    pub values: Vec<String>,
    /// Keys of the victim are gone.
    pub kept: Vec<String>,
    /// Limits of connections or of tenants' memory did not hold.
    pub limits: Vec<String>,
    /// The bill or the resident memory was above its bound.
    pub memory: Vec<String>,
    /// Resources that the attack took and that were not given back after it.
    pub returned: Vec<String>,
}

/// The neighbour's traffic during an attack.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Neighbour {
    /// For how long, in seconds.
    pub seconds: f64,
    /// Its requests that were answered.
    pub requests: u64,
    /// Bytes received from it.
    pub received_bytes: u64,
    /// Bytes sent to it.
    pub sent_bytes: u64,
    /// Connections accepted from it.
    pub accepted: u64,
    /// Those of them that were refused, because there were enough.
    pub refused: u64,
    /// Items of its own that had to leave.
    pub evictions: u64,
}

/// The middle of several figures, and the least and the most of them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// Half of them are above.
    pub median: f64,
    /// The least.
    pub least: f64,
    /// The most.
    pub most: f64,
}

impl Spread {
    /// Of figures that are numbers; nothing where there is none.
    fn of(figures: impl Iterator<Item = f64>) -> Option<Self> {
        let mut all: Vec<f64> = figures.filter(|figure| figure.is_finite()).collect();
        all.sort_by(f64::total_cmp);
        let (least, most) = (*all.first()?, *all.last()?);
        let middle = all.len() / 2;
        let median =
            if all.len().is_multiple_of(2) { (all[middle - 1] + all[middle]) / 2.0 } else { all[middle] };
        Some(Self { median, least, most })
    }
}

impl Neighbour {
    /// Subtracts one page of statistics from a later one.
    pub(super) fn between(before: &Value, after: &Value, time: std::time::Duration) -> Self {
        let grown = |of: &dyn Fn(&Value) -> u64| of(after).saturating_sub(of(before));
        let its = |name: &'static str| grown(&|stats| number(tenant(stats, "neighbour"), name));
        let accepted = |stats: &Value| {
            let listeners = stats.get("listeners").and_then(Value::as_array).into_iter().flatten();
            let of_neighbour =
                listeners.filter(|one| one.get("tenant").and_then(Value::as_str) == Some("neighbour"));
            of_neighbour.filter_map(|one| Some(number(one.get("counters")?, "accepted_connections"))).sum()
        };
        Self {
            seconds: time.as_secs_f64(),
            requests: its("requests"),
            received_bytes: its("received_bytes"),
            sent_bytes: its("sent_bytes"),
            accepted: grown(&accepted),
            refused: its("refused_connections"),
            evictions: its("evictions"),
        }
    }

    fn add(&mut self, other: &Self) {
        self.seconds += other.seconds;
        self.requests += other.requests;
        self.received_bytes += other.received_bytes;
        self.sent_bytes += other.sent_bytes;
        self.accepted += other.accepted;
        self.refused += other.refused;
        self.evictions += other.evictions;
    }
}

impl Faults {
    /// All of them by what they are about.
    fn all(&self) -> [(&'static str, &Vec<String>); 7] {
        [
            ("attack", &self.attack),
            ("server", &self.server),
            ("values", &self.values),
            ("keys", &self.kept),
            ("limits", &self.limits),
            ("memory", &self.memory),
            ("given back", &self.returned),
        ]
    }

    /// Returns whether there are no faults.
    pub(super) fn is_empty(&self) -> bool {
        self.all().iter().all(|(_, faults)| faults.is_empty())
    }

    fn add(&mut self, round: usize, other: &Self) {
        let pairs = [
            (&mut self.attack, &other.attack),
            (&mut self.server, &other.server),
            (&mut self.values, &other.values),
            (&mut self.kept, &other.kept),
            (&mut self.limits, &other.limits),
            (&mut self.memory, &other.memory),
            (&mut self.returned, &other.returned),
        ];
        for (all, new) in pairs {
            all.extend(new.iter().map(|fault| format!("round {}: {fault}", round + 1)));
        }
    }
}

impl AttackReport {
    pub(super) fn new(attack: &Attack) -> Self {
        Self {
            name: attack.name,
            about: attack.about,
            rounds: 0,
            faults: Faults::default(),
            most: Most::default(),
            neighbour: Neighbour::default(),
            alone_p99_us: Vec::new(),
            attacked_p99_us: Vec::new(),
            aim: attack.aim,
        }
    }

    pub(super) fn add(
        &mut self,
        round: usize,
        faults: &Faults,
        most: &Most,
        neighbour: &Neighbour,
        (alone, attacked): (f64, f64),
    ) {
        self.rounds += 1;
        self.faults.add(round, faults);
        self.most.add(most);
        self.neighbour.add(neighbour);
        self.alone_p99_us.push(alone);
        self.attacked_p99_us.push(attacked);
    }

    /// Returns the ratio of the victim's p99 under attack to its p99 alone, over the rounds.
    pub fn ratio(&self) -> Option<Spread> {
        Spread::of(
            self.alone_p99_us.iter().zip(&self.attacked_p99_us).map(|(alone, attacked)| attacked / alone),
        )
    }

    /// Returns whether the victim was as fast as the attack's aim asks; `None` without an aim.
    pub fn is_fast(&self) -> Option<bool> {
        Some(self.ratio()?.median <= self.aim?)
    }

    /// Returns whether the server withstood the attack, speed aside.
    pub fn is_withstood(&self) -> bool {
        self.rounds > 0 && self.faults.is_empty()
    }
}

impl SuiteReport {
    /// Returns whether the server withstood all attacks, speed aside.
    pub fn is_withstood(&self) -> bool {
        self.attacks.iter().all(AttackReport::is_withstood)
    }
}

/// The table's columns: names and widths.
const COLUMNS: [(&str, usize); 16] = [
    ("attack", 12),
    ("requests/s", 10),
    ("MB/s in", 8),
    ("MB/s out", 8),
    ("accepted", 9),
    ("refused", 8),
    ("server", 7),
    ("values", 7),
    ("keys", 7),
    ("limits", 7),
    ("conns", 8),
    ("resident", 11),
    ("back", 7),
    ("alone", 7),
    ("attacked", 8),
    ("p99 ratio", 24),
];

impl fmt::Display for SuiteReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "A server with {} and {} workers; the victim asks {} times a second; {} rounds of {} s alone and {} s under attack; seed {}.",
            self.memory, self.workers, self.rate, self.rounds, self.seconds, self.seconds, self.seed
        )?;
        writeln!(
            f,
            "{} x {}, Linux {}, deep sleep {}.\n",
            self.machine.cpus,
            self.machine.cpu_model,
            self.machine.kernel,
            if self.machine.wakes_fast { "off" } else { "allowed" }
        )?;
        for (name, width) in COLUMNS {
            write!(f, "{name:<width$} ")?;
        }
        writeln!(f)?;
        for attack in &self.attacks {
            for (cell, (_, width)) in attack.cells().iter().zip(COLUMNS) {
                write!(f, "{cell:<width$} ")?;
            }
            writeln!(f)?;
        }
        writeln!(f)?;
        for attack in &self.attacks {
            for (what, faults) in attack.faults.all() {
                for fault in faults {
                    writeln!(f, "FAILED  {}, {what}: {fault}", attack.name)?;
                }
            }
        }
        self.legend(f)
    }
}

impl SuiteReport {
    fn legend(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for attack in &self.attacks {
            writeln!(f, "{:<12} {}", attack.name, attack.about)?;
        }
        writeln!(
            f,
            "\nconns: most of the neighbour's at a time, of those that it may have; resident: most MiB of the process without its file, of its bound; alone, \
             attacked: p99 of the victim's reads in microseconds, median of the rounds; ratio: round by round, median (least-most)."
        )?;
        if let Some(caution) = self.machine.caution() {
            writeln!(f, "note: {caution}")?;
        }
        Ok(())
    }
}

impl AttackReport {
    /// A row of the table.
    fn cells(&self) -> [String; 16] {
        let did = &self.neighbour;
        let secs = did.seconds.max(1e-9);
        let ok = |faults: &[&Vec<String>]| {
            let is_good = faults.iter().all(|faults| faults.is_empty());
            let text = if self.rounds == 0 {
                "-"
            } else if is_good {
                "ok"
            } else {
                "FAILED"
            };
            text.to_owned()
        };
        let mib = |bytes: u64| bytes >> 20;
        let us = |figures: &[f64]| {
            Spread::of(figures.iter().copied())
                .map_or_else(|| "-".to_owned(), |spread| format!("{:.0}", spread.median))
        };
        let (faults, most) = (&self.faults, &self.most);
        [
            self.name.to_owned(),
            format!("{:.0}", did.requests as f64 / secs),
            format!("{:.1}", did.received_bytes as f64 / 1e6 / secs),
            format!("{:.1}", did.sent_bytes as f64 / 1e6 / secs),
            did.accepted.to_string(),
            did.refused.to_string(),
            ok(&[&faults.server, &faults.attack]),
            ok(&[&faults.values]),
            ok(&[&faults.kept]),
            ok(&[&faults.limits, &faults.memory]),
            format!("{}/{}", most.neighbour_connections.most, most.neighbour_connections.limit),
            format!("{}/{}", mib(most.resident_bytes.most), mib(most.resident_bytes.limit)),
            ok(&[&faults.returned]),
            us(&self.alone_p99_us),
            us(&self.attacked_p99_us),
            self.ratio_cell(),
        ]
    }

    fn ratio_cell(&self) -> String {
        let Some(ratio) = self.ratio() else { return "-".to_owned() };
        let verdict = match self.is_fast() {
            Some(true) => "ok",
            Some(false) => "missed",
            None => "",
        };
        format!("{:.2} ({:.2}-{:.2}) {verdict}", ratio.median, ratio.least, ratio.most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(aim: Option<f64>) -> AttackReport {
        let attack = super::super::attack::ATTACKS.iter().find(|attack| attack.name == "reads");
        AttackReport { aim, ..AttackReport::new(attack.expect("an attack")) }
    }

    #[test]
    fn speed_is_judged_by_the_median_of_the_rounds_and_nothing_else_is() {
        let mut judged = report(Some(1.5));
        assert!(!judged.is_withstood(), "nothing was seen yet");
        for (round, attacked) in [140.0, 900.0, 150.0].into_iter().enumerate() {
            judged.add(round, &Faults::default(), &Most::default(), &Neighbour::default(), (100.0, attacked));
        }
        let ratio = judged.ratio().expect("figures");
        assert_eq!(ratio, Spread { median: 1.5, least: 1.4, most: 9.0 });
        assert_eq!((judged.is_fast(), judged.is_withstood()), (Some(true), true));
        judged.add(3, &Faults::default(), &Most::default(), &Neighbour::default(), (100.0, 160.0));
        assert_eq!((judged.is_fast(), judged.is_withstood()), (Some(false), true), "slow is no failure");
        assert_eq!(AttackReport { aim: None, ..judged }.is_fast(), None);
    }

    #[test]
    fn every_fault_fails_and_is_shown_with_its_round() {
        let fault = || vec!["a fault".to_owned()];
        let none = Faults::default;
        for (faults, shown) in [
            (Faults { attack: fault(), ..none() }, "attack"),
            (Faults { server: fault(), ..none() }, "server"),
            (Faults { values: fault(), ..none() }, "values"),
            (Faults { kept: fault(), ..none() }, "keys"),
            (Faults { limits: fault(), ..none() }, "limits"),
            (Faults { memory: fault(), ..none() }, "memory"),
            (Faults { returned: fault(), ..none() }, "given back"),
        ] {
            let mut attack = report(None);
            attack.add(0, &none(), &Most::default(), &Neighbour::default(), (1.0, 1.0));
            attack.add(1, &faults, &Most::default(), &Neighbour::default(), (1.0, f64::NAN));
            let report = SuiteReport {
                memory: ByteSize::mib(64),
                rate: 1.0,
                seconds: 1.0,
                rounds: 2,
                seed: 1,
                workers: 1,
                machine: Machine::here(&bench::machine::WakeFast::not_held(), None),
                attacks: vec![attack],
            };
            assert!(!report.is_withstood());
            let text = report.to_string();
            assert!(text.contains(&format!("FAILED  reads, {shown}: round 2: a fault")), "{text}");
            assert!(
                text.lines().any(|line| line.starts_with("reads ") && line.contains(" FAILED ")),
                "{text}"
            );
        }
    }
}
