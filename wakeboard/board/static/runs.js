// The search box of the list of runs: suggestions for the word under the caret, chosen by keyboard or pointer.
// Without this file the box is a plain search field with a <datalist>.
"use strict";
{
  const box = document.getElementById("run-search");
  const list = document.createElement("ul");
  list.id = "run-search-list";
  list.className = "run-suggestions";
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-label", "Suggestions");
  list.hidden = true;
  box.removeAttribute("list");
  box.after(list);
  for (const [name, value] of [["role", "combobox"], ["aria-autocomplete", "list"], ["aria-expanded", "false"], ["aria-controls", list.id]]) {
    box.setAttribute(name, value);
  }
  let chosen = -1;
  let asked = 0;
  let timer = 0;

  // The word under the caret: from the white space before it, outside quotes, to the caret.
  function word() {
    const before = box.value.slice(0, box.selectionStart);
    let start = 0;
    let quoted = false;
    for (let at = 0; at < before.length; at += 1) {
      if (before[at] === '"' && before[at - 1] !== "\\") quoted = !quoted;
      if (/\s/.test(before[at]) && !quoted) start = at + 1;
    }
    return { start, text: before.slice(start) };
  }

  function close() {
    list.hidden = true;
    chosen = -1;
    box.setAttribute("aria-expanded", "false");
    box.removeAttribute("aria-activedescendant");
  }

  function mark(index) {
    const options = [...list.children];
    chosen = (index + options.length) % options.length;
    options.forEach((option, at) => option.setAttribute("aria-selected", String(at === chosen)));
    options[chosen].scrollIntoView({ block: "nearest" });
    box.setAttribute("aria-activedescendant", options[chosen].id);
  }

  function take(text) {
    const { start } = word();
    const rest = box.value.slice(box.selectionStart).replace(/^\S+/, "");
    const complete = !/[:.]$/.test(text);
    const taken = box.value.slice(0, start) + text + (complete && !rest ? " " : "");
    box.value = taken + rest;
    box.setSelectionRange(taken.length, taken.length);
    close();
    if (!complete) ask();
  }

  async function ask() {
    const { text } = word();
    const number = (asked += 1);
    if (!text) { close(); return; }
    let found = [];
    try {
      const answer = await fetch(`${box.dataset.suggestions}?${new URLSearchParams({ word: text })}`, { mode: "same-origin" });
      found = answer.ok ? await answer.json() : [];
    } catch { /* the banner reports a board that does not answer */ }
    if (number !== asked || document.activeElement !== box) return;
    if (!found.length || (found.length === 1 && found[0].text === text)) { close(); return; }
    const kept = list.hidden ? undefined : list.children[chosen]?.dataset.text; // an answer that comes later keeps the choice
    list.replaceChildren(...found.map(({ text: suggestion, hint }, at) => {
      const option = document.createElement("li");
      option.id = `run-suggestion-${at}`;
      option.setAttribute("role", "option");
      option.setAttribute("aria-selected", "false");
      option.dataset.text = suggestion;
      option.append(suggestion);
      if (hint) {
        const note = document.createElement("span");
        note.textContent = hint;
        option.append(" ", note);
      }
      return option;
    }));
    chosen = -1;
    list.hidden = false;
    box.setAttribute("aria-expanded", "true");
    const again = found.findIndex(({ text: suggestion }) => suggestion === kept);
    if (again >= 0) mark(again);
  }

  box.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(ask, 80); });
  box.addEventListener("blur", close);
  box.addEventListener("keydown", (event) => {
    if (list.hidden) {
      if (event.key === "ArrowDown") { event.preventDefault(); ask(); }
      return;
    }
    if (event.key === "ArrowDown") { event.preventDefault(); mark(chosen + 1); }
    else if (event.key === "ArrowUp") { event.preventDefault(); mark(chosen < 0 ? -1 : chosen - 1); }
    else if (event.key === "Escape") { event.preventDefault(); close(); }
    else if ((event.key === "Enter" || event.key === "Tab") && chosen >= 0) { event.preventDefault(); take(list.children[chosen].dataset.text); }
  });
  list.addEventListener("pointerdown", (event) => {
    event.preventDefault(); // the box keeps the focus
    const option = event.target.closest("li");
    if (option) take(option.dataset.text);
  });
}
