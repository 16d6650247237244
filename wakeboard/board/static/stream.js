// A shared worker: holds one event stream for all tabs of this board. A browser allows six connections to one origin, so
// a stream for each tab would block the seventh.
"use strict";

const tabs = new Set();
let source = null;
let origin = ""; // of changes: "listen" or "poll"
let heardAt = 0; // when the stream said something; it does so every 15 s at least
const SILENT_MS = 40000;

function broadcast(message) {
  for (const tab of tabs) tab.postMessage(message);
}

function open(address) {
  if (source) {
    if (source.readyState === EventSource.OPEN) broadcast("open");
    if (origin) broadcast({ origin });
    return;
  }
  source = new EventSource(address);
  heardAt = Date.now();
  for (const type of ["open", "changed", "alive"]) {
    source.addEventListener(type, () => {
      heardAt = Date.now();
      broadcast(type);
    });
  }
  source.addEventListener("source", ({ data }) => broadcast({ origin: (origin = data) }));
  source.addEventListener("renew", () => {
    close();
    open(address);
  });
  source.addEventListener("error", () => {
    broadcast("error");
    if (source && source.readyState === EventSource.CLOSED) {
      close();
      setTimeout(() => tabs.size && open(address), 3000);
    }
  });
}

// A network that is gone ends no stream. A new one may have another way.
setInterval(() => {
  if (!source || Date.now() - heardAt < SILENT_MS) return;
  const address = source.url;
  close();
  open(address);
}, 5000);

function close() {
  if (source) source.close();
  source = null;
}

addEventListener("connect", (event) => {
  const tab = event.ports[0];
  tab.addEventListener("message", ({ data }) => {
    if (data.leave) {
      tabs.delete(tab);
      if (!tabs.size) close();
    } else {
      tabs.add(tab);
      open(data.events);
    }
  });
  tab.start();
});
