"""What the images contain: the packages of a lock file, with the licences that their metadata names.

Versions come from the lock, licences from the packages themselves, which `make setup` has installed at
the same versions. The base image's own packages (Debian, CPython) are in no lock: the base is chosen at build time, and
says what it has in an image that is built.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from packaging.requirements import Requirement

if TYPE_CHECKING:
    from collections.abc import Mapping
    from email.message import Message

ROOT: Final = Path(__file__).resolve().parents[1]
VENDORED: Final = ROOT / "wakeboard" / "board" / "static" / "vendor"
LOCKS: Final[Mapping[str, tuple[str, ...]]] = {
    "operator": ("operator",),
    "worker": ("worker",),
    "jobs": ("worker",),
    "board": ("board",),
    "worker-build": ("worker", "build"),
}
"""The lock files of an image."""
LINUX: Final = {"sys_platform": "linux", "platform_system": "Linux", "python_version": "3.13"}
"""The images' platform, as environment markers see it."""

SPDX: Final[Mapping[str, str]] = {  # SPDX expressions of classifiers and free texts
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache 2.0": "Apache-2.0",
    "ISC License": "ISC",
    "License :: OSI Approved :: Apache Software License": "Apache-2.0",
    "License :: OSI Approved :: BSD License": "BSD-3-Clause",  # of Jinja2, as its licence file says
    "License :: OSI Approved :: MIT License": "MIT",
    "License :: OSI Approved :: Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "License :: OSI Approved :: ISC License (ISCL)": "ISC",
}


class LicenceUnknown(Exception):
    """A package's metadata names no licence that SPDX knows: add its text to the table SPDX."""


@dataclass(frozen=True, slots=True)
class Package:
    """One package in an image. `licence` is an SPDX expression. `sha256`: of each of its files that the lock allows.

    A package of Debian has neither: its licences are in the image, below /usr/share/doc. `qualifiers` are those of its
    package URL.
    """

    name: str
    version: str
    licence: str
    homepage: str
    sha256: tuple[str, ...]
    ecosystem: str = "pypi"
    qualifiers: tuple[tuple[str, str], ...] = ()


def packages(image: str) -> list[Package]:
    """What is installed in `image`, one of LOCKS, besides the base image and wakeboard, by name.

    Raises LicenceUnknown, and PackageNotFoundError where .venv has another version than the lock.
    """
    texts = [(ROOT / "locks" / f"{lock}.txt").read_text(encoding="utf-8") for lock in LOCKS[image]]
    locked = [entry for text in texts for entry in re.split(r"\n(?=\S)", text) if not entry.startswith("#")]
    found = {package.name: package for entry in locked if (package := _package(entry)) is not None}
    return [found[name] for name in sorted(found)] + (vendored() if image == "board" else [])


def vendored() -> list[Package]:
    """The files of other projects that the board serves to browsers."""
    files = tomllib.loads((VENDORED / "vendor.toml").read_text(encoding="utf-8"))["file"]
    return [
        Package(file["package"], file["version"], file["licence"], file["homepage"], (file["sha256"],), "npm")
        for file in files
    ]


def debian_packages(os_release: str, status: str) -> list[Package]:
    """What Debian has installed, by name, from the texts of /etc/os-release and /var/lib/dpkg/status."""
    system = dict(re.findall(r'^(ID|VERSION_ID)="?([^"\n]*)', os_release, re.MULTILINE))
    found: list[Package] = []
    for paragraph in status.strip().split("\n\n"):
        field = dict(re.findall(r"^([\w-]+): (.*)$", paragraph, re.MULTILINE))
        if not field["Status"].endswith(" installed"):
            continue
        qualifiers = [("arch", field["Architecture"]), ("distro", f"{system['ID']}-{system['VERSION_ID']}")]
        if source := field.get("Source", ""):  # what advisories name; its version is in brackets if it is another
            qualifiers.append(("upstream", re.sub(r" \((.+)\)", r"@\1", source)))
        homepage = field.get("Homepage", "")
        found.append(Package(field["Package"], field["Version"], "", homepage, (), "deb", tuple(qualifiers)))
    return sorted(found, key=lambda package: package.name)


def _package(entry: str) -> Package | None:
    requirement = Requirement(entry.partition(" \\")[0])
    if requirement.marker is not None and not requirement.marker.evaluate(dict(LINUX)):
        return None
    (version,) = (specifier.version for specifier in requirement.specifier)
    found = cast("Message", metadata(requirement.name))
    if found["Version"] != version:
        raise PackageNotFoundError(f"{requirement.name} {version}; type: make setup")
    hashes = tuple(sorted(re.findall(r"--hash=sha256:([0-9a-f]{64})", entry)))
    return Package(requirement.name, version, _licence(found), _homepage(found), hashes)


def _licence(found: Message) -> str:
    classifiers = [line for line in found.get_all("Classifier") or [] if line in SPDX]
    declared = found.get("License-Expression") or found.get("License") or next(iter(classifiers), "")
    licence = SPDX.get(declared, declared)
    if not re.fullmatch(r"[A-Za-z0-9.+-]+( (AND|OR|WITH) [A-Za-z0-9.+-]+)*", licence):
        raise LicenceUnknown(f"{found['Name']}: {declared[:80]!r}")
    return licence


def _homepage(found: Message) -> str:
    labelled = (line.partition(", ") for line in found.get_all("Project-URL") or [])
    urls = {label.lower(): url for label, _, url in labelled}
    wanted = ("homepage", "repository", "source", "source code", "github", "code", "documentation")
    return found.get("Home-page") or next((urls[label] for label in wanted if label in urls), "")
