"""The list of what a release consists of. To add an artifact, add one entry to ARTIFACTS."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from testbed.clients import QUIET, npm, typescript_worker
from testbed.cluster.images import build_release, check_builder
from tools import generate_sbom
from tools.build_site import SITE
from tools.chart_linters import find_tool
from tools.image_packages import debian_packages
from tools.release.archives import pack_folder, unpack
from tools.release.go_module import write_module
from tools.release.notes import release_notes
from tools.release.source import ROOT, Source, tracked_files

if TYPE_CHECKING:
    from collections.abc import Callable

    Facts = dict[str, str]

ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}  # Linux's word -> that of images
ARCHITECTURE: Final = ARCHITECTURES.get(platform.machine(), platform.machine())


@dataclass(frozen=True, slots=True)
class Artifact:
    """`build` writes the files into an empty folder, and returns what else the manifest says of them.

    They come into the folder `place` of the release. `what` is for readers of the manifest. `require` raises an error
    with what to type if a tool is missing, before anything is built.
    """

    name: str
    place: str
    what: str
    build: Callable[[Source, Path], Facts]
    require: Callable[[], object] = bool


def _build_python(target: str, source: Source, folder: Path) -> Facts:
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(source.time)}
    _run(
        [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", str(folder)], ROOT, environment
    )
    return {}


def _build_npm(source: Source, folder: Path) -> Facts:
    compiled = typescript_worker()
    with tempfile.TemporaryDirectory() as name:
        shutil.copytree(compiled / "dist/src", Path(name, "dist/src"))
        for file in (compiled / "README.md", ROOT / "LICENSE"):
            shutil.copy(file, name)
        package = json.loads((compiled / "package.json").read_text(encoding="utf-8"))
        if source.repository:
            url = f"git+{source.repository}.git"
            package["repository"] = {"type": "git", "url": url, "directory": "clients/typescript"}
        Path(name, "package.json").write_text(json.dumps(package, indent=2) + "\n", encoding="utf-8")
        _run(npm("pack", *QUIET, "--silent", f"--pack-destination={folder}"), Path(name))
    return {}


def _build_go(source: Source, folder: Path) -> Facts:
    module = ROOT / "clients/go"
    files = {name: (module / name).read_bytes() for name in tracked_files("clients/go")}
    files["LICENSE"] = (ROOT / "LICENSE").read_bytes()  # Go takes the repository's for a module in a folder of it
    return write_module(folder, files, f"v{source.version}", source.date)


def _build_chart(source: Source, folder: Path) -> Facts:
    with tempfile.TemporaryDirectory() as name:
        chart, packed = Path(name, "wakeboard"), Path(name, "packed")
        for file in tracked_files("charts/wakeboard"):
            (chart / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / "charts/wakeboard" / file, chart / file)
        if source.repository:
            with (chart / "Chart.yaml").open("a", encoding="utf-8") as about:
                about.write(f"home: {source.repository}\nsources: [{source.repository}]\n")
        _run([str(find_tool("helm")), "package", str(chart), "--destination", name], Path(name))
        (archive,) = Path(name).glob("*.tgz")
        unpack(archive, packed)  # helm gives each file the time of day
        pack_folder(packed, folder / archive.name, source.time)
    return {}


def _build_image(target: str, source: Source, folder: Path) -> Facts:
    reference = f"localhost/wakeboard/{target}:{source.version}"
    name = f"wakeboard-{target}-{source.version}-linux-{ARCHITECTURE}.oci.tar"
    with tempfile.TemporaryDirectory(dir=folder) as layout:
        system, status = build_release(target, reference, image_labels(source), Path(layout))
        (manifest,) = json.loads(Path(layout, "index.json").read_text())["manifests"]
        pack_folder(Path(layout), folder / name, source.time)
    bill = generate_sbom.bill(target, debian_packages(system, status))
    (folder / f"wakeboard-{target}-{source.version}.cdx.json").write_text(bill, encoding="utf-8")
    return {"image": reference, "digest": manifest["digest"]}


def image_labels(source: Source) -> dict[str, str]:
    """The labels that say of what an image was built."""
    labels = {"version": source.version, "revision": source.commit, "source": source.repository}
    return {f"org.opencontainers.image.{name}": value for name, value in labels.items() if value}


def _build_plugin(_: Source, folder: Path) -> Facts:
    _run([sys.executable, "-m", "tools.kubectl_plugin", str(folder)], ROOT)
    return {}


def _build_site(source: Source, folder: Path) -> Facts:
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(source.time)}
    _run([sys.executable, "-m", "tools.build_site"], ROOT, environment)
    with tempfile.TemporaryDirectory() as whole:  # the versions lie side by side where they are published
        shutil.copytree(SITE, Path(whole) / source.version)
        pack_folder(Path(whole), folder / f"wakeboard-docs-{source.version}.tar.gz", source.time)
    return {}


def _copy(path: str, _: Source, folder: Path) -> Facts:
    for file in tracked_files(path):
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path / file, folder / file)
    return {}


def _write_notes(source: Source, folder: Path) -> Facts:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    notes = release_notes(changelog, source.version, released=bool(source.tag))
    (folder / "RELEASE_NOTES.md").write_text(notes, encoding="utf-8")
    return {}


def _run(command: list[str], folder: Path, environment: dict[str, str] | None = None) -> None:
    """Exits with the command's output if it fails."""
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{done.stdout}{done.stderr}\n{Path(command[0]).name} failed; its output is above.")


def _image(target: str, what: str) -> Artifact:
    what = f"{what}, as an OCI archive with its SBOM"
    return Artifact(f"image-{target}", "images", what, partial(_build_image, target), check_builder)


_SCHEMAS: Final = "JSON Schemas of JobSchedule, alert and limit files, in the layout of SchemaStore"
ARTIFACTS: Final = (
    Artifact("notes", ".", "the release notes", _write_notes),
    Artifact("wheel", "python", "the Python package", partial(_build_python, "wheel")),
    Artifact("sdist", "python", "its source, with examples and docs", partial(_build_python, "sdist")),
    Artifact("npm", "npm", "the TypeScript client", _build_npm),
    Artifact("go", "go", "the Go client, in the layout of a module proxy", _build_go),
    Artifact("chart", "charts", "the Helm chart", _build_chart, partial(find_tool, "helm")),
    Artifact("crds", "crds", "the resource definition JobSchedule", partial(_copy, "crds")),
    Artifact("schemas", "schemas", _SCHEMAS, partial(_copy, "schemas")),
    Artifact(
        "kubectl", "kubectl", "the kubectl plugin: an archive for each system, and krew's manifest", _build_plugin
    ),
    Artifact("site", "site", "the documentation site, which also works without a server", _build_site),
    _image("operator", "the operator"),
    _image("worker", "the worker, the base of users' images"),
    _image("worker-build", "the worker with an installer, for a first stage of users' images"),
    _image("board", "the web board"),
    _image("jobs", "the worker of pools that run CronJobs"),
)
