"""The images of the test cluster, built from the project's own Dockerfile on a base made from Debian's packages.

`python -m testbed.cluster.images` builds what is missing: two minutes at the first time, half a minute after an edit of
the code, nothing if it is the same. Needs root, buildah, mmdebstrap and runc, and no registry. Each is kept as an OCI
archive in the user's cache, under a hash of what decides it, and carries the name `localhost/<name>:dev`.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from testbed.cluster.buildah import Buildah
from testbed.cluster.debian_rootfs import POSTGRES, PYTHON
from tools.bootstrap import report
from tools.go_programs import cache, file_lock
from tools.wheelhouse import NEEDED, fill

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from testbed.cluster.debian_rootfs import DebianRootfs

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ("buildah", "mmdebstrap", "runc")
KEPT = 3  # archives of one image, those used last: other checkouts have other code
RECIPE = "1"  # part of every hash: raise it when this file builds something else from the same sources
OURS = (
    *(
        "Dockerfile",
        ".dockerignore",
        "LICENSE",
        "NOTICE",
        "README.md",
        "pyproject.toml",
        "sbom",
        "wakeboard",
        "operator",
        "worker",
    ),
    *(f"locks/{name}.txt" for name in ("build", "operator", "worker", "board")),
)
POSTGRES_FOLDER = "testbed/cluster/postgres_image"
EXAMPLE_FOLDER = "examples/image/packaged"
LOCKS = (*NEEDED, ROOT / EXAMPLE_FOLDER / "requirements.txt")
DEBIAN_FILES = ("etc/os-release", "var/lib/dpkg/status")  # of an image: its system, and the packages of it
PIP_WITHOUT_INDEX = "[global]\nno-index = true\n"


class ImageMissing(Exception):
    """An image of the test cluster is not built, or what builds it is not installed."""


@dataclass(frozen=True)
class Image:
    """An image, what decides it (files and folders of the project, a root file system), and what builds it."""

    name: str
    sources: tuple[str, ...]
    root: DebianRootfs
    build: Callable[[Buildah, Path, Path], None]  # from a copy of the sources, into the builder's storage

    @property
    def reference(self) -> str:
        """What a pod calls it."""
        return f"localhost/{self.name}:dev"

    def archive(self, project: Path = ROOT) -> Path:
        """Where it is, or will be, if the sources are what `project` has."""
        digest = hashlib.sha256(f"{RECIPE} {self.root.key}".encode())
        for file in _files(project, self.sources):
            mode = file.stat().st_mode & 0o111
            digest.update(f"\0{file.relative_to(project)}\0{mode}\0".encode() + file.read_bytes())
        return _folder() / f"{self.name}-{digest.hexdigest()[:16]}.tar"


def find_image(name: str) -> Path:
    """The OCI archive of an image by its name, e.g. `wakeboard-worker`. Raises ImageMissing with what to type."""
    archive = IMAGES[name].archive()
    if not archive.exists():
        raise ImageMissing(_why_not(f"The image {name} is not built for the code as it is"))
    os.utime(archive)
    return archive


def images_builder(folder: Path) -> Buildah:
    """A storage in `folder` with all images, as a node would be given them. Raises ImageMissing with what to type.

    Those that were built on this machine are read where they are, the others from their archives.
    """
    builder = Buildah(folder / "storage", running=folder / "running", other=_storage())
    for image in IMAGES.values():
        archive = find_image(image.name)
        if builder.has(_built_name(archive)):
            builder.tag(_built_name(archive), image.reference)
        else:
            builder.load(archive)
    return builder


def build_missing(names: Iterable[str] = ()) -> dict[str, Path]:
    """Builds each of these images (all if none is named) that is not there. Returns the archives by name.

    They are for the code as it was when each was looked for. Raises ImageMissing, with what to type, if this machine
    cannot build them.
    """
    images = [IMAGES[name] for name in names or IMAGES]
    archives = {image.name: image.archive() for image in images}
    if all(archive.exists() for archive in archives.values()):
        return archives
    check_builder()
    with file_lock(_folder() / "lock", "the test cluster's images"):
        began = time.monotonic()
        builder = Buildah(_storage())
        builder.prune()
        archives = {image.name: _built(builder, image) for image in images}
        report(f"The test cluster's images are built, in {time.monotonic() - began:.0f} s.")
    return archives


def build_without_cache(target: str, builder: Buildah, folder: Path) -> None:
    """Builds a target of the Dockerfile without a cache, in another storage. The build context is in `folder`."""
    _build_ours(target, builder, ROOT, folder / "context", use_cache=False)


def check_builder() -> None:
    """Raises ImageMissing, with what to type, if this machine cannot build images."""
    if missing := _missing():
        raise ImageMissing(_why_not(f"wakeboard's images cannot be built: this needs {missing}"))


def build_release(target: str, reference: str, labels: Mapping[str, str], folder: Path) -> list[str]:
    """Builds a target of the Dockerfile under the name `reference`, and writes it into `folder` as an OCI layout.

    Returns the texts of its DEBIAN_FILES.
    """
    check_builder()
    with (
        file_lock(_folder() / "lock", "the test cluster's images"),
        tempfile.TemporaryDirectory(dir=_folder(), prefix="building-") as name,
    ):
        builder = Buildah(_storage())
        _build_ours(target, builder, ROOT, Path(name) / "context", reference=reference)
        builder.label(reference, labels)
        builder.save(reference, folder, "oci")
        return builder.read(reference, *DEBIAN_FILES)


def _built(builder: Buildah, image: Image) -> Path:
    """The image's archive. The build reads a copy, so an edit during the build cannot change what the hash names."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(dir=_folder(), prefix="building-") as name:
        project, context = Path(name) / "project", Path(name) / "context"
        _copy(image.sources, project)
        archive = image.archive(project)
        if archive.exists():
            return archive
        report(f"Building the image {image.name}.")
        image.build(builder, project, context)
        builder.save(image.reference, Path(name) / "image.tar")
        builder.tag(image.reference, _built_name(archive))
        (Path(name) / "image.tar").rename(archive)
    report(f"  {time.monotonic() - began:.0f} s, {archive.stat().st_size / 1e6:.0f} MB packed")
    for unused in sorted(_folder().glob(f"{image.name}-*.tar"), key=_last_use)[:-KEPT]:
        unused.unlink()
    return archive


