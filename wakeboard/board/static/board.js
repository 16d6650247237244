// What pages do beyond HTML: times in the viewer's zone, live updates, the connection banner, and keys.
// Everything works without this file; it only adds to what the server has rendered.
"use strict";

// -- times ------------------------------------------------------------------------------------------------------------

// <board-time datetime="…Z" [relative]>: the element keeps the server's text in UTC, and shows the viewer's zone in its
// shadow. A morph replaces the text and never the shadow.
const absolute = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
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

class BoardTime extends HTMLElement {
  static observedAttributes = ["datetime", "relative"];
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
    this.shadowRoot.textContent = near ?? local;
    this.title = `${local} ${zone} · ${moment.toISOString().replace("T", " ").replace(/\.\d+Z/, " UTC")}`;
  }
}
customElements.define("board-time", BoardTime);
setInterval(() => document.querySelectorAll("board-time[relative]").forEach((time) => time.show()), 1000);
document.getElementById("viewer-zone").textContent = zone;

// -- live updates -----------------------------------------------------------------------------------------------------

const state = document.getElementById("live-state");
const banner = document.getElementById("connection");
const { events, stream } = document.body.dataset;
let paused = false;

function showState(text, kind) {
  state.hidden = false;
  state.textContent = text;
  state.dataset.kind = kind;
}

function say(text) {
  banner.hidden = !text;
  if (banner.textContent !== text) banner.textContent = text;
}

function handle(message) {
  if (message === "error") {
    showState("reconnecting", "off");
    say("The board does not answer. This page is reconnecting and shows an earlier state.");
    return;
  }
  showState("live", "on");
  say("");
  refresh();
}

// The worker shares one stream among all tabs. A browser without shared workers polls.
let worker = null;
if (window.SharedWorker) {
  worker = new SharedWorker(stream, { name: events }).port;
  worker.addEventListener("message", ({ data }) => handle(data));
  worker.start();
} else {
  showState("polling every 10 s", "on");
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
document.body.addEventListener("htmx:response:error", () => say("The page could not be updated. It shows an earlier state."));
