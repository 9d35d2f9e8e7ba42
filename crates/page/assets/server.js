// The page of a server: its own figures as the model that the views show.
import { start, read, poolLink, Gone } from "./app.js";
import { decisionOf } from "./decisions.js";
import { make } from "./dom.js";
import { bytes, count, percent, several, span } from "./format.js";

// Rates are of this many polls.
const POLLS = 5;
let past = [], departed = null;

function refusals(listener) {
  return Object.entries(listener.counters).reduce((all, [name, n]) => name.startsWith("refusals_") ? all + n : all, 0);
}

// What two samples of one process differ by, in general and by tenant and pool.
class Since {
  constructor(now, before) {
    Object.assign(this, { now, before });
    this.secs = before ? (now.monotonic_nanos - before.monotonic_nanos) * 1e-9 : 0;
    const byName = list => new Map((list || []).map(one => [one.name, one]));
    this.was = before ? { listeners: byName(before.listeners), tenants: byName(before.tenants), pools: byName(before.pools) } : null;
  }

  // The growth of a counter over all of a kind that are in both samples, or since the start if
  // nothing is known of then. One that is gone takes nothing from it.
  grown(kind, of) {
    return this.now[kind].reduce((all, one) => {
      const was = this.was && this.was[kind].get(one.name);
      return this.was && !was ? all : all + Math.max(0, of(one) - (was ? of(was) : 0));
    }, 0);
  }

  rate(kind, of) { return this.secs > 0 ? this.grown(kind, of) / this.secs : null; }

  // A counter that went back is of another of the name, of which the rate is not known yet.
  rateOf(kind, one, of) {
    const was = this.was && this.was[kind].get(one.name), more = was ? of(one) - of(was) : null;
    return more != null && more >= 0 && this.secs > 0 ? more / this.secs : null;
  }

  // Hits of all reads since then, or since the start if nothing is known of then.
  ratio(now, before) {
    const hits = now.hits - (before ? before.hits : 0), misses = now.misses - (before ? before.misses : 0);
    return hits + misses > 0 && hits >= 0 && misses >= 0 ? hits / (hits + misses) : null;
  }

  ratioOf(kind, one) { return this.ratio(one, this.was && this.was[kind].get(one.name)); }

  quantile(share) {
    const counts = [];
    let total = 0;
    for (const [protocol, timed] of Object.entries(this.now.requests)) timed.buckets.forEach(([upper, n], i) => {
      const was = this.before && this.before.requests[protocol], more = Math.max(0, n - (was ? was.buckets[i][1] : 0));
      counts[i] ||= [upper, 0];
      counts[i][1] += more;
      total += more;
    });
    let below = 0, lower = 0;
    for (const [upper, n] of counts) {
      if (!total) return null;
      if (upper == null) return lower;
      if (n > 0 && below + n >= share * total) return lower + (upper - lower) * (share * total - below) / n;
      below += n;
      lower = upper;
    }
    return null;
  }
}

function cards(since) {
  const counter = name => listener => listener.counters[name] || 0;
  const requests = since.rate("listeners", counter("answered_requests")), slow = since.quantile(0.99), sent = since.rate("listeners", counter("sent_bytes"));
  const hits = since.ratio({ hits: since.grown("listeners", counter("requests_get_hit")), misses: since.grown("listeners", counter("requests_get_miss")) });
  const evictions = since.rate("pools", pool => pool.evictions), refused = since.rate("listeners", refusals);
  return [
    { name: "Requests a second", value: requests, text: count(requests) }, { name: "Hits", value: hits, text: percent(hits) },
    { name: "Latency, 99 %", value: slow, text: span(slow) }, { name: "Sent a second", value: sent, text: bytes(sent) },
    { name: "Evictions a second", value: evictions, text: count(evictions) }, { name: "Refusals a second", value: refused, text: count(refused) },
  ];
}

