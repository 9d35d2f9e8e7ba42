//! The resources that the server takes while it is attacked, observed from outside, and whether the
//! server gives them back.

use std::time::Duration;

use anyhow::Result;
use base::ByteSize;
use serde::Serialize;

use super::place::{NEIGHBOUR_CONNECTIONS, Place, VICTIM_CONNECTIONS, number, tenant};

/// Interval between two looks at the server.
pub(super) const INTERVAL: Duration = Duration::from_millis(200);
/// Number of looks within which the server must give back what an attack made it take: longer than
/// every time-out of its configuration.
const PATIENCE: u32 = 75;

/// The most that was seen of everything, and what its limit was.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Most {
    /// Number of looks at the server.
    pub looks: u64,
    /// Connections of the victim.
    pub victim_connections: Bounded,
    /// Connections of the neighbour.
    pub neighbour_connections: Bounded,
    /// Slabs of the victim's pool, in bytes.
    pub victim_bytes: Bounded,
    /// Slabs of the neighbour's pool, in bytes.
    pub neighbour_bytes: Bounded,
    /// The total of the memory bill, in bytes.
    pub billed_bytes: Bounded,
    /// Resident memory of the process, without the pages of files, in bytes.
    pub resident_bytes: Bounded,
    /// Descriptors of the process.
    pub open_files: u64,
}

/// The most that was seen, and the most that there may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Bounded {
    /// The highest value that was seen.
    pub most: u64,
    /// Its limit.
    pub limit: u64,
}

impl Bounded {
    fn see(&mut self, value: u64, limit: u64) {
        self.most = self.most.max(value);
        self.limit = limit;
    }

    fn add(&mut self, other: Self) {
        self.see(other.most, other.limit);
    }

    fn fault(self, what: &str) -> Option<String> {
        (self.most > self.limit).then(|| format!("{what}: {} of {}", self.most, self.limit))
    }
}

impl Most {
    /// Looks at the server once.
    pub(super) fn look(&mut self, place: &Place) -> Result<()> {
        let served = &place.served;
        // The program's own pages differ by its build, and other processes share them.
        let resident = served.resident_bytes()?.saturating_sub(served.file_bytes()?);
        self.resident_bytes.see(resident, place.resident_bound());
        self.open_files = self.open_files.max(served.open_files()?);
        let stats = served.stats()?;
        let (victim, neighbour) = (tenant(&stats, "victim"), tenant(&stats, "neighbour"));
        self.victim_connections.see(number(victim, "connections"), VICTIM_CONNECTIONS);
        self.neighbour_connections.see(number(neighbour, "connections"), NEIGHBOUR_CONNECTIONS);
        self.victim_bytes.see(number(victim, "memory_bytes"), number(victim, "limit_bytes"));
        self.neighbour_bytes.see(number(neighbour, "memory_bytes"), number(neighbour, "limit_bytes"));
        let parts = stats.get("memory_bytes").and_then(serde_json::Value::as_object);
        let billed =
            parts.into_iter().flat_map(serde_json::Map::values).filter_map(serde_json::Value::as_u64);
        self.billed_bytes.see(billed.sum(), number(&stats, "memory_limit_bytes"));
        self.looks += 1;
        Ok(())
    }

    /// The most of both.
    pub(super) fn add(&mut self, other: &Self) {
        self.looks += other.looks;
        self.victim_connections.add(other.victim_connections);
        self.neighbour_connections.add(other.neighbour_connections);
        self.victim_bytes.add(other.victim_bytes);
        self.neighbour_bytes.add(other.neighbour_bytes);
        self.billed_bytes.add(other.billed_bytes);
        self.resident_bytes.add(other.resident_bytes);
        self.open_files = self.open_files.max(other.open_files);
    }

    /// Limits of connections and of tenants' memory that did not hold.
    pub(super) fn beyond_limits(&self) -> Vec<String> {
        let found = [
            self.victim_connections.fault("connections of the victim"),
            self.neighbour_connections.fault("connections of the neighbour"),
            self.victim_bytes.fault("memory of the victim"),
            self.neighbour_bytes.fault("memory of the neighbour"),
        ];
        found.into_iter().flatten().collect()
    }

    /// Bounds of memory that did not hold.
    pub(super) fn beyond_memory(&self) -> Vec<String> {
        let found = [self.billed_bytes.fault("the bill"), self.resident_bytes.fault("resident memory")];
        found.into_iter().flatten().collect()
    }
}

/// The descriptors of a server without clients.
pub(super) fn base_files(place: &Place) -> Result<u64> {
    let mut least = u64::MAX;
    for _ in 0..5 {
        // The connection to the admin server, which is among them, is opened.
        place.served.stats()?;
        least = least.min(place.served.open_files()?);
        base::thread::sleep(INTERVAL / 4);
    }
    Ok(least)
}

/// Waits until connections, their buffers and their descriptors are given back, and returns what is
/// not.
pub(super) fn await_return(place: &Place, base_files: u64) -> Vec<String> {
    let mut kept = Vec::new();
    for _ in 0..PATIENCE {
        match still_taken(place, base_files) {
            Ok(taken) if taken.is_empty() => return taken,
            Ok(taken) => kept = taken,
            Err(error) => kept = vec![format!("{error:#}")],
        }
        base::thread::sleep(INTERVAL);
    }
    kept
}

fn still_taken(place: &Place, base_files: u64) -> Result<Vec<String>> {
    let stats = place.served.stats()?;
    let (connections, bytes) = (number(&stats, "connections"), number(&stats, "connection_memory_bytes"));
    let files = place.served.open_files()?;
    let mut taken = Vec::new();
    if connections > 0 {
        taken.push(format!("{connections} connections are still open"));
    }
    if bytes > 0 {
        taken.push(format!("buffers still take {}", ByteSize::new(bytes)));
    }
    if files > base_files {
        taken.push(format!("{files} descriptors are open, {base_files} before"));
    }
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_above_its_limit_at_any_look_is_told() {
        let mut most = Most::default();
        for (connections, resident) in [(300, 10), (301, 21), (5, 12)] {
            let mut look = Most::default();
            look.neighbour_connections.see(connections, 300);
            look.resident_bytes.see(resident, 20);
            most.add(&look);
        }
        assert_eq!(most.beyond_limits(), ["connections of the neighbour: 301 of 300"]);
        assert_eq!(most.beyond_memory(), ["resident memory: 21 of 20"]);
    }
}
