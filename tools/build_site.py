"""Builds the documentation site into build/site: `make site`.

Its pages are those of docs/, and every file elsewhere in the repository that one of them links to, in a copy in which
the links fit the site. Zensical renders them by zensical.toml. Then each page's Markdown is put beside it, with
llms.txt (a sentence for each page) and llms-full.txt (all pages in one file). A broken link, a missing anchor and a
file of another host are errors. The same commit gives the same bytes.
"""

from __future__ import annotations

import json
import os
import posixpath
import re
import shutil
import subprocess
import sys
import time
import tomllib
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import unquote, urlsplit

from tools.stamp_version import repository_address, version

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

ROOT: Final = Path(__file__).resolve().parents[1]
WORK: Final = ROOT / "build" / "site-source"
SITE: Final = ROOT / "build" / "site"
CONFIG: Final = "zensical.toml"
VERSIONS: Final = "versions.js"
ASKS_HOST: Final = ' data-md-component="source"'  # by which each page asks GitHub for the repository's stars
EDIT: Final = "edit/main/"  # behind the address of the repository, before the path of a file
FENCE: Final = re.compile(r"(^(`{3,}).*?^\2$)", re.MULTILINE | re.DOTALL)
HEADING: Final = re.compile(r"^# (.+)$", re.MULTILINE)
# A list, a table, a fence or a link that stayed Markdown, because an empty line or an indent is missing.
PARAGRAPH: Final = re.compile(r"<p>(.*?)</p>", re.DOTALL)
LEFT_AS_TEXT: Final = re.compile(r"^(- |\|)|\n(- |\d+\. |\|)|```|\]\(")
EMPTY_HEADER: Final = re.compile(
    r"<th[^>]*></th>"
)  # of a column without a heading, which a screen reader would announce
NO_PARAGRAPH: Final = ("#", "|", "<", "!", ">", "- ", "```")
LINK: Final = re.compile(r"(?<=\]\()([^)\s#:]+)((?:#[^)\s]*)?\))")


# ------------------------------------------------------------------------------------------------ the pages


def place_in_site(name: str) -> str:
    """Where a file of the repository is in the site: docs/ is its root, and a source file is shown on a page.

    Zensical takes no file that is hidden, so `.ci/run` loses its dot.
    """
    if name.startswith("docs/"):
        return name.removeprefix("docs/")
    return name if name.endswith(".md") else f"{name.removeprefix('.')}.md"


def linked_file(page: str, target: str) -> str:
    """The file of the repository that a link of a page leads to; the README of a folder."""
    name = posixpath.normpath(posixpath.join(posixpath.dirname(page), unquote(target)))
    return f"{name}/README.md" if (ROOT / name).is_dir() else name


def with_links_of_the_site(page: str, text: str) -> tuple[str, set[str]]:
    """The page as it is in the site, and the files of the repository that it links to."""
    linked = set[str]()
    here = posixpath.dirname(place_in_site(page))

    def replaced(link: re.Match[str]) -> str:
        name = linked_file(page, link[1])
        linked.add(name)
        return posixpath.relpath(place_in_site(name), here or ".") + link[2]

    parts = FENCE.split(text)  # text, then a block of code and its fence, and so on
    parts[::3] = [LINK.sub(replaced, part) for part in parts[::3]]
    del parts[2::3]
    return "".join(parts), linked


def prepare_pages() -> dict[str, str]:
    """Copies all pages and what they link to. Returns the files of the pages, by their places in the site."""
    shutil.rmtree(WORK, ignore_errors=True)
    waiting = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*") if path.is_file())
    done: dict[str, None] = {}
    while waiting:
        name = waiting.pop(0)
        if name in done or not (ROOT / name).is_file():  # zensical reports the link of a file that is not there
            continue
        done[name] = None
        target = WORK / "pages" / place_in_site(name)
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.suffix != ".md":
            shutil.copyfile(ROOT / name, target)
            continue
        text, linked = (ROOT / name).read_text(encoding="utf-8"), set[str]()
        if name.endswith(".md"):
            text, linked = with_links_of_the_site(name, text)
        else:
            text = f"# {name}\n\n``````{Path(name).suffix[1:] or 'text'}\n{text}\n``````\n"
        target.write_text(text, encoding="utf-8")
        waiting += sorted(linked)
    (WORK / "pages" / VERSIONS).write_text(version_list(version(), version(), {version(): []}), encoding="utf-8")
    return {place: name for name in done if (place := place_in_site(name)).endswith(".md")}


def version_list(current: str, newest: str, lacking: Mapping[str, list[str]]) -> str:
    """The script that tells the pages of the version `current` what others there are, the newest first.

    `lacking` has the pages of this version that each lacks. tools/release/site.py writes it again where there are more.
    """
    listed = [{"name": name, "lacks": pages} for name, pages in lacking.items()]
    return f"var siteVersions = {json.dumps({'current': current, 'newest': newest, 'all': listed})}\n"


