"""A built release in a folder, as its manifest describes it."""

from __future__ import annotations

import hashlib
import json
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from tools.release.manifest import CHECKSUMS, MANIFEST, files_of, sha256

if TYPE_CHECKING:
    from collections.abc import Iterable


class Failed(Exception):
    """The release is not what it promises to be. The message says what is wrong."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """`manifest` is the content of `folder`/manifest.json."""

    folder: Path
    manifest: dict[str, Any]

    @classmethod
    def read(cls, folder: Path) -> Self:
        """That in this folder. Raises SystemExit if there is none."""
        try:
            return cls(folder.resolve(), json.loads((folder / MANIFEST).read_text(encoding="utf-8")))
        except (FileNotFoundError, NotADirectoryError):
            sys.exit(f"{folder} has no release; type: make release")

    @property
    def version(self) -> str:
        """As in the names of its files."""
        return self.manifest["version"]

    @property
    def artifacts(self) -> dict[str, dict[str, Any]]:
        """The entries of the manifest by name."""
        return {each["name"]: each for each in self.manifest["artifacts"]}

    def require(self, artifacts: Iterable[str]) -> None:
        """Raises Failed, naming them, if some of these artifacts are absent."""
        if absent := [name for name in artifacts if name not in self.artifacts]:
            raise Failed(f"{self.folder} has no {', '.join(absent)}; type: make release")

    def file(self, artifact: str, ending: str = "") -> Path:
        """The artifact's only file whose name ends like this."""
        names = [file["path"] for file in self.artifacts[artifact]["files"] if file["path"].endswith(ending)]
        if len(names) != 1:
            raise Failed(f"{artifact} has {len(names)} files whose names end with {ending!r}, not one.")
        return self.folder / names[0]

    def check_files(self) -> str:
        """Compares every file with both lists of hashes. Raises Failed for one that is wrong, missing or not named."""
        lines = (self.folder / CHECKSUMS).read_text(encoding="utf-8").splitlines()
        checksums = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
        there = {name: sha256(self.folder / name) for name in files_of(self.folder) if name != CHECKSUMS}
        wrong = sorted(name for name in there.keys() | checksums.keys() if there.get(name) != checksums.get(name))
        listed = [file for entry in self.artifacts.values() for file in entry["files"]]
        wrong += [file["path"] for file in listed if there.get(file["path"]) != file["sha256"]]
        if wrong or {file["path"] for file in listed} | {MANIFEST} != there.keys():
            raise Failed(f"{CHECKSUMS}, {MANIFEST} and the files do not agree: {', '.join(wrong) or 'other names'}.")
        return f"{len(there)} files"


def read_image(archive: Path) -> tuple[str, dict[str, Any]]:
    """The digest of the manifest, and the configuration, of the image in an OCI archive. Every blob has its hash."""
    with tarfile.open(archive) as tar:

        def content(name: str) -> bytes:
            file = tar.extractfile(name)
            assert file is not None, "OCI archives have files alone"
            return file.read()

        for name in tar.getnames():
            if name.startswith("blobs/") and hashlib.sha256(content(name)).hexdigest() != Path(name).name:
                raise Failed(f"{archive.name}: the content of {name} is another.")
        (entry,) = json.loads(content("index.json"))["manifests"]
        manifest = json.loads(content("blobs/" + entry["digest"].replace(":", "/")))
        config = json.loads(content("blobs/" + manifest["config"]["digest"].replace(":", "/")))
        return entry["digest"], config
