//! The server under soak, what is done to it, and whether it is all right afterwards.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use base::Clock;
use base::rng::{RngExt, SeededRng};
use bench::targets::resp::Reply;
use clap::ValueEnum;
use rustix::process::Signal;
use serde::Serialize;

use super::Scene;
use super::certificates::{Authority, TlsStream};
use super::clients::{CLIENTS, Client};
use super::settings::{BOB, MEMCACHED, REDIS, Settings, TLS};
use super::tenants::Tenant;
use crate::served::Served;

/// Longest time in which the server must do what it was told.
const PATIENCE_NANOS: u64 = 30_000_000_000;
const LOOK: Duration = Duration::from_millis(50);
/// One removal of a tenant in this many is taken back at once.
const TAKEN_BACK: u32 = 3;

/// Something that is done to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum EventKind {
    /// A tenant goes, or comes again.
    Tenant,
    /// A tenant's weight, rate or limit changes.
    TenantChange,
    /// A pool's limit, policy, rebalancing and size classes change.
    Pool,
    /// The memory limit moves.
    Memory,
    /// The certificate and its key are replaced.
    Certificate,
    /// The rules of a user change.
    Rules,
    /// Other settings are changed by the admin API.
    Setting,
    /// All keys of a tenant are flushed.
    Flush,
    /// The server ends by SIGTERM and starts again.
    Restart,
    /// The server is killed and starts again.
    Kill,
}

impl EventKind {
    /// The name in reports.
    pub(super) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    fn ends_a_life(self) -> bool {
        matches!(self, Self::Restart | Self::Kill)
    }
}

/// The server, and who changes it.
pub(super) struct Control {
    pub(super) served: Served,
    scene: Arc<Scene>,
    settings: Settings,
    authority: Authority,
    rng: SeededRng,
    kinds: Vec<EventKind>,
    /// Those to come before any comes again.
    bag: Vec<EventKind>,
    pub(super) done: BTreeMap<EventKind, u64>,
    /// A connection by TLS that outlives certificates.
    old_tls: Option<TlsStream>,
}

impl Control {
    pub(super) fn new(
        served: Served,
        scene: Arc<Scene>,
        settings: Settings,
        authority: Authority,
        only: &[EventKind],
    ) -> Self {
        let rng = base::rng::seeded(scene.seed ^ 0x6576_656e_7473);
        let kinds = if only.is_empty() { EventKind::value_variants().to_vec() } else { only.to_vec() };
        let (bag, done, old_tls) = (Vec::new(), BTreeMap::new(), None);
        Self { served, scene, settings, authority, rng, kinds, bag, done, old_tls }
    }

    /// Draws the next event: an end of the server's process, or one of the others, each once before
    /// any is drawn again. `None` if there is none of that sort.
    pub(super) fn draw(&mut self, ends_a_life: bool) -> Option<EventKind> {
        let mut fitting: Vec<_> =
            self.kinds.iter().copied().filter(|kind| kind.ends_a_life() == ends_a_life).collect();
        if fitting.is_empty() {
            return None;
        }
        if ends_a_life {
            return Some(fitting[self.rng.random_range(0..fitting.len())]);
        }
        if self.bag.is_empty() {
            std::mem::swap(&mut self.bag, &mut fitting);
        }
        let place = self.rng.random_range(0..self.bag.len());
        Some(self.bag.swap_remove(place))
    }

    /// Does it, and looks whether the server is all right. What was done, in words.
    ///
    /// # Errors
    /// Where it did not come about, or the server is not all right.
    pub(super) fn perform(&mut self, kind: EventKind) -> Result<String> {
        let before = self.requests();
        let what = match kind {
            EventKind::Tenant => self.move_guest()?,
            EventKind::TenantChange => {
                let what = self.settings.change_tenant(&mut self.rng);
                self.rewrite(what)?
            }
            EventKind::Pool => {
                let what = self.settings.change_pool(&mut self.rng);
                self.rewrite(what)?
            }
            EventKind::Memory => {
                let what = self.settings.move_memory(&mut self.rng);
                self.rewrite(what)?
            }
            EventKind::Certificate => self.renew_certificate()?,
            EventKind::Rules => self.change_rules()?,
            EventKind::Setting => self.change_settings()?,
            EventKind::Flush => self.flush()?,
            EventKind::Restart => self.restart(Signal::TERM)?,
            EventKind::Kill => self.restart(Signal::KILL)?,
        };
        *self.done.entry(kind).or_default() += 1;
        let before = if kind.ends_a_life() { 0.0 } else { before? };
        self.check(before).with_context(|| format!("after `{what}`"))?;
        Ok(what)
    }

