// The page: asks its source for figures every two seconds, and shows one view at a time.
//
// A source (server.js, fleet.js) turns what it reads into one model, so that views know nothing of
// servers and fleets. The address after # names the view: #/, #/pool/NAME, #/pool/NAME/NODE,
// #/decisions, #/decisions/NUMBER, #/what-if.
import { make, setText } from "./dom.js";
import { Overview } from "./overview.js";
import { Pool } from "./pool.js";
import { Decisions } from "./decisions.js";
import { WhatIf } from "./what-if.js";

const PERIOD = 2000;
const at = id => document.getElementById(id);
const TABS = [["Overview", "#/", Overview], ["Decisions", "#/decisions", Decisions], ["What if", "#/what-if", WhatIf]];

export class Refused extends Error {}

// There is no such pool any more, or no single one; `links` has those that may be meant.
export class Gone extends Error {
  constructor(words, links = []) {
    super(words);
    this.links = links;
  }
}

// A server that takes longer is away, as far as a person who looks is concerned.
const LONGEST_MS = 10000;

// Reads JSON from this server, with the token if there is one.
export async function read(path) {
  const token = sessionStorage.getItem("token");
  const answer = await fetch(path, { headers: token ? { Authorization: "Bearer " + token } : {}, cache: "no-store", signal: AbortSignal.timeout(LONGEST_MS) });
  if (answer.status === 401) throw new Refused("a token is needed");
  if (!answer.ok) throw new Error((await answer.text()).trim());
  return answer.json();
}

// The address of a pool; pools of one name on two nodes are told apart by the node.
export function poolLink(name, node) { return "#/pool/" + encodeURIComponent(name) + (node ? "/" + encodeURIComponent(node) : ""); }

// The text of a part of the address; null if it is none, as anybody can write anything there.
function decoded(part) {
  try { return decodeURIComponent(part); } catch { return null; }
}

// The view, what it is about, its tab, and words about an address that names no view.
function route() {
  const [first, ...rest] = location.hash.replace(/^#\/?/, "").split("/"), [second, third] = rest.map(decoded);
  const isText = !rest.map(decoded).includes(null);
  if (first === "pool" && second && isText) return [Pool, { id: second, node: third || null }, "#/"];
  if (first === "decisions" && (!second || /^\d+$/.test(second)) && isText) return [Decisions, second ? Number(second) : null, "#/decisions"];
  if (first === "what-if") return [WhatIf, null, "#/what-if"];
  return [Overview, null, "#/", first && first !== "view" ? "The address names no view: " + location.hash : ""];
}

export function start(source) {
  let view = null, model = null, running = false, astray = "";
  const links = TABS.map(([name, target]) => make("a", { href: target }, name));
  at("views").append(...links);
  at("footer").append(...source.footer());
  setText(at("title"), source.title);

  function open(takesFocus) {
    const [kind, what, target, words] = route();
    astray = words || "";
    links.forEach(link => link.getAttribute("href") === target ? link.setAttribute("aria-current", "page") : link.removeAttribute("aria-current"));
    if (view) view.end();
    view = new kind(source, what);
    at("view").replaceChildren(view.element);
    document.title = view.name + " – " + source.title;
    if (model) { view.update(model); warn(); }
    if (takesFocus) { at("view").focus(); scrollTo(0, 0); }
  }

  function say(words, isBad) {
    setText(at("state"), words);
    at("state").className = isBad ? "bad" : "";
  }

  function warn() {
    const words = [astray, model.warning].filter(Boolean).join(" ");
    say(words, !!words);
  }

  async function turn() {
    if (running) return;
    running = true;
    try {
      model = await source.poll();
      at("login").hidden = true;
      setText(at("about"), model.about);
      if (!view) open(false); else { view.update(model); warn(); }
      document.body.dataset.polls = Number(document.body.dataset.polls || 0) + 1;
    } catch (error) {
      if (error instanceof Refused) at("login").hidden = false;
      say("No figures: " + error.message, true);
    } finally {
      running = false;
    }
  }

  at("login").addEventListener("submit", event => {
    event.preventDefault();
    sessionStorage.setItem("token", at("token").value.trim());
    turn();
  });
  addEventListener("hashchange", () => { if (location.hash !== "#view") open(true); });
  // Charts are drawn in the colours of the theme.
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { if (view) view.repaint(); });
  setInterval(() => { if (!document.hidden) turn(); }, PERIOD);
  turn();
}
