"""Packs `kubectl wakeboard` for krew: `python -m tools.kubectl_plugin FOLDER`.

For each system it makes an archive with the plugin, this checkout's code and every package that it needs, and one
manifest `wakeboard.yaml` that names them with their hashes. pydantic-core is the only package that depends on the
system and on Python, so an archive has it for each Python that wakeboard supports. Every file is compared with its
hash in locks/. Packed twice, an archive has the same bytes.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tools.bootstrap import OUR_PIP, ROOT, report
from tools.stamp_version import repository_address, version

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

LOCK: Final = ROOT / "locks" / "operator.txt"
PURE: Final = (
    *("typer", "annotated-doc", "shellingham", "rich", "markdown-it-py", "mdurl", "pygments"),
    *("pydantic", "annotated-types", "typing-extensions", "typing-inspection"),
    *("croniter", "python-dateutil", "tzdata"),
)
COMPILED: Final = "pydantic-core"
PYTHONS: Final = ("3.11", "3.12", "3.13", "3.14")
SYSTEMS: Final = {  # of krew, and the tags of wheels
    ("linux", "amd64"): ("manylinux_2_17_x86_64", "manylinux2014_x86_64"),
    ("linux", "arm64"): ("manylinux_2_17_aarch64", "manylinux2014_aarch64"),
    ("darwin", "amd64"): ("macosx_10_12_x86_64",),
    ("darwin", "arm64"): ("macosx_11_0_arm64",),
}
PROGRAMS: Final = ("kubectl-wakeboard", "kubectl_complete-wakeboard")
# Krew links one program of an archive. The other is a link to that link, so an upgrade changes both.
COMPLETION: Final = 'ln -s kubectl-wakeboard "${KREW_ROOT:-$HOME/.krew}/bin/kubectl_complete-wakeboard"'
NO_HOME: Final = "https://example.com/wakeboard"  # krew requires a page and an address for each archive
LAUNCHER: Final = '''\
#!/usr/bin/env python3
"""Starts the plugin with the packages beside this file; by its other name it completes what is typed for the plugin."""
import os
import sys

if not (3, 11) <= sys.version_info[:2] <= (3, 14):
    sys.exit("wakeboard: this is Python {}.{}; python3 must be 3.11 to 3.14.".format(*sys.version_info))
here = os.path.dirname(os.path.realpath(__file__))
sys.path[0:1] = [os.path.join(here, "lib"), os.path.join(here, "lib{}{}".format(*sys.version_info))]

from wakeboard.cli.kubectl import complete, main

sys.exit(complete() if os.path.basename(sys.argv[0]).startswith("kubectl_complete") else main())
'''
MANIFEST: Final = """\
apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: wakeboard
spec:
  version: v{version}
  homepage: {home}
  shortDescription: Schedules and runs of wakeboard
  description: |
    Lists schedules and runs of wakeboard, explains why something does not run,
    follows logs, and retries, cancels and starts runs. It asks the web board
    through the API server, with the permissions of the user.
  caveats: |
    It needs python3, from 3.11 to 3.14, and a board with the login `kubernetes`.
    Krew links one program of a plugin. For completion, link the other, once:
      {completion}
  platforms:
"""
PLATFORM: Final = """\
  - selector:
      matchLabels:
        os: {os}
        arch: {arch}
    uri: {url}
    sha256: {sha256}
    bin: kubectl-wakeboard
"""


def pack(folder: Path) -> list[Path]:
    """Makes the archives and the manifest, and returns their paths. Raises SystemExit if a package is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    archives: dict[tuple[str, str], Path] = {}
    with tempfile.TemporaryDirectory() as work:
        common = Path(work) / "common"
        _unpack(_downloaded(Path(work) / "pure", PURE), common / "lib")
        _add_our_code(common)
        for (system, machine), tags in SYSTEMS.items():
            archive = folder / f"kubectl-wakeboard-{version()}-{system}-{machine}.tar.gz"
            archive.write_bytes(_archive(common, _compiled(Path(work) / f"{system}-{machine}", tags)))
            archives[system, machine] = archive
    manifest = folder / "wakeboard.yaml"
    manifest.write_text(krew_manifest(archives, repository_address()), "utf-8")
    return [*archives.values(), manifest]


