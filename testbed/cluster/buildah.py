"""Runs buildah with its own storage, without a network and without a registry."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testbed.cluster.debian_rootfs import EPOCH

if TYPE_CHECKING:
    from collections.abc import Mapping

RUNNING = "/run/wakeboard-images-{}"
STORAGE = """\
[storage]
driver = "overlay"
graphroot = "{folder}/layers"
runroot = "{running}"
"""
READ_ONLY = """\
[storage.options]
additionalimagestores = ["{folder}/layers"]
"""
MOST_IMAGES = 300  # each build step is one; above this, all (2 GB) are removed and rebuilt
LOG_TAIL = 40  # lines of a failed build


class Buildah:
    """Builds images into a storage in `folder`. If buildah fails, the process exits with its output.

    `running` is where buildah records what is mounted. The default is a folder that a reboot removes, like the mounts.
    `other` is the folder of another storage, whose images are seen too, and not changed.
    """

    def __init__(self, folder: Path, running: Path | None = None, other: Path | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        settings = folder / "storage.conf"
        running = running or Path(RUNNING.format(hashlib.sha256(bytes(folder.resolve())).hexdigest()[:8]))
        more = READ_ONLY.format(folder=other) if other and (other / "layers").is_dir() else ""
        settings.write_text(STORAGE.format(folder=folder, running=running) + more)
        self._environment = {**os.environ, "CONTAINERS_STORAGE_CONF": str(settings)}

    def build(
        self,
        reference: str,
        context: Path,
        *,
        target: str | None = None,
        arguments: Mapping[str, str] | None = None,
        mounts: Mapping[Path, str] | None = None,
        use_cache: bool = True,
    ) -> None:
        """Builds a Dockerfile. Unchanged steps come from the cache of earlier builds if `use_cache`.
        `mounts` maps folders and files of this machine to read-only paths in the build.
        """
        words = ["--layers", "--pull=never", "--network=none", f"--timestamp={EPOCH}", f"--tag={reference}"]
        words += [] if use_cache else ["--no-cache"]
        words += [f"--target={target}"] if target else []
        words += [f"--build-arg={name}={value}" for name, value in (arguments or {}).items()]
        words += [f"--volume={path}:{place}:ro" for path, place in (mounts or {}).items()]
        self._run("build", *words, f"--file={context / 'Dockerfile'}", str(context))

    def label(self, reference: str, labels: Mapping[str, str]) -> None:
        """Sets labels of an image after its build, whose cache ignores the value of a label or of its argument."""
        container = self._run("from", "--pull-never", reference).strip()
        self._run("config", *(f"--label={name}={value}" for name, value in labels.items()), container)
        self._run("commit", "--rm", f"--timestamp={EPOCH}", container, reference)

    def save(self, reference: str, target: Path, form: str = "oci-archive") -> None:
        """Writes an image that carries its name, as a file, or as a folder if `form` is "oci".

        zstd takes half of the CPU of gzip, also to read.
        """
        words = "--compression-format=zstd", "--compression-level=1"
        self._run("push", *words, reference, f"{form}:{target}:{reference}")

    def load(self, archive: Path) -> None:
        """The image in an OCI archive, under its name."""
        self._run("pull", f"oci-archive:{archive}")

    def tag(self, reference: str, name: str) -> None:
        """Gives an image another name."""
        self._run("tag", reference, name)

    def open(self, reference: str) -> Path:
        """A folder with an image's files; changes there do not change the image."""
        container = self._run("from", "--pull-never", reference).strip()
        return Path(self._run("mount", container).strip())

    def read(self, reference: str, *paths: str) -> list[str]:
        """The texts of files of an image."""
        container = self._run("from", "--pull-never", reference).strip()
        try:
            root = Path(self._run("mount", container).strip())
            return [(root / path).read_text(encoding="utf-8") for path in paths]
        finally:
            self._run("rm", container)

    def config(self, reference: str) -> dict[str, Any]:
        """How a container of the image is run: User, Env, Entrypoint, Labels, StopSignal…"""
        return self._inspected(reference)["config"]

    def layers(self, reference: str) -> list[str]:
        """The digests of an image's layers as they are when they are unpacked, from the bottom."""
        return self._inspected(reference)["rootfs"]["diff_ids"]

    def close(self) -> None:
        """Removes all containers and images."""
        self._run("rm", "--all")
        self._run("rmi", "--all", "--force")

    def has(self, reference: str) -> bool:
        """Whether the storage holds the image."""
        command = ["buildah", "inspect", "--type=image", reference]
        answer = subprocess.run(command, env=self._environment, capture_output=True, check=False)
        return answer.returncode == 0

    def prune(self) -> None:
        """Removes all images if there are more than MOST_IMAGES. The next build then starts without a cache."""
        if len(self._run("images", "--all", "--quiet").split()) > MOST_IMAGES:
            self._run("rmi", "--all", "--force")

    def _inspected(self, reference: str) -> dict[str, Any]:
        return json.loads(self._run("inspect", "--type=image", reference))["OCIv1"]

    def _run(self, *words: str) -> str:
        answer = subprocess.run(["buildah", *words], env=self._environment, capture_output=True, text=True, check=False)
        if answer.returncode:
            log_tail = (answer.stdout + answer.stderr).splitlines()[-LOG_TAIL:]
            sys.exit("\n".join([*log_tail, f"buildah {words[0]} failed; its output is above."]))
        return answer.stdout