function rows(since, rounds) {
  const pools = new Map(since.now.pools.map(pool => [pool.name, pool]));
  return since.now.tenants.map(tenant => {
    const pool = pools.get(tenant.pool) || {}, round = rounds.get(tenant.pool) || {};
    return {
      id: tenant.name, group: tenant.pool, used: pool.slab_bytes, granted: pool.granted_bytes || null, reserve: pool.reserve_bytes || null,
      promised: round.promised_per_sec || null, hits: since.ratioOf("tenants", tenant), requests: since.rateOf("tenants", tenant, one => one.requests),
      misses: since.rateOf("tenants", tenant, one => one.misses), evictions: pool.name ? since.rateOf("pools", pool, one => one.evictions) : null,
      items: pool.items, connections: tenant.connections, throttled: since.rateOf("tenants", tenant, one => one.throttled),
    };
  });
}

function policy(made) {
  const off = made.mode === "off";
  const text = made.led ? "An orchestrator decides about the memory of this server; its own page has the decisions" : off ? "No policy moves memory: " + (made.why || "control.mode") : (made.mode === "dry-run" ? "A dry run of " : "The policy ") + made.policy + (made.idle ? ". Nothing moves now: " + made.idle : " decides");
  return { text, idle: "Nothing was moved.", error: made.prediction_error, predictions: made.predictions };
}

const decision = made => decisionOf(made, pool => ({ missed: pool.miss_ratio, expected: pool.expected_miss_ratio, since: pool.miss_ratio_since }));

async function poll() {
  const [now, made] = await Promise.all([read("/stats.json?detailed="), read("/decisions.json?brief=true")]);
  // In a container, each process has the same number.
  if (past.length && (past[0].pid !== now.pid || now.monotonic_nanos < past.at(-1).monotonic_nanos || now.uptime_secs < past.at(-1).uptime_secs)) [past, departed] = [[], null];
  const since = new Since(now, past[0] || null);
  past = [...past, now].slice(-POLLS);
  const rounds = new Map((made.pools || []).map(pool => [pool.name, pool]));
  const parts = Object.entries(now.memory_bytes).filter(([, n]) => n > 0).sort((a, b) => b[1] - a[1]).map(([name, bytes]) => ({ name, bytes }));
  return {
    about: now.version + " · up " + span(now.uptime_secs) + " · " + several(now.threads, "worker") + " · " + several(now.connections, "connection"),
    cards: cards(since), rows: rows(since, rounds), policy: policy(made), decisions: made.decisions.map(decision),
    nodes: [{ name: "Memory", used: parts.reduce((all, part) => all + part.bytes, 0), total: now.memory_limit_bytes, parts, unmet: made.unmet || [] }],
    since, rounds,
  };
}

// A pool with its curve by bytes of slabs, in which grants are counted.
function pooled(pool, learnt, { since, rounds }) {
  const round = rounds.get(pool.name) || {}, measured = since.ratioOf("pools", pool);
  let points = learnt && learnt.policy_points;
  if (learnt && !points && learnt.samples >= 100) {
    const perByte = learnt.present_bytes > 0 ? pool.slab_bytes / learnt.present_bytes : 1;
    points = learnt.curve.points.map(point => [point.size * (perByte || 1), point.miss_ratio]);
  }
  const cost = learnt && learnt.miss_cost, confidence = learnt && learnt.curve.confidence;
  const reads = since.rateOf("pools", pool, one => one.hits + one.misses);
  return {
    name: pool.name, used: pool.slab_bytes, granted: pool.granted_bytes || pool.slab_bytes, isGrant: pool.granted_bytes > 0, floor: pool.reserve_bytes,
    reads: reads ?? round.reads_per_sec ?? null, missRatio: round.miss_ratio ?? (measured == null ? null : 1 - measured),
    missCost: round.miss_cost_secs ?? (cost ? cost.mean_secs : null),
    missCostNote: cost ? " on average; half take less than " + span(cost.p50_secs) + ", one in a hundred more than " + span(cost.p99_secs) : " on average",
    points, samples: learnt && learnt.samples, error: confidence && confidence.error > 0 ? confidence.error : null,
    age: "learnt until now, from one key in " + (learnt ? count(1 / Math.max(learnt.rate, 1e-9)) : "–"),
  };
}

