"""`make release-check`: uses what is in dist/ as its users will, and nothing else of this checkout.

    python -m tools.release.check [FOLDER] [--only install]

Applications are built and schedules run in a temporary folder. What they need from others comes from the package
registries that this machine is set up for, or from the caches of pip, npm and Go.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import zipfile
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

from testbed.clients import QUIET, node, npm
from testbed.cluster.buildah import Buildah
from testbed.cluster.images import DEBIAN_FILES, build_missing, check_builder
from testbed.cluster.install_guide import Reader
from testbed.cluster.node import Node
from testbed.cluster.node_requirements import missing_requirements
from testbed.owned_folders import owned_folder
from testbed.processes import inherited_environment
from tools.bootstrap import report
from tools.go_programs import find_go
from tools.image_packages import debian_packages
from tools.kubectl_plugin import COMPLETION
from tools.release.archives import unpack
from tools.release.artifacts import ARCHITECTURE
from tools.release.distribution import Distribution, Failed, read_image
from tools.release.manifest import sha256
from tools.release.site import add as add_sites
from tools.release.source import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

APPLICATIONS: Final = Path(__file__).with_name("applications")
UP_TIMEOUT_S: Final = 120  # until the first run has succeeded, on a new database
STOP_TIMEOUT_S: Final = 30
GUIDE_S: Final = 300  # what docs/install.md says
POSTGRES: Final = "wakeboard-postgres"
BUILD_IMAGE: Final = "image-worker-build"  # no pod runs it
POD_IMAGES: Final = ("image-operator", "image-worker", "image-board", "image-jobs")
USER: Final = "65532:65532"  # that of our pods
KUBECONFIG: Final[dict[str, Any]] = {  # as `kubectl config view` prints it
    "clusters": [{"cluster": {"server": "https://127.0.0.1:1"}}],
    "contexts": [{"context": {}}],
    "users": [{"user": {"token": "none"}}],
}
VALUES: Final[dict[str, Any]] = {
    "devDatabase": {"image": {"repository": f"localhost/{POSTGRES}", "tag": "dev"}},
    "board": {"enabled": True},
    "pools": {"containers": {"jobs": {"enabled": True, "namespaces": ["wakeboard"]}}},
}


@dataclass(frozen=True, slots=True)
class Step:
    """`proves` names the artifacts that the step needs. `run` returns what it has seen.

    `run` gets an empty folder, and raises Failed if the release does not work.
    """

    name: str
    proves: tuple[str, ...]
    run: Callable[[Distribution, Path], str]


# -- Python -------------------------------------------------------------------------------------------------------


def install_and_run(release: Distribution, folder: Path) -> str:
    """The wheel runs the example of the source archive until a run has succeeded."""
    venv = folder / "venv"
    python, uv = venv / "bin/python", Path(sys.executable).with_name("uv")
    _run([uv, "venv", "--quiet", "--python", sys.executable, venv], folder)
    wanted = f"wakeboard[local] @ {release.file('wheel').as_uri()}"
    ways = [uv, "pip", "install", "--quiet", "--python"], [sys.executable, "-m", "pip", "--python"]
    try:
        _run([*ways[0], python, wanted], folder)
    except Failed:  # an index that only pip is set up for
        _run([*ways[1], python, "install", wanted], folder)
    _run([python, "-m", "compileall", "-q", venv / "lib"], folder)
    program = venv / "bin/wakeboard"
    said = _run([program, "version"], folder)
    if f"wakeboard {release.version}" not in said:
        raise Failed(f"`wakeboard version` says {said.strip()!r}")
    unpack(release.file("sdist"), folder)
    (source,) = folder.glob("wakeboard-*")
    shutil.copytree(source / "examples/shop", folder / "shop")
    return _first_success([str(program), "up", "shop", "--board-port", "0"], folder)


def _first_success(command: list[str], folder: Path) -> str:
    """Runs `wakeboard up` until it reports a run that succeeded, and stops it as Ctrl-C does. Returns the line."""
    output: list[str] = []
    with subprocess.Popen(
        command, cwd=folder, env=_environment(folder), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as up:
        guard = threading.Timer(UP_TIMEOUT_S, up.terminate)
        guard.start()
        assert up.stdout is not None
        for line in up.stdout:
            output.append(line)
            if re.search(r"^\S+ +run \d+ .* succeeded", line) and up.poll() is None:
                guard.cancel()
                up.send_signal(signal.SIGINT)
                guard = threading.Timer(STOP_TIMEOUT_S, up.kill)
                guard.start()
                break
        output += up.stdout
        code = up.wait()
        guard.cancel()
    found = [line for line in output if re.search(r"^\S+ +run \d+ .* succeeded", line)]
    if not found or code:
        raise Failed(f"`wakeboard up shop` ended with code {code} and printed:\n{''.join(output)}")
    return found[0].strip()


def build_wheel(release: Distribution, folder: Path) -> str:
    """The source archive builds the wheel, byte for byte."""
    unpack(release.file("sdist"), folder)
    (source,) = folder.glob("wakeboard-*")
    environment = {**_environment(folder), "SOURCE_DATE_EPOCH": str(_epoch(release))}
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", folder]
    _run(command, source, environment)
    (wheel,) = folder.glob("*.whl")
    if sha256(wheel) != sha256(release.file("wheel")):
        raise Failed("The wheel that is built from the source archive has other bytes.")
    return wheel.name


def run_plugin(release: Distribution, folder: Path) -> str:
    """The plugin of this system asks an API server, and the manifest has the hash of every archive."""
    manifest = yaml.safe_load(release.file("kubectl", ".yaml").read_text())
    hashes = {each["uri"].rpartition("/")[2]: each["sha256"] for each in manifest["spec"]["platforms"]}
    for name, digest in hashes.items():
        if sha256(release.file("kubectl", name)) != digest:
            raise Failed(f"{name} has another hash in the manifest.")
    unpack(release.file("kubectl", f"-linux-{ARCHITECTURE}.tar.gz"), folder)
    said = _run([sys.executable, folder / "kubectl-wakeboard", "--help"], folder, {"PATH": "/nowhere"})
    if "kubectl wakeboard" not in said:
        raise Failed(f"`kubectl-wakeboard --help` says {said!r}")
    words = _run(["/bin/sh", "-c", f"{_install_as_krew(folder)} && kubectl_complete-wakeboard ret"], folder)
    if words.split()[:1] != ["retry"]:
        raise Failed(f"`kubectl_complete-wakeboard ret` says {words!r}")
    kubectl = folder / "bin" / "kubectl"  # of a context whose API server is not there
    kubectl.parent.mkdir()
    kubectl.write_text(f"#!/bin/sh\ncat <<'END'\n{json.dumps(KUBECONFIG)}\nEND\n")
    kubectl.chmod(0o755)
    found = subprocess.run(
        [sys.executable, folder / "kubectl-wakeboard", "runs"],
        env={"PATH": f"{kubectl.parent}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    if "does not answer" not in found.stderr:
        raise Failed(f"`kubectl-wakeboard runs` says {found.stderr[-500:]!r} of an API server that is not there")
    return f"{len(hashes)} archives"


def _install_as_krew(folder: Path) -> str:
    """What links the plugin in `folder` as krew does, and its completion as the manifest says."""
    links = folder / "krew/bin"
    links.mkdir(parents=True)
    (links / "kubectl-wakeboard").symlink_to(folder / "kubectl-wakeboard")
    return f"export KREW_ROOT={folder}/krew PATH={links}:$PATH && cd {links} && {COMPLETION}"


# -- other languages ----------------------------------------------------------------------------------------------


def compile_typescript(release: Distribution, folder: Path) -> str:
    """An application of the npm package is compiled, strictly, and started."""
    package = release.file("npm")
    with tarfile.open(package) as tar:
        description = tar.extractfile("package/package.json")
        assert description is not None
        versions = json.load(description)["devDependencies"]
    tools = [f"{name}@{versions[name]}" for name in ("typescript", "@types/node")]
    shutil.copytree(APPLICATIONS / "npm", folder, dirs_exist_ok=True)
    (folder / "package.json").write_text('{"name": "application", "type": "module", "private": true}')
    _run(npm("install", *QUIET, "--prefer-offline", str(package), *tools), folder)
    _run([node(), folder / "node_modules/typescript/bin/tsc", "--project", folder], folder)
    return _run([node(), folder / "app.js"], folder).strip()


def compile_go(release: Distribution, folder: Path) -> str:
    """An application of the Go module, which Go gets from the folder as from a proxy, is compiled and started."""
    module, version = release.artifacts["go"]["go.sum"].split()[:2]
    go = find_go("1.21")
    set_up = json.loads(_run([go, "env", "-json", "GOPROXY", "GOMODCACHE"], folder, dict(os.environ)))
    proxies = [
        (release.folder / "go").as_uri(),
        Path(set_up["GOMODCACHE"], "cache/download").as_uri(),
        set_up["GOPROXY"],
    ]
    environment = {
        **_environment(folder),
        "GOPROXY": ",".join(proxies),
        "GOMODCACHE": str(folder / "modules"),
        "GOCACHE": _run([go, "env", "GOCACHE"], folder, dict(os.environ)).strip(),
        "GOFLAGS": "-mod=mod -modcacherw -trimpath",
        "CGO_ENABLED": "0",
        "GONOSUMDB": module,
        "GOTOOLCHAIN": "local",
    }
    application = folder / "application"
    shutil.copytree(APPLICATIONS / "go", application)
    _run([go, "mod", "init", "example.com/application"], application, environment)
    with zipfile.ZipFile(release.file("go", ".zip")) as archive:  # its go.sum has the hashes of what it needs
        (application / "go.sum").write_bytes(archive.read(f"{module}@{version}/go.sum"))
    _run([go, "get", f"{module}@{version}"], application, environment)
    if release.artifacts["go"]["go.sum"] not in (application / "go.sum").read_text():
        raise Failed("Go computes another hash of the module than the manifest has.")
    _run([go, "build", "-o", folder / "program", "."], application, environment)
    return _run([folder / "program"], folder).strip()


# -- cluster ------------------------------------------------------------------------------------------------------


def inspect_images(release: Distribution, folder: Path) -> str:
    """Each image has its digest, the labels of this release, a whole bill of materials, and a user without rights."""
    check_builder()
    builder = Buildah(folder / "storage", running=folder / "running")
    for name in (*POD_IMAGES, BUILD_IMAGE):
        entry = release.artifacts[name]
        digest, image = read_image(release.file(name, ".oci.tar"))
        labels: Mapping[str, str] = image["config"]["Labels"]
        wanted = {"version": release.version, "revision": release.manifest["commit"], "licenses": "Apache-2.0"}
        wanted["source"] = release.manifest["repository"]
        found = {key: labels.get(f"org.opencontainers.image.{key}") for key in wanted}
        user = image["config"].get("User", "")
        if digest != entry["digest"] or found != wanted or (name in POD_IMAGES and user != USER):
            raise Failed(f"{name}: digest {digest}, labels {found}, user {user}")
        bill = json.loads(release.file(name, ".cdx.json").read_text())
        if bill["metadata"]["component"]["version"] != release.version:
            raise Failed(f"{name}: its bill of materials is of {bill['metadata']['component']}")
        builder.load(release.file(name, ".oci.tar"))
        of_debian = debian_packages(*builder.read(entry["image"], *DEBIAN_FILES))
        billed = {(each["name"], each["version"]) for each in bill["components"] if each["purl"].startswith("pkg:deb")}
        if billed != {(each.name, each.version) for each in of_debian}:
            raise Failed(f"{name}: its bill of materials has other packages of Debian than the image.")
    builder.close()
    return f"{len(POD_IMAGES) + 1} images for {ARCHITECTURE}"


def install_chart(release: Distribution, folder: Path) -> str:
    """What docs/install.md says of a release installs it, on a node that reaches no registry, with all its parts on."""
    if missing := missing_requirements():
        raise Failed(f"A node needs {', '.join(missing)}.")
    postgres = build_missing([POSTGRES])[POSTGRES]
    with Node(folder / "node") as cluster:
        cluster.load_image(postgres)
        cluster.make_volume("release", "1Gi")
        cluster.kubectl("apply", "--dry-run=server", "-f", str(release.file("crds")))
        unpack(release.file("site"), folder)
        guide = (folder / release.version / "install.md").read_text(encoding="utf-8")
        reader = Reader(cluster, folder, guide, release.folder, json.dumps(VALUES))
        times = [time.monotonic()]
        said = ""
        for block in reader.blocks("From a release", "sh"):
            said = reader.run(block)
            times.append(time.monotonic())
    if "the run succeeded" not in said:
        raise Failed(said)
    if times[-1] - times[0] > GUIDE_S:
        raise Failed(f"The guide says five minutes, and it took {times[-1] - times[0]:.0f} s.")
    seen = "images loaded in {:.0f} s, installed in {:.0f} s, tested in {:.0f} s".format(
        *(after - before for before, after in pairwise(times))
    )
    # The evaluation's database is not ours to release: the chart takes it from a registry, which the node cannot.
    return f"{seen}; not from {release.folder.name}/: Postgres, which a cluster pulls, and this node has as {POSTGRES}"


# -- texts --------------------------------------------------------------------------------------------------------


def read_texts(release: Distribution, _: Path) -> str:
    """The notes are of this release, the resource definition and the schemas are what they should be."""
    if not release.file("notes").read_text().startswith(f"# wakeboard {release.version}\n"):
        raise Failed("The release notes are of another version.")
    definition = yaml.safe_load(release.file("crds").read_text())
    schemas = [release.folder / file["path"] for file in release.artifacts["schemas"]["files"]]
    properties = [json.loads(file.read_text()).get("properties") for file in schemas if file.parent.name == "json"]
    if definition["kind"] != "CustomResourceDefinition" or not properties or not all(properties):
        raise Failed("The resource definition or a schema has no content.")
    return f"{definition['metadata']['name']}, {len(properties)} schemas"


def read_site(release: Distribution, folder: Path) -> str:
    """The start page names its version; the search and the texts for language models are there."""
    if add_sites(folder, [release.file("site")]) != [release.version]:
        raise Failed(f"The site is not one of {release.version}.")
    folder /= release.version
    if release.version not in (folder / "index.html").read_text(encoding="utf-8"):
        raise Failed(f"The start page does not name the version {release.version}.")
    if absent := [name for name in ("llms.txt", "llms-full.txt", "search.json") if not (folder / name).is_file()]:
        raise Failed(f"The site lacks {', '.join(absent)}.")
    return f"{sum(1 for _ in folder.rglob('*.html'))} pages"


STEPS: Final = (
    Step("checksums", (), lambda release, _: release.check_files()),
    Step("texts", ("notes", "crds", "schemas"), read_texts),
    Step("wheel", ("wheel", "sdist"), install_and_run),
    Step("sdist", ("wheel", "sdist"), build_wheel),
    Step("kubectl", ("kubectl",), run_plugin),
    Step("site", ("site",), read_site),
    Step("npm", ("npm",), compile_typescript),
    Step("go", ("go",), compile_go),
    Step("images", (*POD_IMAGES, BUILD_IMAGE), inspect_images),
    Step("install", ("chart", "crds", "site", *POD_IMAGES), install_chart),
)


def main() -> None:
    """Reads the command line; exits with 1 if a step fails, after the others."""
    parser = argparse.ArgumentParser(prog="make release-check", description="Proves a built release.")
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "dist")
    parser.add_argument("--only", nargs="+", choices=[step.name for step in STEPS], metavar="STEP", default=[])
    given = parser.parse_args()
    release = Distribution.read(given.folder)
    began = time.monotonic()
    chosen = [step for step in STEPS if step.name in given.only or not given.only]
    failures = [step.name for step in chosen if not succeeds(step, release)]
    report(f"{len(chosen)} steps took {time.monotonic() - began:.0f} s.")
    if failures:
        sys.exit(f"The release does not work: {', '.join(failures)}.")


def succeeds(step: Step, release: Distribution) -> bool:
    """Runs a step and prints what came of it. A step whose artifacts are absent fails."""
    began = time.monotonic()
    try:
        release.require(step.proves)
        with owned_folder(Path(tempfile.gettempdir())) as folder:
            seen = step.run(release, folder)
    except Exception as failure:  # noqa: BLE001 - whatever a step ends with, the release is not proven
        report(f"  {step.name:10} {time.monotonic() - began:5.1f} s  FAILED: {failure}")
        return False
    report(f"  {step.name:10} {time.monotonic() - began:5.1f} s  {seen}")
    return True


def _epoch(release: Distribution) -> int:
    return int(datetime.fromisoformat(release.manifest["date"]).timestamp())


def _environment(folder: Path) -> dict[str, str]:
    """That of a user who does not have this checkout: no path leads into it."""
    hidden = {"PYTHONPATH", "VIRTUAL_ENV"}
    kept = {name: value for name, value in inherited_environment().items() if name not in hidden}
    return kept | {"PATH": f"{folder / 'venv/bin'}:{os.environ['PATH']}"}


def _run(command: list[Any], folder: Path, environment: dict[str, str] | None = None) -> str:
    """The command's output; raises Failed with it if the command fails."""
    words = [str(word) for word in command]
    environment = environment or _environment(folder)
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failed(f"{' '.join(words)}\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main()
