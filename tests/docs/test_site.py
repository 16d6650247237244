"""The documentation site is built without a warning, and a browser shows it without a server or a network."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from typing import TYPE_CHECKING, Any, Final, Literal

import pytest
from axe_playwright_python.base import AXE_SCRIPT  # pyright: ignore[reportMissingTypeStubs]

from testbed.processes import ROOT
from tools import build_site
from tools.build_site import SITE, nav_pages
from tools.release.archives import pack_folder
from tools.release.site import add as add_sites
from tools.screenshots import DOCS, IN_DOCS

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.async_api import Page

# One process, so that the site is built once.
pytestmark = [pytest.mark.anyio, pytest.mark.xdist_group("site")]

PHONE: Final[Any] = {"width": 390, "height": 844}
WIDE: Final[Any] = {"width": 1440, "height": 900}
# One page of each kind, and those with the widest tables and blocks of code.
WALKED: Final = [
    *("index.md", "tutorials/python-application.md", "board.md", "settings.md", "sql-functions.md"),
    *("charts/wakeboard/README.md", "benchmarks.md", "decisions/README.md"),
]


@pytest.fixture(scope="session")
def site() -> Path:
    """The built site."""
    done = subprocess.run(
        [sys.executable, "-m", "tools.build_site"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return SITE


async def test_edit_links_lead_to_the_files_of_the_pages_and_ask_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page: Page
) -> None:
    monkeypatch.setattr(build_site, "repository_address", lambda: "https://github.com/acme/wakeboard")
    monkeypatch.setattr(build_site, "WORK", tmp_path / "work")
    monkeypatch.setattr(build_site, "SITE", tmp_path / "site")
    pages = build_site.prepare_pages()
    build_site.render()
    build_site.mend_pages(pages)
    html = [file.read_text("utf-8") for file in (tmp_path / "site").rglob("*.html")]
    edited = [link for text in html for link in re.findall(r"github\.com/acme/wakeboard/edit/main/([^\"]+)", text)]
    assert sorted(edited) == sorted(pages.values())
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    await page.goto(address(tmp_path / "site", "install.md"), wait_until="networkidle")
    assert [url for url in asked if url.startswith("http")] == []


def listed_pages() -> list[str]:
    """The pages of the navigation."""
    project = tomllib.loads((ROOT / "zensical.toml").read_text("utf-8"))["project"]
    return [page for entry in project["nav"] for page, _ in nav_pages(entry)]


def test_every_page_has_its_place_in_the_navigation() -> None:
    assert {page.name for page in (ROOT / "docs").glob("*.md")} <= set(listed_pages())


def test_the_command_for_screenshots_takes_each_picture_of_the_board() -> None:
    taken = {f"{name}-{look}.png" for look, pages in IN_DOCS.items() for name in pages}
    assert {picture.name for picture in DOCS.iterdir()} == taken


def address(site: Path, page: str) -> str:
    path = re.sub(r"(README)?\.md$", lambda found: "index.html" if found[1] else ".html", page)
    return (site / path).as_uri()


async def test_pages_fit_a_phone_without_errors_or_foreign_requests(site: Path, page: Page) -> None:
    found: list[str] = []
    page.on("console", lambda message: found.append(f"{page.url}: {message.text}"))
    page.on("pageerror", lambda error: found.append(f"{page.url}: {error}"))
    page.on(
        "request",
        lambda request: None if request.url.startswith(("file:", "blob:", "data:")) else found.append(request.url),
    )
    await page.route("**/search.js", lambda route: route.fulfill(body=""))  # each page reads a megabyte of it
    await page.set_viewport_size(PHONE)
    for name in WALKED:
        await page.goto(address(site, name))
        assert await page.locator("article h1").count() == 1, name
        if await page.evaluate("document.documentElement.scrollWidth > innerWidth"):
            found.append(f"{name} scrolls sideways")

    assert found == []


async def violations(page: Page, addresses: list[str]) -> list[str]:
    """What axe finds on these pages, wide and light, and dark on a phone."""
    found: list[str] = []
    screens: list[tuple[Literal["light", "dark"], Any]] = [("light", WIDE), ("dark", PHONE)]
    await page.route("**/search.js", lambda route: route.fulfill(body=""))
    for each in addresses:
        for scheme, size in screens:
            await page.set_viewport_size(size)
            await page.emulate_media(color_scheme=scheme)
            await page.goto(each)
            await page.evaluate(AXE_SCRIPT)
            results = await page.evaluate("axe.run({resultTypes: ['violations'], preload: false})")
            found += [
                f"{each}, {scheme}: {rule['id']}: {rule['nodes'][0]['html'][:200]}" for rule in results["violations"]
            ]
    return found


@pytest.mark.parametrize("name", WALKED)
async def test_pages_of_each_kind_are_accessible_on_both_screens(site: Path, page: Page, name: str) -> None:
    assert await violations(page, [address(site, name)]) == []


@pytest.fixture(scope="session")
def published(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the site as that of three versions; the oldest has a page that the others lack."""
    folder = tmp_path_factory.mktemp("published")
    for version in ("0.1.1", "0.10.0", "0.2.0"):
        shutil.copytree(site, folder / version / version)
        if version == "0.1.1":
            shutil.copy(folder / version / version / "board.html", folder / version / version / "gone.html")
        pack_folder(folder / version, folder / f"{version}.tar.gz", 0)
    add_sites(folder / "all", sorted(folder.glob("*.tar.gz")))
    return folder / "all"


