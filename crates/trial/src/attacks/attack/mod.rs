//! The attacks on the server, each on threads of its own for a given time.

mod commands;
mod connections;
mod flood;
mod fuzz;
mod giants;
mod half_open;
mod peer;
mod slow;

use std::net::{SocketAddr, TcpStream};

use anyhow::{Context, Result};
use base::{ByteSize, Clock};
use parking_lot::Mutex;

/// Highest ratio that is allowed of the victim's p99 under attack to its p99 alone.
const AIM: f64 = 1.5;

/// An attack.
pub(super) struct Attack {
    pub(super) name: &'static str,
    /// A description in a few words.
    pub(super) about: &'static str,
    /// Highest allowed ratio of the victim's p99 under attack to its p99 alone. Only attacks in
    /// which a neighbour does what clients do, only far too much, have one.
    pub(super) aim: Option<f64>,
    /// True if the neighbour has a rate limit during the attack.
    pub(super) is_rated: bool,
    /// True if the attack goes to another server, the decoy.
    pub(super) is_elsewhere: bool,
    /// Writes what it needs.
    prepare: fn(&Scene) -> Result<()>,
    /// The work of each thread until the time is over; returns how often the thread did it.
    threads: &'static [fn(&Scene) -> Result<u64>],
}

const fn nothing(_: &Scene) -> Result<()> {
    Ok(())
}

/// The defaults of an attack.
const PLAIN: Attack = Attack {
    name: "",
    about: "",
    aim: None,
    is_rated: false,
    is_elsewhere: false,
    prepare: nothing,
    threads: &[],
};

/// All attacks, in the order in which they are made.
pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        name: "elsewhere",
        about: "the flood of reads goes to another server, which does all other work first",
        is_elsewhere: true,
        prepare: flood::prepare_reads,
        threads: &[flood::reads],
        ..PLAIN
    },
    Attack {
        name: "reads",
        about: "64 connections, 128 reads in flight on each",
        aim: Some(AIM),
        prepare: flood::prepare_reads,
        threads: &[flood::reads],
        ..PLAIN
    },
    Attack {
        name: "writes",
        about: "32 connections write values of 1 to 500 KiB, which evict each other",
        aim: Some(AIM),
        threads: &[flood::writes],
        ..PLAIN
    },
    Attack {
        name: "writes-elsewhere",
        about: "the flood of writes goes to another server, which does all other work first",
        is_elsewhere: true,
        threads: &[flood::writes],
        ..PLAIN
    },
    Attack {
        name: "rated",
        about: "the flood of reads, by a neighbour with a rate of 20,000 a second",
        aim: Some(AIM),
        is_rated: true,
        prepare: flood::prepare_reads,
        threads: &[flood::reads],
        ..PLAIN
    },
    Attack {
        name: "commands",
        about: "KEYS, SCAN, MGET, SUNION, ZUNION, HGETALL, LRANGE, metadump on 10,000s of entries",
        aim: Some(AIM),
        prepare: commands::prepare,
        threads: &[commands::expensive, commands::walks, commands::dumps],
        ..PLAIN
    },
    Attack {
        name: "flushes",
        about: "writes and FLUSHALL, again and again",
        aim: Some(AIM),
        threads: &[commands::flushes],
        ..PLAIN
    },
    Attack {
        name: "operators",
        about: "what only operators may do: CONFIG SET, ACL SETUSER, SHUTDOWN, DEBUG, CLIENT KILL, …",
        threads: &[commands::operators],
        ..PLAIN
    },
    Attack {
        name: "slow-senders",
        about: "100 connections send a byte at a time",
        threads: &[slow::senders],
        ..PLAIN
    },
    Attack {
        name: "slow-readers",
        about: "100 connections ask for 50 MB each; half read a byte at a time, half nothing",
        prepare: slow::prepare,
        threads: &[slow::readers],
        ..PLAIN
    },
    Attack {
        name: "connects",
        about: "connections are opened and closed as fast as that goes, by FIN and by RST",
        threads: &[connections::flood],
        ..PLAIN
    },
    Attack {
        name: "holds",
        about: "twice as many connections as the neighbour may have, held, and opened again when closed",
        threads: &[connections::hold],
        ..PLAIN
    },
    Attack {
        name: "giants",
        about: "values, keys, lines, counts and pipelines beyond every limit",
        prepare: slow::prepare,
        threads: &[giants::requests, giants::pipelines],
        ..PLAIN
    },
    Attack {
        name: "half-open",
        about: "100 connections stop within a request or a handshake and are silent",
        threads: &[half_open::silent],
        ..PLAIN
    },
    Attack {
        name: "resets",
        about: "clients reset their connections within replies of 16 MB",
        prepare: slow::prepare,
        threads: &[half_open::resets],
        ..PLAIN
    },
    Attack {
        name: "fuzz",
        about: "mutated requests in memcached's text, meta and binary protocols and RESP",
        threads: &[fuzz::requests],
        ..PLAIN
    },
    Attack {
        name: "garbage",
        about: "mutated handshakes to the listener with TLS, mutated HTTP to the admin server",
        threads: &[fuzz::handshakes, fuzz::pages],
        ..PLAIN
    },
];

