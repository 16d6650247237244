"""Adds built sites to a folder that a web server serves: each version in a folder of its own, and a way between them.

    python -m tools.release.site FOLDER ARCHIVE…

FOLDER is the whole published site, or an empty folder. Each version has a list of all in its versions.js, a script,
because pages that are opened as files may load no other data. The start of FOLDER leads to the newest version that is
no prerelease. So a patch of an older version changes no other page, and to add an archive twice is to add it once.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from packaging.version import Version

from tools.bootstrap import report
from tools.build_site import VERSIONS, version_list
from tools.release.archives import unpack
from tools.release.source import SEMANTIC

if TYPE_CHECKING:
    from collections.abc import Iterable

PAGE: Final = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<style>html {{ background: Canvas; color: CanvasText }} a {{ color: inherit }}</style>
{head}<title>wakeboard documentation</title>
<main>
<h1>wakeboard documentation</h1>
{content}</main>
</html>
"""
# A server sends this page for every address that it does not have, so the page only knows where the reader is.
NOT_FOUND: Final = """\
<p>There is no page with this address. <a id="start" href="/">Go to the start of the documentation.</a></p>
<script>
const version = location.pathname.match(/^.*?\\/\\d+\\.\\d+\\.\\d+[^/]*\\//)
if (version) document.getElementById("start").href = version[0] + "index.html"
</script>
"""


def add(folder: Path, archives: Iterable[Path]) -> list[str]:
    """Adds the sites. Returns the versions in the folder, the newest first. Raises SystemExit for another archive."""
    folder.mkdir(parents=True, exist_ok=True)
    for archive in archives:
        with tempfile.TemporaryDirectory(dir=folder, prefix=".adding-") as name:
            unpack(archive, Path(name))
            found = list(Path(name).iterdir())
            if len(found) != 1 or not _is_version(found[0]):
                sys.exit(f"{archive} is no site of a release: it has {', '.join(path.name for path in found)}.")
            shutil.rmtree(folder / found[0].name, ignore_errors=True)
            shutil.move(found[0], folder / found[0].name)
    versions = sorted(filter(_is_version, folder.iterdir()), key=lambda path: Version(path.name), reverse=True)
    _write_lists({path.name: _pages(path) for path in versions}, folder)
    return [path.name for path in versions]


def _is_version(path: Path) -> bool:
    return bool(re.fullmatch(SEMANTIC, path.name)) and (path / VERSIONS).is_file()


def _pages(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*.html")}


def _write_lists(pages: dict[str, set[str]], folder: Path) -> None:
    """`pages` has those of each version, the newest first."""
    newest = next((name for name in pages if not Version(name).is_prerelease), next(iter(pages)))
    for name, own in pages.items():
        lacking = {other: sorted(own - those) for other, those in pages.items()}
        (folder / name / VERSIONS).write_text(version_list(name, newest, lacking), encoding="utf-8")
    items = "".join(f'<li><a href="{name}/index.html">{name}</a></li>\n' for name in pages)
    leads = f'<meta http-equiv="refresh" content="0; url={newest}/index.html">\n'
    index = PAGE.format(head=leads, content=f"<p>Versions, the newest first:</p>\n<ul>\n{items}</ul>\n")
    (folder / "index.html").write_text(index, encoding="utf-8")
    (folder / "404.html").write_text(PAGE.format(head="", content=NOT_FOUND), encoding="utf-8")


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description="Adds built sites to a folder that a web server serves.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("archives", nargs="+", type=Path, metavar="ARCHIVE")
    given = parser.parse_args()
    report(f"{given.folder} has the documentation of {', '.join(add(given.folder, given.archives))}.")


if __name__ == "__main__":
    main()
