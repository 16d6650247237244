// What pages do beyond HTML: times in the viewer's zone, live updates, the connection banner, and keys.
// Everything works without this file; it only adds to what the server has rendered.
"use strict";

// -- times ------------------------------------------------------------------------------------------------------------

// <board-time datetime="…Z" [relative] [short]>: the element keeps the server's text in UTC, and shows the viewer's zone in its
// shadow. A morph replaces the text and never the shadow.
const absolute = new Intl.DateTimeFormat("sv-SE", { dateStyle: "short", timeStyle: "medium" }); // 2026-11-27 07:36:15
const weekday = new Intl.DateTimeFormat("en", { weekday: "short" });
const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;

function distance(seconds) {
  const size = Math.abs(seconds);
  for (const [bound, unit, name] of [[90, 1, "s"], [5400, 60, "min"], [129600, 3600, "h"], [60 * 86400, 86400, "days"]]) {
    if (size < bound) {
      const amount = `${Math.max(1, Math.round(size / unit))} ${name}`;
      return size < 0.5 ? "now" : seconds > 0 ? `in ${amount}` : `${amount} ago`;
    }
  }
  return null;
}

function brief(moment) {
  return `${weekday.format(moment)} ${absolute.format(moment).replace(/:00$/, "")}`; // seconds for ticks that lie less than a minute apart
}

class BoardTime extends HTMLElement {
  static observedAttributes = ["datetime", "relative", "short"];
  connectedCallback() {
    if (!this.shadowRoot) this.attachShadow({ mode: "open" });
    this.show();
  }
  attributeChangedCallback() { if (this.shadowRoot) this.show(); }
  show() {
    const moment = new Date(this.getAttribute("datetime"));
    if (Number.isNaN(moment.getTime())) return;
    const local = absolute.format(moment);
    const near = this.hasAttribute("relative") ? distance((moment - Date.now()) / 1000) : null;
    this.shadowRoot.textContent = near ?? (this.hasAttribute("short") ? brief(moment) : local);
    this.title = `${local} ${zone} · ${moment.toISOString().replace("T", " ").replace(/\.\d+Z/, " UTC")}`;
  }
}
customElements.define("board-time", BoardTime);
setInterval(() => document.querySelectorAll("board-time[relative]").forEach((time) => time.show()), 1000);
document.getElementById("viewer-zone").textContent = zone;

// Text inside a drawing: its labels have data-time, the titles of its columns data-from and data-until. A morph brings
// the server's text in UTC back, so they are rewritten after each.
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });

function axisLabel(moment, form) {
  const time = clock.format(moment);
  if (form === "hour") return time;
  const day = weekday.format(moment);
  return time === "00:00" ? `${day} ${moment.getDate()}` : `${day} ${time}`;
}

function showDrawnTimes() {
  for (const label of document.querySelectorAll("text[data-time]")) {
    label.textContent = axisLabel(new Date(label.dataset.time), label.dataset.form);
  }
  for (const title of document.querySelectorAll("title[data-from]")) {
    const [from, until] = [new Date(title.dataset.from), new Date(title.dataset.until)];
    const text = title.textContent;
    title.textContent = `${brief(from)} to ${clock.format(until)}: ${text.slice(text.indexOf(": ") + 2)}`;
  }
}
showDrawnTimes();
document.body.addEventListener("htmx:after:swap", showDrawnTimes);

// A time in the viewer's zone beside the same time in a zone of its own: one of them is enough if the zones are equal.
function hideRepeatedTimes() {
  for (const time of document.querySelectorAll("[data-other-than]")) time.hidden = time.dataset.otherThan === zone;
}
hideRepeatedTimes();
document.body.addEventListener("htmx:after:swap", hideRepeatedTimes);

// A page that is drawn in one zone by the server begins with the viewer's.
if (document.querySelector("form[data-viewer-zone]") && !new URLSearchParams(location.search).has("zone")) {
  const here = new URL(location.href);
  here.searchParams.set("zone", zone);
  location.replace(here);
}

// -- live updates -----------------------------------------------------------------------------------------------------

const state = document.getElementById("live-state");
const banner = document.getElementById("connection");
const { events, stream } = document.body.dataset;
let paused = false;
let heardAt = Date.now(); // when the board last said something
const LIVE = window.SharedWorker ? "live" : "polling every 10 s";
const [SILENT_S, LOST_S] = [40, 120];

function showState(text, kind) {
  state.hidden = false;
  if (state.textContent !== text) state.textContent = text;
  state.dataset.kind = kind;
}

function heard() {
  heardAt = Date.now();
  if (!paused) showState(LIVE, "on");
}

// The board says something every 15 s. The text changes every ten seconds, because screen readers read it out.
setInterval(() => {
  const silent_s = Math.floor((Date.now() - heardAt) / 10000) * 10;
  if (paused || document.hidden || silent_s < SILENT_S) return;
  showState(`Not updated for ${silent_s < LOST_S ? `${silent_s} s` : `${Math.floor(silent_s / 60)} min`}`, silent_s < LOST_S ? "silent" : "lost");
  if (silent_s >= LOST_S) showBanner("The board does not answer. This page shows an earlier state.");
}, 1000);

