// The log of a run: it shows its end, and follows it while the viewer has not scrolled up. Two attempts begin at their
// first lines.
"use strict";
{
  let follows = !location.hash && !document.querySelector(".log-beside");

  function log() { return document.getElementById("log"); }

  function toEnd() {
    const shown = log();
    if (shown && follows) shown.scrollTop = shown.scrollHeight;
  }

  // Scroll events do not bubble.
  document.addEventListener("scroll", ({ target }) => {
    if (target === log()) follows = target.scrollTop + target.clientHeight >= target.scrollHeight - 24;
  }, true);
  document.body.addEventListener("htmx:after:swap", toEnd);
  document.getElementById("log-wrap").addEventListener("change", toEnd);
  toEnd();
}