def render() -> None:
    """Lets Zensical write build/site. Its warnings are errors."""
    (WORK / CONFIG).write_text(configuration(), encoding="utf-8")
    shutil.rmtree(SITE, ignore_errors=True)
    program = Path(sys.executable).with_name("zensical")
    command = [str(program), "build", "--strict", "--config-file", str(WORK / CONFIG)]
    done = subprocess.run(command, cwd=WORK, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{done.stdout}{done.stderr}\nThe site was not built.")
    (WORK / "site").rename(SITE)


def mend_pages(pages: Mapping[str, str]) -> None:
    """Lets edit links of files outside of docs/ lead to them, and takes headers without text from tables.

    A link to the repository stays a link, and asks nothing of its host.

    Removes the page for addresses that do not exist: a server has one for all versions (tools/release/site.py).
    """
    (SITE / "404.html").unlink()
    edited = re.compile(rf'/{re.escape(EDIT)}docs/([^"]+)"')
    for page in SITE.rglob("*.html"):
        text = EMPTY_HEADER.sub("<td></td>", page.read_text(encoding="utf-8")).replace(ASKS_HOST, "")
        text = edited.sub(lambda link: f'/{EDIT}{pages[unquote(link[1])]}"', text)
        page.write_text(text, encoding="utf-8")


def configuration() -> str:
    """zensical.toml, with edit links if the repository has an address."""
    text = (ROOT / CONFIG).read_text(encoding="utf-8")
    if address := repository_address():
        text = text.replace("[project]\n", f'[project]\nrepo_url = "{address}"\nedit_uri = "{EDIT}docs/"\n')
    return text


# ------------------------------------------------------------------------------------------------ for programs


def write_texts(pages: Iterable[str]) -> None:
    """The Markdown of each page beside its HTML, llms.txt and llms-full.txt (see llmstxt.org)."""
    texts = {page: (WORK / "pages" / page).read_text(encoding="utf-8") for page in pages}
    for page, text in texts.items():
        (SITE / page).parent.mkdir(parents=True, exist_ok=True)
        (SITE / page).write_text(text, encoding="utf-8")
    project = tomllib.loads((ROOT / CONFIG).read_text(encoding="utf-8"))["project"]
    groups = {next(iter(entry)): list(nav_pages(entry)) for entry in project["nav"]}
    lines = [f"# {project['site_name']}", "", f"> {project['site_description']}"]
    for group, listed in groups.items():
        lines += ["", f"## {group}", ""]
        lines += [
            f"- [{label or title_of(texts[name])}]({name}): {first_sentence(texts[name])}" for name, label in listed
        ]
    (SITE / "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    names = [name for listed in groups.values() for name, _ in listed]
    whole = "\n\n".join(f"<!-- {name} -->\n\n{texts[name].strip()}" for name in names)
    (SITE / "llms-full.txt").write_text(whole + "\n", encoding="utf-8")


def nav_pages(entry: Any, label: str = "") -> Iterator[tuple[str, str]]:
    """The pages of an entry of the navigation, in its order, with their labels if they have one there."""
    if isinstance(entry, str):
        yield entry, label
    elif isinstance(entry, dict):
        for name, inner in cast("dict[str, Any]", entry).items():
            yield from nav_pages(inner, name if isinstance(inner, str) else "")
    else:
        for inner in entry:
            yield from nav_pages(inner)


def title_of(text: str) -> str:
    """The heading of a page."""
    return HEADING.findall(text)[0]


def first_sentence(text: str) -> str:
    """The first sentence of the first paragraph below the heading, without links."""
    below = HEADING.split(text, maxsplit=1)[2]
    paragraphs = (each.strip() for each in below.split("\n\n"))
    paragraph = next(each for each in paragraphs if each and not each.startswith(NO_PARAGRAPH))
    plain = re.sub(r"!?\[([^]]*)\]\([^)]*\)", r"\1", " ".join(paragraph.split()))
    return re.split(r"(?<=[.?])\s", plain)[0]


# ------------------------------------------------------------------------------------------------ the check


class Page(HTMLParser):
    """The anchors of a page, what it links to, what a browser loads for it, and paragraphs that stayed Markdown."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.anchors = set[str]()
        self.links = set[str]()
        self.loaded = set[str]()
        paragraphs = (re.sub(r"<[^>]+>", "", each) for each in PARAGRAPH.findall(html))
        self.unrendered = [each for each in paragraphs if LEFT_AS_TEXT.search(each)]
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Takes the addresses and the ids of a tag."""
        given = {name: value for name, value in attrs if value}
        self.anchors.update(given[name] for name in ("id", "name") if name in given)
        if "href" in given and not (tag == "link" and given.get("rel") == "canonical"):
            (self.loaded if tag == "link" else self.links).add(given["href"])
        if "src" in given:
            self.loaded.add(given["src"])


def problems(site: Path) -> list[str]:
    """Each link and anchor that leads nowhere, each file of another host, and text that stayed Markdown."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    found: list[str] = []
    for path, page in pages.items():
        place = path.relative_to(site)
        found += [f"{place}: not rendered: {text[:100]}" for text in page.unrendered]
        for address in sorted(page.links | page.loaded):
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                if address in page.loaded and parts.scheme != "data":
                    found.append(f"{place} loads {address}")
                continue
            base = site if parts.path.startswith("/") else path.parent
            target = Path(os.path.normpath(base / unquote(parts.path).lstrip("/"))) if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.exists():
                found.append(f"{place}: {address} is not there")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                found.append(f"{place}: {address} has no such anchor")
    return found


def main() -> int:
    """Builds the site and checks it. Returns 1 if something is wrong."""
    began = time.monotonic()
    pages = prepare_pages()
    render()
    mend_pages(pages)
    write_texts(pages)
    found = problems(SITE)
    for problem in found:
        print(problem)
    if not found:
        print(f"The site was built in {time.monotonic() - began:.0f} s: open {SITE / 'index.html'}")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