function showBanner(text) {
  banner.hidden = !text;
  if (banner.textContent !== text) banner.textContent = text;
}

// From where the board learns of changes.
function showOrigin(origin) {
  const [text, explained] = {
    listen: ["updated at once", "The database notifies the board when a run may be due. Everything else is read each second."],
    poll: ["updated each second", "The board reads the database each second."],
    page: ["updated every 10 seconds", "This page asks the board every 10 seconds."],
  }[origin];
  const shown = document.getElementById("updates");
  shown.textContent = `${text} · `;
  shown.title = explained;
}

function handle(message) {
  if (message.origin) {
    showOrigin(message.origin);
    return;
  }
  if (message === "error") {
    showState("reconnecting", "off");
    showBanner("The board does not answer. This page is reconnecting and shows an earlier state.");
    return;
  }
  heard();
  showBanner("");
  if (message !== "alive") refresh();
}

// The worker shares one stream among all tabs. A browser without shared workers polls.
let worker = null;
if (window.SharedWorker) {
  worker = new SharedWorker(stream, { name: events }).port;
  worker.addEventListener("message", ({ data }) => handle(data));
  worker.start();
} else {
  heard();
  showOrigin("page");
  document.body.addEventListener("htmx:after:request", ({ detail }) => detail?.ctx?.response?.status < 500 && heard());
  setInterval(() => document.hidden || refresh(), 10000);
}

const follow = () => worker?.postMessage({ events: new URL(events, location.href).href });
const leave = () => worker?.postMessage({ leave: true });

function refresh() {
  if (!paused && !document.querySelector("#live input[type=checkbox]:checked")) {
    document.body.dispatchEvent(new CustomEvent("board:changed"));
  }
}

document.addEventListener("visibilitychange", () => (document.hidden ? leave() : follow()));
window.addEventListener("pagehide", leave);
window.addEventListener("pageshow", follow);

// A failed update keeps what is shown. Behind a login proxy an expired session answers with a redirect to another origin.
function explainFailure(event) {
  const status = event.detail?.ctx?.response?.status;
  if (status === 401 || status === 403) showBanner("You are signed out, or may not see this any more. Reload the page.");
  else showBanner("The page could not be updated. It shows an earlier state.");
}
document.body.addEventListener("htmx:response:error", explainFailure);
document.body.addEventListener("htmx:error", explainFailure);

// -- the theme --------------------------------------------------------------------------------------------------------

const themeButton = document.getElementById("theme");
const THEMES = ["system", "light", "dark"];

function currentTheme() {
  return document.documentElement.dataset.theme ?? "system";
}

function nextTheme() {
  const theme = THEMES[(THEMES.indexOf(currentTheme()) + 1) % THEMES.length];
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  try { localStorage.setItem("wakeboard-theme", theme); } catch { /* storage may be blocked */ }
  showTheme();
}

function showTheme() {
  themeButton.hidden = false;
  themeButton.textContent = { system: "◐", light: "☀", dark: "☾" }[currentTheme()];
  themeButton.title = `Theme: ${currentTheme()}`;
  themeButton.setAttribute("aria-label", themeButton.title);
}

themeButton.addEventListener("click", nextTheme);
showTheme();

// -- the navigation of narrow windows ----------------------------------------------------------------------------------

const sectionsButton = document.getElementById("sections-button");
sectionsButton.hidden = false; // board.css shows it in narrow windows only, and folds the navigation there
sectionsButton.addEventListener("click", () => {
  sectionsButton.setAttribute("aria-expanded", String(sectionsButton.getAttribute("aria-expanded") !== "true"));
});

// -- keys -------------------------------------------------------------------------------------------------------------

const keysDialog = document.getElementById("keys");
let afterG = false;

function togglePause() {
  paused = !paused;
  if (paused) showState("paused", "off");
  else handle("open");
}

function moveRow(step) {
  const links = [...document.querySelectorAll("#live tbody tr a[href]:first-of-type")].filter(
    (link, index, all) => all.findIndex((other) => other.closest("tr") === link.closest("tr")) === index,
  );
  if (!links.length) return;
  const at = links.findIndex((link) => link.closest("tr").contains(document.activeElement));
  links[Math.min(links.length - 1, Math.max(0, at + step))].focus();
}

const KEYS = {
  "?": () => keysDialog.showModal(),
  "/": () => document.querySelector("input[type=search]")?.focus(),
  j: () => moveRow(1),
  k: () => moveRow(-1),
  p: togglePause,
  t: nextTheme,
  r: () => location.reload(),
};

document.addEventListener("keydown", (event) => {
  const typing = event.target.closest?.("input, select, textarea, dialog[open], [contenteditable]");
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  if (afterG) {
    afterG = false;
    const link = document.querySelector(`nav a[data-key="${CSS.escape(event.key)}"]`);
    if (link) link.click();
    return;
  }
  if (event.key === "g") {
    afterG = true;
    setTimeout(() => { afterG = false; }, 1500);
    return;
  }
  const act = KEYS[event.key];
  if (act) {
    event.preventDefault();
    act();
  }
});
document.getElementById("show-keys").addEventListener("click", () => keysDialog.showModal());
