// The page: asks its source for figures every two seconds, and shows one view at a time.
//
// A source (server.js, fleet.js) turns what it reads into one model, so that views know nothing of
// servers and fleets. The address after # names the view: #/, #/pool/NAME, #/decisions,
// #/decisions/NUMBER, #/what-if.
import { make, setText } from "./dom.js";
import { Overview } from "./overview.js";
import { Pool } from "./pool.js";
import { Decisions } from "./decisions.js";
import { WhatIf } from "./what-if.js";

const PERIOD = 2000;
const at = id => document.getElementById(id);
const TABS = [["Overview", "#/", Overview], ["Decisions", "#/decisions", Decisions], ["What if", "#/what-if", WhatIf]];

class Refused extends Error {}

// Reads JSON from this server, with the token if there is one.
export async function read(path) {
  const token = sessionStorage.getItem("token");
  const answer = await fetch(path, { headers: token ? { Authorization: "Bearer " + token } : {}, cache: "no-store" });
  if (answer.status === 401) throw new Refused("a token is needed");
  if (!answer.ok) throw new Error((await answer.text()).trim());
  return answer.json();
}

export function poolLink(name) { return "#/pool/" + encodeURIComponent(name); }

function route() {
  const [first, second] = location.hash.replace(/^#\/?/, "").split("/");
  if (first === "pool") return [Pool, decodeURIComponent(second || ""), "#/"];
  if (first === "decisions") return [Decisions, second ? Number(second) : null, "#/decisions"];
  if (first === "what-if") return [WhatIf, null, "#/what-if"];
  return [Overview, null, "#/"];
}

export function start(source) {
  let view = null, model = null, running = false;
  const links = TABS.map(([name, target]) => make("a", { href: target }, name));
  at("views").append(...links);
  at("footer").append(...source.footer());
  setText(at("title"), source.title);

  function open(takesFocus) {
    const [kind, what, target] = route();
    links.forEach(link => link.getAttribute("href") === target ? link.setAttribute("aria-current", "page") : link.removeAttribute("aria-current"));
    if (view) view.end();
    view = new kind(source, what);
    at("view").replaceChildren(view.element);
    document.title = view.name + " – " + source.title;
    if (model) view.update(model);
    if (takesFocus) { at("view").focus(); scrollTo(0, 0); }
  }

  function say(words, isBad) {
    setText(at("state"), words);
    at("state").className = isBad ? "bad" : "";
  }

  async function turn() {
    if (running) return;
    running = true;
    try {
      model = await source.poll();
      at("login").hidden = true;
      setText(at("about"), model.about);
      say(model.warning || "", !!model.warning);
      if (!view) open(false); else view.update(model);
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
