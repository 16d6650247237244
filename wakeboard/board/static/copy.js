// Copy buttons. Each has what it copies as a JSON string, so that no byte is lost in HTML.
"use strict";
{
  document.documentElement.dataset.copy = "on";

  // navigator.clipboard is undefined on plain HTTP. Then the copy command is used, and its data is replaced.
  async function copy(text) {
    if (navigator.clipboard) {
      try { await navigator.clipboard.writeText(text); return true; } catch { /* refused: try the command */ }
    }
    const field = document.createElement("textarea");
    field.value = text;
    field.className = "visually-hidden";
    document.body.append(field);
    field.select();
    const replace = (event) => { event.clipboardData.setData("text/plain", text); event.preventDefault(); };
    document.addEventListener("copy", replace);
    const copied = document.execCommand("copy");
    document.removeEventListener("copy", replace);
    field.remove();
    return copied;
  }

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button[data-copy]");
    if (!button) return;
    const copied = await copy(JSON.parse(button.dataset.copy));
    button.focus();
    button.dataset.label ??= button.textContent;
    button.textContent = copied ? button.dataset.copied ?? "Copied" : "Copying was refused";
    setTimeout(() => { button.textContent = button.dataset.label; }, 1500);
  });
}
