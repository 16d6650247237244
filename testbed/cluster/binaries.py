"""Finds and builds the test cluster's programs: in KUBEBUILDER_ASSETS, else in a cache that `make test` fills.

`python -m testbed.cluster.binaries` builds what is missing. All programs are one file of 150 MB, built from `binary/`:
the first build takes eight minutes on two cores, a build after an edit of `main.go` takes seconds. See
tools/go_programs.py.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

from tools.bootstrap import report
from tools.go_programs import build, cache, file_lock, key, pinned

PROGRAMS = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubelet",
    "kube-proxy",
    "kubectl",
    "coredns",
)
SOURCE = Path(__file__).resolve().parent / "binary"
WHAT = "the test cluster's Kubernetes"


class ProgramMissing(Exception):
    """A program of the test cluster is neither in KUBEBUILDER_ASSETS nor built."""


def find_program(name: str) -> Path:
    """The program's path; raises ProgramMissing with what to type."""
    for folder in (_assets(), _built()):
        if folder is not None and (folder / name).exists():
            return folder / name
    raise ProgramMissing(f"{name} is not built yet; type: make test-cluster (or python -m testbed.cluster.binaries)")


def build_missing() -> None:
    """Does nothing if every program is there; else builds them, while a second process that wants the same waits."""
    if _all_there():
        return
    built = _built()
    with file_lock(built.parent / "lock", WHAT):
        if _all_there():
            return
        began = time.monotonic()
        with tempfile.TemporaryDirectory(dir=built.parent, prefix="building-") as name:
            programs = Path(name) / "programs"
            programs.mkdir()
            build(WHAT, SOURCE, ".", _linker_flags(), programs / "all")
            for program in PROGRAMS:
                (programs / program).symlink_to("all")
            programs.rename(built)
        report(f"Built {WHAT} in {time.monotonic() - began:.0f} s.")


def _all_there() -> bool:
    try:
        return all(find_program(name) for name in PROGRAMS)
    except ProgramMissing:
        return False


def _assets() -> Path | None:
    folder = os.environ.get("KUBEBUILDER_ASSETS")
    return Path(folder) if folder else None


def _built() -> Path:
    return cache() / "test-cluster" / key(SOURCE, _linker_flags())


def _linker_flags() -> str:
    """No debug symbols, and the version that a release of Kubernetes carries: clients and tools ask for it."""
    version = pinned(SOURCE, r"k8s\.io/kubernetes v(\S+)")
    major, minor, _ = version.split(".")
    stamps = {"gitVersion": f"v{version}", "gitMajor": major, "gitMinor": minor}
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    return " ".join(
        ["-s -w", *(f"-X {package}.{name}={text}" for package in packages for name, text in stamps.items())]
    )


if __name__ == "__main__":
    build_missing()
