// The page of an orchestrator: its fleet as the model that the views show.
import { start, read, poolLink, Gone, Refused } from "./app.js";
import { decisionOf } from "./decisions.js";
import { make } from "./dom.js";
import { bytes, count, percent, span } from "./format.js";

// Pools of one name may be on several nodes.
const keyOf = (node, name) => node + "\n" + name;

function row(pool, node) {
  const misses = pool.missed == null ? null : pool.missed * pool.reads_per_sec;
  return {
    key: keyOf(node.name, pool.name), id: pool.name, group: node.name, used: pool.used_bytes, granted: pool.granted_bytes, reserve: pool.floor_bytes || null, promised: pool.promised_per_sec || null,
    reads: pool.reads_per_sec, hits: pool.missed == null ? null : 1 - pool.missed, expected: pool.expected == null ? null : 1 - pool.expected, misses,
  };
}

function cards(rows, nodes) {
  const total = key => rows.reduce((all, row) => all + (row[key] || 0), 0);
  const known = rows.filter(row => row.hits != null), reads = known.reduce((all, row) => all + row.reads, 0), all = total("reads");
  const hits = reads > 0 ? known.reduce((sum, row) => sum + row.hits * row.reads, 0) / reads : null;
  const instances = nodes.flatMap(node => node.instances), leased = instances.filter(one => one.is_leased).length;
  const held = nodes.reduce((sum, node) => sum + node.held_bytes, 0);
  return [
    { name: "Reads a second", value: all, text: count(all) }, { name: "Hits", value: hits, text: percent(hits) },
    { name: "Misses a second", value: total("misses"), text: count(total("misses")) }, { name: "Memory held", value: held, text: bytes(held) },
    { name: "Instances", value: leased, text: leased + " of " + instances.length }, { name: "Pools", value: rows.length, text: count(rows.length) },
  ];
}

function machine(node) {
  return {
    name: "Machine " + node.name, used: node.held_bytes, total: node.memory_bytes, note: node.idle ? "nothing moves now: " + node.idle : "", unmet: node.unmet,
    parts: node.instances.map(one => ({ name: one.name, bytes: one.held_bytes })),
    instances: node.instances.map(one => ({
      name: one.name, kind: (one.kind + " " + one.version).trim(), limit: one.limit_bytes, used: one.used_bytes, target: one.target_bytes,
      state: one.is_leased ? one.address : "does not answer", isBad: !one.is_leased,
    })),
  };
}

const decision = made => decisionOf(made, pool => ({ missed: pool.missed, expected: pool.expected, since: pool.missed_since }));

async function poll() {
  const [now, made] = await Promise.all([read("/fleet.json"), read("/decisions.json?brief=true")]);
  const rows = now.nodes.flatMap(node => node.pools.map(pool => row(pool, node)));
  return {
    about: now.policy + " · term " + now.term, warning: now.is_superseded ? "Another orchestrator leads the agents." : now.is_leader === false ? "This orchestrator does not lead: " + (now.leader || "nobody") + " does." : "",
    cards: cards(rows, now.nodes), rows, nodes: now.nodes.map(machine), decisions: made.map(decision),
    policy: { text: now.is_leader === false ? "It decides nothing" : "The policy " + now.policy + " decides while memory is short", idle: "Nothing was moved.", error: now.prediction_error, predictions: now.predictions },
  };
}

function pooled(curve) {
  return {
    name: curve.name, node: curve.node, used: curve.used_bytes, granted: curve.granted_bytes, isGrant: true, floor: curve.floor_bytes,
    reads: curve.reads_per_sec, missRatio: curve.miss_ratio, missCost: curve.miss_cost_secs, points: curve.points, samples: curve.samples, error: curve.error,
    workingSet: curve.working_set_bytes, age: "told " + span(Math.round(curve.age_secs)) + " ago, and again when it changes",
  };
}

// The row of a pool; `node` may be left out if no other has a pool of the name.
function find(id, node, rows) {
  const found = rows.filter(row => row.id === id && (!node || row.group === node));
  if (!found.length) throw new Gone("There is no pool " + id + (node ? " on " + node : "") + ".");
  if (found.length > 1) throw new Gone("Several machines have a pool " + id + ":", found.map(row => ({ name: row.id + " on " + row.group, target: poolLink(row.id, row.group) })));
  return found[0];
}

async function pool(id, model, node) {
  const found = find(id, node, model.rows);
  const facts = [
    ["Machine", found.group],
    ["Memory", bytes(found.used) + " used, " + bytes(found.granted) + " granted, " + bytes(found.reserve || 0) + " reserved"],
    ["Reads", count(found.reads) + " a second, " + percent(found.hits) + " hits; predicted with its grant " + percent(found.expected)],
  ];
  try {
    return { ...pooled(await read("/curve?" + new URLSearchParams({ node: found.group, pool: id }))), facts };
  } catch (error) {
    if (error instanceof Refused) throw error;
    return { name: id, node: found.group, granted: found.granted, facts: [...facts, ["Curve", error.message]] };
  }
}

async function curves() {
  const [now, all] = await Promise.all([read("/fleet.json"), read("/curves.json")]);
  const rows = now.nodes.flatMap(node => node.pools.map(pool => row(pool, node))), known = new Map(all.map(curve => [keyOf(curve.node, curve.name), curve]));
  return rows.map(row => known.has(row.key) ? pooled(known.get(row.key)) : { name: row.id, node: row.group });
}

const word = (label, of, title) => ({ label, title, text: of, value: of, isWord: true });
const figure = (label, of, format, title) => ({ label, title, text: row => format(of(row)), value: of });

start({
  title: "Millpond fleet", rowsName: "Pools", poll, pool, curves,
  noRows: "No instance has registered: name this orchestrator in fleet.orchestrators, or start millpond agent.",
  decision: async number => decision(await read("/decisions/" + number)),
  decisions: async asked => (await read("/decisions.json?brief=true&" + new URLSearchParams(asked))).map(decision),
  columns: [
    { ...word("Pool", row => row.id), link: row => poolLink(row.id, row.group) }, word("Machine", row => row.group),
    figure("Memory", row => row.used, bytes), figure("Granted", row => row.granted, bytes), figure("Reserved", row => row.reserve, bytes, "The least that the pool keeps"),
    figure("Promised/s", row => row.promised, count, "Requests per second"), figure("Hits", row => row.hits, percent),
    figure("Predicted", row => row.expected, percent, "Hits that are predicted with the grant"), figure("Reads/s", row => row.reads, count), figure("Misses/s", row => row.misses, count),
  ],
  footer: () => ["Every two seconds from ", ...["/fleet.json", "/decisions.json", "/curves.json"].flatMap(path => [make("a", { href: path }, path), " "]),
    "; more in ", make("a", { href: "/metrics" }, "/metrics"), " and ", make("code", {}, "millpond fleet"), "."],
});
