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

// Where several versions are published beside this one (versions.js), a list leads to the same page of another, or to its start.
function addVersions({ current, newest, all }) {
  const root = new URL(JSON.parse(document.getElementById("__config").textContent).base + "/", location)
  const page = decodeURI(location.pathname.slice(root.pathname.length)) || "index.html"
  const address = ({ name, lacks }) => new URL(`../${name}/${lacks.includes(page) ? "index.html" : page}`, root).href
  const list = Object.assign(document.createElement("select"), { className: "site-versions", ariaLabel: "Version" })
  for (const each of all) list.add(new Option(each.name, address(each), false, each.name === current))
  list.onchange = () => location.assign(list.value)
  document.querySelector(".md-header__title").after(list)
  const title = document.querySelector(".md-header__topic .md-ellipsis")
  title.textContent = title.textContent.replace(current, "").trim() // the list says it
  if (current === newest) return
  const link = Object.assign(document.createElement("a"), { href: address(all.find((each) => each.name === newest)) })
  link.textContent = `The newest is ${newest}.`
  const note = Object.assign(document.createElement("aside"), { className: "site-note", ariaLabel: "Version" })
  note.append(`This is the documentation of ${current}. `, link)
  document.querySelector(".md-content__inner").prepend(note)
}
if (siteVersions.all.length > 1) addVersions(siteVersions)
