"""`make release`: builds the artifacts into dist/, with a manifest and checksums. Publishes nothing.

python -m tools.release [--into dist] [--only wheel sdist …]
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from pathlib import Path
from typing import Final

from testbed.cluster.images import ImageMissing
from tools.bootstrap import report
from tools.chart_linters import ToolMissing
from tools.release.artifacts import ARTIFACTS, Artifact
from tools.release.go_module import Refused
from tools.release.manifest import build, is_release
from tools.release.notes import NoNotes
from tools.release.source import ROOT, Source

RELEASE_S: Final = 900  # what it may take on two cores, when the caches are full
SITE_S: Final = 60


def main() -> None:
    """Reads the command line. The folder of an earlier release is replaced when everything is built."""
    parser = argparse.ArgumentParser(prog="make release", description="Builds what a release consists of.")
    parser.add_argument("--into", type=Path, default=ROOT / "dist", help="the folder; dist if not given")
    parser.add_argument("--only", nargs="+", choices=[each.name for each in ARTIFACTS], metavar="NAME", default=[])
    given = parser.parse_args()
    chosen = [each for each in ARTIFACTS if each.name in given.only or not given.only]
    folder: Path = given.into.resolve()
    if folder.exists() and not replaceable(folder):
        sys.exit(f"{folder} is not a release alone, and would be replaced: remove it, or name another folder.")
    began = time.monotonic()
    source = Source.read()
    report(str(source))
    _stop_without_tools(chosen)
    unfinished = ROOT / "build" / "release"
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    try:
        times = build(chosen, source, unfinished)
    except (NoNotes, Refused) as refusal:
        sys.exit(str(refusal))
    if folder.exists():
        shutil.rmtree(folder)
    shutil.move(unfinished, folder)
    report(f"{folder} has {len(chosen)} artifacts. {source}")
    site = f", of which the site took {times['site']:.0f} s (at most {SITE_S} s)" if "site" in times else ""
    report(f"The release took {time.monotonic() - began:.0f} s (at most {RELEASE_S} s){site}.")


def replaceable(folder: Path) -> bool:
    """Whether nothing is lost if the folder is removed: it is empty, or has the files of a release and no others."""
    return folder.is_dir() and (not any(folder.iterdir()) or is_release(folder))


def _stop_without_tools(artifacts: list[Artifact]) -> None:
    missing: dict[str, str] = {}
    for artifact in artifacts:
        try:
            artifact.require()
        except (ImageMissing, ToolMissing) as words:
            missing.setdefault(str(words), artifact.name)
    if missing:
        lines = "\n".join(f"{name}: {words}" for words, name in missing.items())
        sys.exit(f"{lines}\nTo build other artifacts alone: make release RELEASE_ARGS='--only NAME …'")


if __name__ == "__main__":
    main()
