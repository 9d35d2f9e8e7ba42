//! A contestant in a process of its own: its resident memory is its alone, and it waits while
//! others are measured.
//!
//! The parent writes one [`Order`] a line to the child's standard input and reads one [`Answer`] a
//! line from its standard output.

mod measure;
mod order;
mod serve;

use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail};

pub(crate) use order::{Answer, Bill, Held, Measured, Order, Plan, Task};
pub(crate) use serve::serve;

use crate::contestant::Name;

/// The allocator's settings in a child. Peers keep each value in an allocation of its own, so that
/// the allocator is part of their best form. Millpond allocates next to nothing after it is built.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Heap {
    /// For speed: 2 MiB pages, which Millpond asks for by itself. Without them a peer's find in a
    /// large cache pays for page walks besides its cache misses.
    Fast,
    /// For density: nothing is kept back.
    Dense,
}

impl Heap {
    /// The value of jemalloc's environment variable.
    fn settings(self) -> &'static str {
        match self {
            Self::Fast => "thp:always,metadata_thp:always,narenas:2",
            Self::Dense => "narenas:1,dirty_decay_ms:0,muzzy_decay_ms:0",
        }
    }
}

/// A running child.
pub(crate) struct Child {
    name: Name,
    process: std::process::Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Child {
    /// Starts a child that plays `name`.
    pub(crate) fn start(name: Name, heap: Heap) -> Result<Self> {
        let program = std::env::current_exe().context("finding this program")?;
        let mut process = Command::new(program)
            .args(["--play", &name.to_string()])
            .env("_RJEM_MALLOC_CONF", heap.settings())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting a process for {name}"))?;
        let (Some(orders), Some(answers)) = (process.stdin.take(), process.stdout.take()) else {
            bail!("the process for {name} has no pipes");
        };
        Ok(Self { name, process, orders, answers: BufReader::new(answers) })
    }

    /// The contestant that the child plays.
    pub(crate) fn name(&self) -> Name {
        self.name
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Has an order carried out.
    pub(crate) fn ask(&mut self, order: &Order) -> Result<Answer> {
        let mut line = serde_json::to_string(order)?;
        line.push('\n');
        self.orders.write_all(line.as_bytes()).with_context(|| format!("asking {}", self.name))?;
        line.clear();
        self.answers.read_line(&mut line)?;
        match serde_json::from_str(&line) {
            Ok(Answer::Failed(reason)) => bail!("{}: {reason}", self.name),
            Ok(answer) => Ok(answer),
            Err(_) => bail!("the process for {} ended while it carried out {order:?}", self.name),
        }
    }

    /// Has an order carried out that is answered by what is held.
    pub(crate) fn hold(&mut self, order: &Order) -> Result<Held> {
        match self.ask(order)? {
            Answer::Held(held) => Ok(held),
            other => bail!("{} answered {other:?} to {order:?}", self.name),
        }
    }

    /// Has it say what memory is spent on.
    pub(crate) fn bill(&mut self) -> Result<Bill> {
        match self.ask(&Order::Bill)? {
            Answer::Bill(bill) => Ok(bill),
            other => bail!("{} answered {other:?}", self.name),
        }
    }

    /// Has a measurement made.
    pub(crate) fn measure(&mut self, plan: Plan) -> Result<Measured> {
        match self.ask(&Order::Measure(plan))? {
            Answer::Measured(measured) => Ok(measured),
            other => bail!("{} answered {other:?} to {plan:?}", self.name),
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
