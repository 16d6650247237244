"""Programs that check the chart (helm, helm-unittest, kube-score, promtool, checkov) and the workflows (actionlint).

`make chart-tools` (or `python -m tools.chart_linters`) puts missing programs into the user's cache. `find_tool(name)`
returns the path of one. Versions are pinned: the Go programs in the go.mod files of this folder, checkov in
locks/checkov.txt. promtool is the one on this machine, else that of the Debian package `prometheus`, which is unpacked
and not installed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tools.bootstrap import install, report
from tools.go_programs import ROOT, build, cache, file_lock, key, pinned

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).resolve().parent
CHECKOV_LOCK = ROOT / "locks" / "checkov.txt"

# A folder with a go.mod -> the programs that its `tool` lines name. Those that agree on versions share one.
GO_MODULES: Final = {"helm": ("helm", "helm-unittest"), "kube-score": ("kube-score",), "actionlint": ("actionlint",)}
TOOLS: Final = (*(name for names in GO_MODULES.values() for name in names), "promtool", "checkov")


class ToolMissing(Exception):
    """A program is not in the cache yet."""


def find_tool(name: str) -> Path:
    """The program's path; raises ToolMissing with what to type. `name`: one of TOOLS."""
    path = _folder_of(name) / name
    if path.exists():
        return path
    machines = shutil.which("promtool") if name == "promtool" else None
    if machines:
        return Path(machines)
    raise ToolMissing(f"{name} is not there yet; type: make chart-tools (or python -m tools.chart_linters)")


def install_missing() -> None:
    """Installs the missing programs in parallel. Does nothing if none is missing."""
    missing = {_folder_of(name) for name in TOOLS if not _is_there(name)}
    if not missing:
        return
    with file_lock(cache() / "chart-tools" / "lock", "the chart's linters"):
        began = time.monotonic()
        missing = {_folder_of(name) for name in TOOLS if not _is_there(name)}  # another process may have got them
        with ThreadPoolExecutor() as side_by_side:
            list(side_by_side.map(_get, sorted(missing)))  # an error comes out of the list
        if missing:
            report(f"The chart's linters are installed after {time.monotonic() - began:.0f} s.")


def _is_there(name: str) -> bool:
    try:
        return bool(find_tool(name))
    except ToolMissing:
        return False


def _folder_of(tool: str) -> Path:
    """Where the tool is, or will be. Its name says what is in it, and of which make."""
    if tool == "promtool":
        return cache() / "chart-tools" / "promtool-debian"
    if tool == "checkov":
        made_of = hashlib.sha256(CHECKOV_LOCK.read_bytes() + f"{_python()} {sys.version}".encode())
        return cache() / "chart-tools" / f"checkov-{made_of.hexdigest()[:16]}"
    module = next(module for module, names in GO_MODULES.items() if tool in names)
    return cache() / "chart-tools" / f"{module}-{key(HERE / module, _linker_flags(module))}"


def _get(folder: Path) -> None:
    """Fills the folder, all or nothing."""
    name = folder.name.rpartition("-")[0]
    ways: dict[str, Callable[[Path, Path], None]] = {"checkov": _install_checkov, "promtool": _unpack_promtool}
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="getting-") as unfinished:
        made = Path(unfinished, "made")
        made.mkdir()
        ways.get(name, _build)(made, folder)
        made.rename(folder)


def _build(made: Path, folder: Path) -> None:
    module = folder.name.rpartition("-")[0]
    build(" and ".join(GO_MODULES[module]), HERE / module, "tool", _linker_flags(module), made)


def _linker_flags(module: str) -> str:
    """No debug symbols; and Helm's own version, which charts may ask for."""
    if module != "helm":
        return "-s -w"
    version = pinned(HERE / module, r"helm\.sh/helm/v4 (v\S+)")
    return f"-s -w -X helm.sh/helm/v4/internal/version.version={version}"


def _unpack_promtool(made: Path, _: Path) -> None:
    """Takes it from Debian's package. Needs no root. Exits if there is no such package for this machine."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)  # noqa: S103, PTH101 - apt fetches as a user of its own
        try:
            subprocess.run(["apt-get", "-qq", "download", "prometheus"], cwd=name, capture_output=True, check=True)
            (package,) = Path(name).glob("*.deb")
            subprocess.run(["dpkg", "-x", package, name], capture_output=True, check=True)
            shutil.copy(Path(name, "usr", "bin", "promtool"), made)
        except (OSError, subprocess.CalledProcessError):
            sys.exit("promtool is missing, and Debian's package could not be downloaded. Install Prometheus' promtool.")


def _install_checkov(made: Path, folder: Path) -> None:
    """Its many dependencies stay apart from ours, and serve every checkout of this user."""
    report("Installing checkov.")
    install("--target", str(made / "packages"), "--require-hashes", "-r", str(CHECKOV_LOCK))
    program = made / "checkov"
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{folder / "packages"}" exec {_python()} -s -m checkov.main "$@"\n')
    program.chmod(0o755)


def _python() -> Path:
    """The interpreter itself, outside of any virtual environment."""
    return Path(sys.executable).resolve()
