"""Compares the locked versions with known advisories: `make audit`. Exits with 1 if there is one.

pip-audit queries the package index for each version in locks/, and npm its registry for NPM_FOLDERS. Some registries
offer no advisories (mirrors often do not). The report counts the versions that were not compared. If none
was compared, the exit code is 1, too.
Go modules of the test tools are not compared: they are in no image.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tools.bootstrap import ROOT, install, report
from tools.go_programs import cache

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

AUDIT_LOCK: Final = ROOT / "locks" / "audit.txt"
NPM_FOLDERS: Final = ("bench/competitors/npm", "clients/typescript")
ASK_S: Final = 600
PYTHON_LOCKS: Final = sorted(path for path in (ROOT / "locks").glob("*.txt"))


class Audited(NamedTuple):
    """The answer of one registry: a sentence for each advisory, and how many packages it has no data for."""

    advisories: list[str]
    compared: int
    not_compared: int


def python_packages(answer: Mapping[str, Any], lock: str) -> Audited:
    """Reads the JSON that pip-audit prints for `lock`."""
    advisories: list[str] = []
    compared = not_compared = 0
    for package in answer["dependencies"]:
        if "skip_reason" in package:
            not_compared += 1
            continue
        compared += 1
        for found in package["vulns"]:
            fixed = ", ".join(found["fix_versions"]) or "no release yet"
            advisories.append(f"{lock}: {package['name']} {package['version']} has {found['id']}; fixed in {fixed}.")
    return Audited(advisories, compared, not_compared)


def npm_packages(answer: Mapping[str, Any], folder: str) -> Audited:
    """Reads the JSON that `npm audit` prints in `folder`; an error of the registry means that nothing was compared."""
    if "vulnerabilities" not in answer:
        return Audited([], 0, _npm_count(folder))
    found: Mapping[str, Mapping[str, Any]] = answer["vulnerabilities"]
    advisories = [f"{folder}: {name} has a {one['severity']} advisory." for name, one in sorted(found.items())]
    return Audited(advisories, _npm_count(folder), 0)


def _npm_count(folder: str) -> int:
    lock = json.loads((ROOT / folder / "package-lock.json").read_text())
    return len(lock["packages"]) - 1  # less the project itself


def ask_index(tool: Path, lock: Path) -> Audited:
    """Runs pip-audit on one lock file."""
    words = ["-m", "pip_audit", "--requirement", str(lock), "--require-hashes", "--disable-pip", "--no-deps"]
    command = [sys.executable, *words, "--format", "json", "--progress-spinner", "off"]
    printed = _printed_by(command, {**os.environ, "PYTHONPATH": str(tool)}, ROOT)
    return python_packages(json.loads(printed), lock.name)


def ask_npm(folder: str) -> Audited:
    """Runs `npm audit` in a folder, where there is an npm."""
    npm = shutil.which("npm")
    if npm is None:
        return Audited([], 0, _npm_count(folder))
    command = [npm, "audit", "--package-lock-only", "--json"]
    return npm_packages(json.loads(_printed_by(command, dict(os.environ), ROOT / folder)), folder)


def _printed_by(command: list[str], environment: dict[str, str], folder: Path) -> str:
    """The standard output of a tool; its exit code is ignored. Exits if there is no output."""
    ran = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=ASK_S
    )
    if not ran.stdout.strip():
        raise SystemExit(f"{' '.join(command)} printed no report: {ran.stderr.strip()}")
    return ran.stdout


def summary(audited: Iterable[Audited]) -> tuple[list[str], int]:
    """The lines to print, and the exit code."""
    results = list(audited)
    lines = [sentence for one in results for sentence in one.advisories]
    compared, missing = sum(one.compared for one in results), sum(one.not_compared for one in results)
    if missing:
        lines.append(f"{missing} locked versions were not compared: the registry offers no advisories for them.")
    lines.append(f"{compared} locked versions were compared, {sum(len(one.advisories) for one in results)} advisories.")
    if not compared:
        lines.append("Nothing was compared: use an index that serves advisories, such as the public one.")
    return lines, int(not compared or any(one.advisories for one in results))


def main() -> int:
    """Asks the registries and prints the report."""
    tool = cache() / f"audit-{hashlib.sha256(AUDIT_LOCK.read_bytes() + sys.version.encode()).hexdigest()[:16]}"
    if not tool.exists():
        report("Installing pip-audit.")
        install("--target", str(tool), "--require-hashes", "-r", str(AUDIT_LOCK))
    lines, code = summary([*(ask_index(tool, lock) for lock in PYTHON_LOCKS), *map(ask_npm, NPM_FOLDERS)])
    for line in lines:
        report(line)
    return code


if __name__ == "__main__":
    sys.exit(main())