function departures(pool, nanos) {
  const totals = new Map();
  for (const one of pool.classes || []) for (const [reason, n] of Object.entries(one.departures)) totals.set(reason, (totals.get(reason) || 0) + n);
  const before = departed && departed.name === pool.name && departed.nanos < nanos ? departed : null;
  const secs = before ? (nanos - before.nanos) * 1e-9 : null;
  const listed = [...totals].filter(([, n]) => n > 0).sort((a, b) => b[1] - a[1]);
  // A total that went back is of another pool of the name, of which the rate is not known yet.
  const rate = (reason, n) => { const more = n - (before.totals.get(reason) || 0); return more < 0 ? null : more / secs; };
  const rows = listed.map(([reason, n]) => [reason.replaceAll("_", " "), count(n), count(before ? rate(reason, n) : null)]);
  departed = { name: pool.name, nanos, totals };
  return rows;
}

async function pool(id, model) {
  const tenants = model.since.now.tenants, tenant = tenants.find(one => one.name === id), name = tenant ? tenant.pool : id, asked = encodeURIComponent(name);
  const [stats, curves, hot] = await Promise.all([read("/stats.json?detailed=" + asked), read("/curves.json?pool=" + asked), read("/hotkeys.json?pool=" + asked)]);
  const found = stats.pools.find(one => one.name === name);
  if (!found) throw new Gone("There is no pool " + name + ".");
  const shown = pooled(found, curves[name], model), here = tenants.filter(one => one.pool === name);
  const hit = model.since.ratioOf("pools", found);
  shown.facts = [
    ["Memory", bytes(found.slab_bytes) + " used, " + (found.granted_bytes ? bytes(found.granted_bytes) : "nothing") + " granted, " + bytes(found.reserve_bytes) + " reserved" + (found.limit_bytes ? ", limit " + bytes(found.limit_bytes) : "")],
    ["Items", count(found.items) + " of " + bytes(found.items ? found.item_bytes / found.items : 0) + " on average, policy " + found.policy],
    ["Reads", count(shown.reads) + " a second, " + percent(hit) + " hits"],
    ["Tenants", here.map(one => one.name).join(", ") || "none"],
  ];
  if (!shown.points) shown.facts.push(["Curve", "not known yet (watch.curve_keys)"]);
  shown.more = [
    { name: "Hot keys", heads: ["Key", "Accesses", "Share"], rows: (hot[name] || []).slice(0, 12).map(key => [key.key, count(key.accesses), percent(key.share)]), none: "None has been found yet (watch.hot_keys)." },
    { name: "Evictions and removals by reason", heads: ["Reason", "Since the start", "A second"], rows: departures(found, stats.monotonic_nanos), none: "No item was evicted or removed." },
  ];
  return shown;
}

async function curves() {
  const [stats, made, all] = await Promise.all([read("/stats.json?detailed="), read("/decisions.json?brief=true"), read("/curves.json")]);
  const since = new Since(stats, past[0] || null), rounds = new Map((made.pools || []).map(one => [one.name, one]));
  return stats.pools.map(one => pooled(one, all[one.name], { since, rounds }));
}

const word = (label, of, title) => ({ label, title, text: of, value: of, isWord: true });
const figure = (label, of, format, title) => ({ label, title, text: row => format(of(row)), value: of });

start({
  title: "Millpond", rowsName: "Tenants", noRows: "There is none.", poll, pool, curves,
  decision: async number => decision(await read("/decisions/" + number)),
  decisions: async asked => (await read("/decisions.json?brief=true&" + new URLSearchParams(asked))).decisions.map(decision),
  columns: [
    { ...word("Tenant", row => row.id), link: row => poolLink(row.id) }, word("Pool", row => row.group),
    figure("Memory", row => row.used, bytes), figure("Granted", row => row.granted, bytes, "By the policy that moves memory"),
    figure("Reserved", row => row.reserve, bytes, "The least that the pool keeps"), figure("Promised/s", row => row.promised, count, "Requests per second (tenant.min_operations_per_sec)"),
    figure("Hits", row => row.hits, percent), figure("Requests/s", row => row.requests, count), figure("Misses/s", row => row.misses, count),
    figure("Evictions/s", row => row.evictions, count), figure("Connections", row => row.connections, count), figure("Throttled/s", row => row.throttled, count),
  ],
  footer: () => ["Every two seconds from ", ...["/stats.json", "/decisions.json", "/curves.json", "/hotkeys.json"].flatMap(path => [make("a", { href: path }, path), " "]),
    "; more in ", ...["/metrics", "/config", "/tenants"].flatMap(path => [make("a", { href: path }, path), " "]), "and ", make("code", {}, "millpond top"), "."],
});
