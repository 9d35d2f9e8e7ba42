// Figures as text. `null` and `undefined` are unknown, which is a dash.
const DASH = "–";
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

export function bytes(n) {
  if (n == null) return DASH;
  const sign = n < 0 ? "−" : "";
  let unit = 0;
  n = Math.abs(n);
  while (n >= 1024 && unit < UNITS.length - 1) { n /= 1024; unit++; }
  const digits = unit === 0 || n >= 100 ? 0 : n < 10 && n % 1 ? 2 : n % 1 ? 1 : 0;
  return sign + n.toFixed(digits) + " " + UNITS[unit];
}

export function count(n) {
  if (n == null) return DASH;
  const sign = n < 0 ? "−" : "", a = Math.abs(n);
  if (a >= 1e9) return sign + (a / 1e9).toFixed(2) + " G";
  if (a >= 1e6) return sign + (a / 1e6).toFixed(2) + " M";
  if (a >= 1e4) return sign + (a / 1e3).toFixed(1) + " k";
  return sign + (a >= 10 || a === Math.round(a) ? String(Math.round(a)) : a.toFixed(1));
}

export function percent(share, digits = 1) {
  return share == null ? DASH : (100 * share).toFixed(digits) + " %";
}

// A number of things, with their name.
export function several(n, name) {
  return count(n) + " " + name + (n === 1 ? "" : "s");
}

export function span(secs) {
  if (secs == null) return DASH;
  if (secs < 0) return "−" + span(-secs);
  if (secs === 0) return "0 s";
  if (secs < 1e-3) return (secs * 1e6).toFixed(0) + " µs";
  if (secs < 1) return (secs * 1e3).toFixed(secs < 0.1 ? 1 : 0) + " ms";
  if (secs < 10) return secs.toFixed(secs % 1 ? 1 : 0) + " s";
  if (secs < 120) return secs.toFixed(0) + " s";
  if (secs < 7200) return (secs / 60).toFixed(0) + " min";
  return secs < 172800 ? (secs / 3600).toFixed(0) + " h" : (secs / 86400).toFixed(0) + " d";
}

// A difference, with its sign.
export function signed(n, format) {
  return n == null ? DASH : (n > 0 ? "+" : "") + format(n);
}

export function ago(unixSecs) {
  return span(Math.max(0, Math.round(Date.now() / 1000 - unixSecs))) + " ago";
}

export function clock(unixSecs) {
  return new Date(unixSecs * 1000).toLocaleTimeString([], { hour12: false });
}