    fn rewrite(&mut self, what: String) -> Result<String> {
        self.served.rewrite(&self.settings.text()).with_context(|| what.clone())?;
        Ok(what)
    }

    fn move_guest(&mut self) -> Result<String> {
        if self.settings.guest {
            self.scene.conditions.guest_leaves();
            let scene = Arc::clone(&self.scene);
            let taken_back = self.rng.random_ratio(1, TAKEN_BACK);
            scene.flush(Tenant::Guest, || {
                self.settings.guest = false;
                self.served.rewrite(&self.settings.text())?;
                if taken_back {
                    Ok(())
                } else {
                    self.wait_until("the guest is gone", |it| Ok(!it.has_guest()?))
                }
            })?;
            if !taken_back {
                return Ok("guest removed".to_owned());
            }
        }
        self.settings.guest = true;
        self.served.rewrite(&self.settings.text()).context("adding the guest")?;
        self.wait_until("the guest is there", |it| Ok(it.scene.network.open_resp(guest()).is_ok()))?;
        self.scene.conditions.guest_is_there();
        Ok("guest added".to_owned())
    }

    fn has_guest(&self) -> Result<bool> {
        let stats = self.served.stats()?;
        let named = |part: &str| {
            let list = stats.get(part).and_then(serde_json::Value::as_array);
            list.is_some_and(|list| list.iter().any(|one| one["name"] == Tenant::Guest.name()))
        };
        Ok(named("tenants") || named("pools"))
    }

    fn renew_certificate(&mut self) -> Result<String> {
        let mut old = match self.old_tls.take() {
            Some(old) => old,
            None => TlsStream::open(&self.authority.client(), self.scene.network.socket(TLS)?)?,
        };
        let wanted = self.authority.renew()?;
        self.served.rewrite(&self.settings.text())?;
        self.wait_until("new connections get the new certificate", |it| {
            let new = TlsStream::open(&it.authority.client(), it.scene.network.socket(TLS)?)?;
            Ok(new.certificate().as_ref() == Some(&wanted))
        })?;
        ask(&mut old, b"mn\r\n", b"MN\r\n").context("on a connection with an older certificate")?;
        self.old_tls = Some(old);
        Ok("certificate replaced".to_owned())
    }

    fn change_rules(&mut self) -> Result<String> {
        self.settings.bob_may_write = !self.settings.bob_may_write;
        let may = self.settings.bob_may_write;
        self.served.rewrite(&self.settings.text())?;
        self.wait_until("bob may do what the rules say", |it| {
            let bob = CLIENTS.iter().find(|client| client.user == Some(BOB)).context("bob")?;
            let reply = it.scene.network.open_resp(bob)?.ask(&[b"SET", b"bob", b"was here"])?;
            match reply {
                Reply::Error(why) if !why.starts_with("NOPERM") => bail!("bob was told `{why}`"),
                reply => Ok(reply.is_ok() == may),
            }
        })?;
        Ok(format!("bob may {}", if may { "write" } else { "only read" }))
    }