/// The target of an attack, and its deadline.
pub(super) struct Scene {
    /// The neighbour's listener for memcached's protocols and Redis's.
    pub(super) neighbour: SocketAddr,
    pub(super) tls: SocketAddr,
    pub(super) admin: SocketAddr,
    /// The neighbour's memory limit.
    pub(super) limit: ByteSize,
    pub(super) max_connections: u64,
    pub(super) seed: u64,
    /// In nanoseconds of the monotonic clock.
    pub(super) until: u64,
    /// Connections that outlast the attack, so that it is the server that must end them.
    pub(super) left_open: Mutex<Vec<TcpStream>>,
}

/// Extension of an attack that has done nothing yet, because the processors were never free.
const PATIENCE_NANOS: u64 = 30_000_000_000;

impl Scene {
    /// Returns whether an attack that has done its work `done` times is to end.
    fn is_over(&self, done: u64) -> bool {
        let until = if done == 0 { self.until.saturating_add(PATIENCE_NANOS) } else { self.until };
        Clock::System.monotonic_nanos() >= until
    }

    fn left_nanos(&self) -> u64 {
        self.until.saturating_sub(Clock::System.monotonic_nanos())
    }
}

/// An attack under way.
pub(super) struct UnderWay {
    threads: Vec<std::thread::JoinHandle<Result<u64>>>,
}

impl Attack {
    /// Writes what the attack needs.
    pub(super) fn prepare(&self, scene: &Scene) -> Result<()> {
        let mut result = (self.prepare)(scene);
        for _ in 0..2 {
            if result.as_ref().is_err_and(peer::is_end) {
                result = (self.prepare)(scene);
            }
        }
        result.with_context(|| format!("preparing the attack `{}`", self.name))
    }

    /// Begins, on threads that leave the processors to whoever else wants them: on one machine, an
    /// attacker is not to win by taking the processors of the victim's clients.
    pub(super) fn begin(&self, scene: &std::sync::Arc<Scene>, cpus: &[usize]) -> Result<UnderWay> {
        let mut threads = Vec::new();
        for (i, body) in self.threads.iter().copied().enumerate() {
            let (scene, cpu) = (std::sync::Arc::clone(scene), cpus.get(i % cpus.len().max(1)).copied());
            let run = move || {
                base::thread::run_when_idle()?;
                if let Some(cpu) = cpu {
                    base::thread::pin_to_cpu(cpu)?;
                }
                persist(body, &scene)
            };
            threads.push(base::thread::spawn(format!("attack-{i}"), run).context("starting a thread")?);
        }
        Ok(UnderWay { threads })
    }
}

/// Makes an attack, and again where the server ended its connections before it was over: where
/// memory is short they pay for it whose connections hold most, and such clients come back.
fn persist(body: fn(&Scene) -> Result<u64>, scene: &Scene) -> Result<u64> {
    let mut ends = 0;
    loop {
        match body(scene) {
            Err(error) if peer::is_end(&error) => ends += 1,
            result => return result.map(|done| done + ends),
        }
        if scene.is_over(ends) {
            return Ok(ends);
        }
    }
}

impl UnderWay {
    /// Waits for its end, and returns what of it did not take place.
    pub(super) fn finish(self) -> Vec<String> {
        let mut faults = Vec::new();
        for thread in self.threads {
            match thread.join() {
                Ok(Ok(0)) => faults.push("the attack did nothing".to_owned()),
                Ok(Ok(_)) => {}
                Ok(Err(error)) => faults.push(format!("the attack failed: {error:#}")),
                Err(_) => faults.push("the attack panicked; its message is above".to_owned()),
            }
        }
        faults
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Error, ErrorKind};
    use std::net::Ipv4Addr;

    use super::*;

    fn ended(_: &Scene) -> Result<u64> {
        Err(Error::from(ErrorKind::ConnectionReset)).context("waiting for replies")
    }

    fn refused(_: &Scene) -> Result<u64> {
        Err(Error::from(ErrorKind::ConnectionRefused)).context("connecting")
    }

    #[test]
    fn an_attack_goes_on_where_its_connections_are_ended_and_fails_otherwise() {
        let nobody = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        let scene = Scene {
            neighbour: nobody,
            tls: nobody,
            admin: nobody,
            limit: ByteSize::mib(1),
            max_connections: 1,
            seed: 1,
            until: Clock::System.monotonic_nanos() + 2_000_000,
            left_open: Mutex::default(),
        };
        assert!(persist(ended, &scene).is_ok_and(|ends| ends > 0 && scene.is_over(ends)));
        assert!(persist(refused, &scene).is_err());
    }
}