def _build_ours(
    target: str,
    builder: Buildah,
    project: Path,
    context: Path,
    *,
    use_cache: bool = True,
    reference: str = "",
) -> None:
    """A target of the project's Dockerfile, as `localhost/wakeboard-TARGET:dev` if no `reference` is given."""
    _copy(OURS, context, project)
    shutil.copytree(_wheels(), context / "wheelhouse", copy_function=os.link)
    reference = reference or f"localhost/wakeboard-{target}:dev"
    arguments = {"BASE": _base(builder), "PIP_NO_INDEX": "1"}
    builder.build(reference, context, target=target, arguments=arguments, use_cache=use_cache)


def _build_example(builder: Buildah, project: Path, context: Path) -> None:
    """A user's image, built as docs/worker-image.md describes. pip is configured to work without a network."""
    for target in ("worker", "worker-build"):
        _build_ours(target, builder, project, context.with_name(target))
    settings = context.with_name("pip.conf")
    settings.write_text(PIP_WITHOUT_INDEX)
    builder.build(
        "localhost/wakeboard-example:dev",
        project / EXAMPLE_FOLDER,
        arguments={"WORKER": "localhost/wakeboard-worker:dev", "WORKER_BUILD": "localhost/wakeboard-worker-build:dev"},
        mounts={_wheels(): "/wheels", settings: "/etc/pip.conf"},
    )


