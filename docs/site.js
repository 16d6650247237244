// The site (zensical.toml). The theme wraps tables in a part that scrolls, which a keyboard must reach, and gives each block of
// code a landmark without a name.
function mend() {
  for (const part of document.querySelectorAll(".md-typeset__scrollwrap")) {
    if (part.scrollWidth > part.clientWidth) part.tabIndex = 0
    else part.removeAttribute("tabindex")
  }
  for (const buttons of document.querySelectorAll("nav.md-code__nav")) buttons.role = "none"
}
new MutationObserver(mend).observe(document.body, { childList: true, subtree: true })
addEventListener("resize", mend)
addEventListener("load", mend)
mend()