    fn change_settings(&mut self) -> Result<String> {
        let wanted = [
            ("watch.slow_log_micros", self.rng.random_range(500..20_000)),
            ("watch.hot_keys", self.rng.random_range(0..64)),
            ("limits.max_requests_per_turn", self.rng.random_range(16..512)),
        ];
        let body = serde_json::Map::from_iter(wanted.map(|(name, value)| (name.to_owned(), value.into())));
        let url = format!("{}/config", self.served.admin()?);
        let body = serde_json::Value::Object(body).to_string();
        ureq::put(&url).content_type("application/json").send(&body).context("changing settings")?;
        let shown = ureq::get(&url).call().context("asking for settings")?.body_mut().read_to_string()?;
        let shown: serde_json::Value = serde_json::from_str(&shown).context("reading settings")?;
        for (name, value) in wanted {
            ensure!(
                shown[name]["value"] == value,
                "{name} was set to {value} and is {}",
                shown[name]["value"]
            );
        }
        let words: Vec<_> = wanted.iter().map(|(name, value)| format!("{name} {value}")).collect();
        Ok(words.join(", "))
    }

    fn flush(&mut self) -> Result<String> {
        let there = Tenant::ALL.iter().filter(|tenant| self.settings.guest || **tenant != Tenant::Guest);
        let there: Vec<_> = there.copied().collect();
        let tenant = there[self.rng.random_range(0..there.len())];
        let client = CLIENTS.iter().find(|client| client.tenant == tenant && client.listener == REDIS);
        let mut connection = self.scene.network.open_resp(client.context("a client of each tenant")?)?;
        self.scene.flush(tenant, || connection.demand(&[b"FLUSHALL"]).map(|_| ()))?;
        Ok(format!("{} flushed", tenant.name()))
    }

    fn restart(&mut self, signal: Signal) -> Result<String> {
        self.old_tls = None;
        self.scene.conditions.goes_down();
        let status = self.served.restart(signal)?;
        self.scene.conditions.is_up();
        if signal == Signal::TERM {
            ensure!(status.success(), "the server was to stop, and ended with {status}");
            return Ok("restarted".to_owned());
        }
        Ok("killed and started again".to_owned())
    }

    /// Requests that the process has answered.
    fn requests(&self) -> Result<f64> {
        let mut sum = 0.0;
        for name in ["millpond_server_requests_total", "millpond_server_resp_commands_total"] {
            sum += self.served.metric(name, &[])?.unwrap_or(0.0);
        }
        Ok(sum)
    }

    /// Checks that the server answers on every listener, and that its counters continue.
    fn check(&mut self, requests_before: f64) -> Result<()> {
        let network = self.scene.network.clone();
        ask(&mut network.socket(MEMCACHED)?, b"mn\r\n", b"MN\r\n")?;
        ask(&mut network.socket(REDIS)?, b"PING\r\n", b"+PONG\r\n")?;
        let mut tls = TlsStream::open(&self.authority.client(), network.socket(TLS)?)?;
        ask(&mut tls, b"mn\r\n", b"MN\r\n")?;
        let pid = self.served.stats()?["pid"].as_u64();
        ensure!(pid == Some(u64::from(self.served.pid())), "process {pid:?} answers instead");
        let requests = self.requests()?;
        ensure!(requests >= requests_before, "{requests_before} requests were counted, and now {requests}");
        Ok(())
    }

    fn wait_until(&mut self, what: &str, holds: impl Fn(&Self) -> Result<bool>) -> Result<()> {
        let until = Clock::System.monotonic_nanos() + PATIENCE_NANOS;
        while !holds(self)? {
            ensure!(Clock::System.monotonic_nanos() < until, "timed out while waiting for: {what}");
            base::thread::sleep(LOOK);
        }
        Ok(())
    }
}

/// The first client of the tenant that comes and goes.
fn guest() -> &'static Client {
    CLIENTS.iter().find(|client| client.tenant == Tenant::Guest).unwrap_or(&CLIENTS[0])
}

fn ask(stream: &mut (impl Read + Write), request: &[u8], answer: &[u8]) -> Result<()> {
    stream.write_all(request).and_then(|()| stream.flush()).context("sending a request")?;
    let mut received = vec![0; answer.len()];
    stream.read_exact(&mut received).context("waiting for a reply")?;
    ensure!(
        received == answer,
        "the server answered {} to {}",
        received.escape_ascii(),
        request.escape_ascii()
    );
    Ok(())
}