def krew_manifest(archives: Mapping[tuple[str, str], Path], repository: str) -> str:
    """Krew's manifest of these archives, as the release of this version in the repository will have them."""
    home = repository or NO_HOME
    manifest = MANIFEST.format(version=version(), home=home, completion=COMPLETION)
    for (system, machine), archive in archives.items():
        url = f"{home}/releases/download/v{version()}/{archive.name}"
        digest = hashlib.sha256(archive.read_bytes()).hexdigest()
        manifest += PLATFORM.format(os=system, arch=machine, url=url, sha256=digest)
    return manifest


def _add_our_code(folder: Path) -> None:
    for source in sorted((ROOT / "wakeboard").rglob("*.py")):
        target = folder / "lib" / source.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
    for name in PROGRAMS:
        (folder / name).write_text(LAUNCHER, "utf-8")
    for name in ("LICENSE", "NOTICE"):
        shutil.copyfile(ROOT / name, folder / name)


def _compiled(folder: Path, tags: tuple[str, ...]) -> Path:
    """A folder with pydantic-core for each Python."""
    for python in PYTHONS:
        options = [f"--python-version={python}", "--implementation=cp", *(f"--platform={tag}" for tag in tags)]
        found = _downloaded(folder / "wheels" / python, (COMPILED,), *options)
        _unpack(found, folder / "unpacked" / f"lib{python.replace('.', '')}")
    return folder / "unpacked"


def _downloaded(folder: Path, names: tuple[str, ...], *options: str) -> list[Path]:
    """The wheels of these packages, in the versions and with the hashes of the lock."""
    folder.mkdir(parents=True)
    needed = folder / "needed.txt"
    needed.write_text("\n".join(_requirement(name) for name in names), "utf-8")
    download = [*OUR_PIP, "download", "--quiet", "--disable-pip-version-check", "--require-hashes", "--no-deps"]
    if subprocess.call([*download, "--only-binary=:all:", *options, f"--dest={folder}", "-r", str(needed)]):
        sys.exit("The wheels could not be downloaded; pip's output is above.")
    return sorted(folder.glob("*.whl"))


def _requirement(name: str) -> str:
    found = re.search(rf"^{re.escape(name)}==(?:.*\\\n)*.*\n", LOCK.read_text("utf-8"), re.MULTILINE)
    if found is None:
        sys.exit(f"{LOCK} does not name {name}: adapt PURE in tools/kubectl_plugin.py.")
    return found[0]


def _unpack(wheels: list[Path], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as packed:
            packed.extractall(folder)  # noqa: S202 - pip has compared its hash


def _archive(*folders: Path) -> bytes:
    """The files of these folders as one archive, whose bytes depend on nothing else."""
    unpacked = io.BytesIO()
    with tarfile.open(fileobj=unpacked, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, file in sorted(_files(*folders)):
            about = tarfile.TarInfo(name)
            about.size, about.mode = (
                file.stat().st_size,
                0o755 if "/" not in name and name.startswith("kubectl") else 0o644,
            )
            with file.open("rb") as content:
                archive.addfile(about, content)
    return gzip.compress(unpacked.getvalue(), mtime=0)


def _files(*folders: Path) -> Iterator[tuple[str, Path]]:
    for folder in folders:
        yield from ((file.relative_to(folder).as_posix(), file) for file in folder.rglob("*") if file.is_file())


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description="Packs `kubectl wakeboard` for krew.")
    parser.add_argument("folder", type=Path)
    for path in pack(parser.parse_args().folder):
        report(f"{path} ({path.stat().st_size >> 10} KiB)")


if __name__ == "__main__":
    main()