def _build_postgres(builder: Buildah, project: Path, context: Path) -> None:
    shutil.copytree(project / POSTGRES_FOLDER, context)
    os.link(POSTGRES.make(_folder() / "roots"), context / "root.tar")
    builder.build("localhost/wakeboard-postgres:dev", context)


IMAGES = {
    image.name: image
    for image in (
        Image("wakeboard-operator", OURS, PYTHON, partial(_build_ours, "operator")),
        Image("wakeboard-worker", OURS, PYTHON, partial(_build_ours, "worker")),
        Image("wakeboard-board", OURS, PYTHON, partial(_build_ours, "board")),
        Image("wakeboard-jobs", OURS, PYTHON, partial(_build_ours, "jobs")),
        Image("wakeboard-example", (*OURS, EXAMPLE_FOLDER), PYTHON, _build_example),
        Image("wakeboard-postgres", (POSTGRES_FOLDER,), POSTGRES, _build_postgres),
    )
}


def _base(builder: Buildah) -> str:
    """The name of a base image with Python, built if need be."""
    reference = f"localhost/debian-python:{PYTHON.key}"
    if not builder.has(reference):
        with tempfile.TemporaryDirectory(dir=_folder(), prefix="building-") as name:
            os.link(PYTHON.make(_folder() / "roots"), Path(name) / "root.tar")
            (Path(name) / "Dockerfile").write_text("FROM scratch\nADD root.tar /\n")
            builder.build(reference, Path(name))
    return reference


def _wheels() -> Path:
    """A folder with the wheels that the locks name, for the Python of the base."""
    digest = hashlib.sha256(b"".join(lock.read_bytes() for lock in LOCKS))
    folder = _folder() / "wheels" / digest.hexdigest()[:16]
    if not folder.exists():
        report("Downloading the wheels that the images are made of.")
        unfinished = folder.with_suffix(".unfinished")
        fill(unfinished, LOCKS)
        unfinished.rename(folder)
    return folder


def _files(project: Path, sources: tuple[str, ...]) -> list[Path]:
    paths = [project / source for source in sources]
    found = [file for path in paths for file in (path.rglob("*") if path.is_dir() else [path])]
    # What another process compiles meanwhile appears and disappears: `make --jobs images bytecode`.
    return sorted(file for file in found if "__pycache__" not in file.parts and file.is_file())


def _copy(sources: tuple[str, ...], target: Path, project: Path = ROOT) -> None:
    """Copies the inputs of a build: only the files that its hash covers."""
    for file in _files(project, sources):
        copy = target / file.relative_to(project)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, copy)


def _storage() -> Path:
    """Where images are built. It has those of several checkouts."""
    return _folder() / "storage"


def _built_name(archive: Path) -> str:
    """The name of the image in an archive, in the storage in which it was built."""
    return f"localhost/{archive.stem}"


def _folder() -> Path:
    return cache() / "images"


def _last_use(archive: Path) -> float:
    return archive.stat().st_mtime


def _missing() -> str:
    packages = [tool for tool in TOOLS if shutil.which(tool) is None]
    needs = [] if os.geteuid() == 0 else ["root"]
    needs += [f"the Debian package{'s' * (len(packages) > 1)} {', '.join(packages)}"] if packages else []
    return " and ".join(needs)


def _why_not(sentence: str) -> str:
    packages = [tool for tool in TOOLS if shutil.which(tool) is None]
    install = f"sudo apt-get install {' '.join(packages)} && " if packages else ""
    sudo = "" if os.geteuid() == 0 else "sudo "
    return f"{sentence}; type: {install}{sudo}make images (or python -m testbed.cluster.images)"


def main() -> None:
    """For `make images`: what cannot be built is a failure in CI, and elsewhere a sentence."""
    try:
        build_missing()
    except ImageMissing as missing:
        report(str(missing))
        sys.exit(1 if os.environ.get("CI") else 0)


if __name__ == "__main__":
    main()
