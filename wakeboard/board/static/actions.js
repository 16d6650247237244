// Actions: opens the confirmation of an action in a dialog, and keeps the place on the page to which it returns.
// Without this file the confirmation is a page of its own.
"use strict";
{
  const dialog = document.getElementById("action-dialog");
  const place = "wakeboard-place";
  let opener = null;

  async function open(link) {
    if (!dialog.contains(link)) opener = link;
    let form = null;
    try {
      const answer = await fetch(link.href, { mode: "same-origin", redirect: "error" });
      if (answer.ok) form = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("action-form");
    } catch { /* the page of the link says what is wrong */ }
    if (!form) { location.assign(link.href); return; }
    show(form);
  }

  function show(content) {
    dialog.replaceChildren(document.adoptNode(content));
    if (!dialog.open) dialog.showModal();
    (dialog.querySelector("[autofocus], textarea, input:not([type=hidden])") ?? dialog.querySelector("button, a") ?? dialog).focus();
  }

  // What is wrong with the form is shown in the dialog, which keeps what was typed.
  dialog.addEventListener("submit", async (event) => {
    const form = event.target.closest("form[method=post]");
    if (!form) return;
    event.preventDefault();
    const sent = new URLSearchParams(new FormData(form, event.submitter));
    form.inert = true;
    try {
      const answer = await fetch(form.getAttribute("action"), { method: "POST", body: sent, headers: { "Wakeboard-Dialog": "1" }, mode: "same-origin", redirect: "error" });
      const target = answer.headers.get("Wakeboard-Location");
      if (target) {
        const there = new URL(target, location.href);
        if (there.pathname + there.search === location.pathname + location.search) location.reload();
        else location.assign(there);
        return;
      }
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const content = page.getElementById("action-form") ?? page.getElementById("main") ?? page.body;
      content.removeAttribute("id");
      if (content.matches("form")) content.id = "action-form";
      show(content.matches("body") ? Object.assign(document.createElement("p"), { className: "problem", textContent: content.textContent }) : content);
    } catch {
      form.inert = false;
      const problem = Object.assign(document.createElement("p"), { className: "problem", role: "alert" });
      problem.textContent = "The board did not answer, so it is not known whether this was done. Look at the page before you try again.";
      form.prepend(problem);
    }
  });

  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-action]");
    if (link && !event.ctrlKey && !event.metaKey && !event.shiftKey && event.button === 0) {
      event.preventDefault();
      open(link);
    } else if (event.target.closest("a[data-close]") && dialog.open) {
      event.preventDefault();
      dialog.close();
    } else if (event.target === dialog) {
      dialog.close();
    }
  });
  dialog.addEventListener("close", () => {
    dialog.replaceChildren();
    // A live update may have replaced the link.
    const link = opener?.isConnected ? opener : opener && document.querySelector(`a[data-action][href="${CSS.escape(opener.getAttribute("href"))}"]`);
    link?.focus();
  });
  document.addEventListener("submit", () => {
    try { sessionStorage.setItem(place, JSON.stringify([location.pathname + location.search, scrollY])); } catch { /* storage may be blocked */ }
  });
  try {
    const kept = JSON.parse(sessionStorage.getItem(place));
    sessionStorage.removeItem(place);
    if (kept?.[0] === location.pathname + location.search) scrollTo({ top: kept[1], behavior: "instant" });
  } catch { /* storage may be blocked */ }

  // -- the selection of a list ----------------------------------------------------------------------------------------

  const boxes = () => [...document.querySelectorAll("input[type=checkbox][form=selection]")];
  function count() {
    const all = boxes();
    const chosen = all.filter((box) => box.checked).length;
    const shown = document.getElementById("selection-count");
    if (shown) shown.textContent = chosen ? `${chosen} selected` : "";
    const whole = document.getElementById("select-page");
    if (whole) {
      whole.checked = chosen > 0 && chosen === all.length;
      whole.indeterminate = chosen > 0 && chosen < all.length;
    }
  }
  document.addEventListener("change", (event) => {
    if (event.target.id === "select-page") boxes().forEach((box) => { box.checked = event.target.checked; });
    if (event.target.matches("input[type=checkbox]")) count();
  });
  count();
}