async def test_pages_lead_to_the_same_page_of_another_version(published: Path, page: Page) -> None:
    versions = page.get_by_label("Version").and_(page.locator("select"))
    await page.goto((published / "index.html").as_uri())
    await page.wait_for_url("**/0.10.0/index.html")
    assert await versions.locator("option").all_inner_texts() == ["0.10.0", "0.2.0", "0.1.1"]
    assert await page.get_by_text("This is the documentation of").count() == 0
    await page.goto((published / "0.10.0/tutorials/cronjobs.html").as_uri())
    await versions.select_option("0.2.0")
    await page.wait_for_url("**/0.2.0/tutorials/cronjobs.html")
    await page.get_by_role("link", name="The newest is 0.10.0.").click()
    await page.wait_for_url("**/0.10.0/tutorials/cronjobs.html")
    await page.goto((published / "0.1.1/gone.html").as_uri())
    await versions.select_option("0.2.0")
    await page.wait_for_url("**/0.2.0/index.html")


async def test_what_all_versions_share_is_accessible_on_both_screens(published: Path, page: Page) -> None:
    text = re.sub("<meta http-equiv=.*", "", (published / "index.html").read_text("utf-8"))
    (published / "list.html").write_text(text, "utf-8")  # the index, before it leads on
    found = await violations(
        page, [(published / name).as_uri() for name in ("list.html", "404.html", "0.1.1/gone.html")]
    )
    assert found == []


async def test_the_search_finds_a_page_without_a_server(site: Path, page: Page) -> None:
    await page.goto(address(site, "index.md"))
    await page.keyboard.press("Control+k")
    await page.get_by_placeholder("Search").press_sequentially("fencing token lease epoch")
    await page.locator("a[href*='architecture.html?h=fencing']").first.click()
    await page.wait_for_url("**/architecture.html*")


def test_llms_txt_says_a_sentence_about_each_page(site: Path) -> None:
    lines = re.findall(r"^- \[(.+)\]\((.+)\): (.+)$", (site / "llms.txt").read_text("utf-8"), re.MULTILINE)
    assert [page for _, page, _ in lines] == listed_pages()
    assert all(sentence[-1] in ".:?" for _, _, sentence in lines)
    assert all((site / page).exists() for _, page, _ in lines)
