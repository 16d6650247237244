"""buildah, with a storage of its own, without a network, and without a registry."""

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

RUNNING = "/run/wakeboard-images-{}"  # gone after a reboot, as the mounts are that it speaks of
STORAGE = """\
[storage]
driver = "overlay"
graphroot = "{folder}/layers"
runroot = "{running}"
"""
MOST_IMAGES = 300  # each step of a build is one; then 2 GB are thrown away and built anew
LOG_TAIL = 40  # lines of a failed build


class Buildah:
    """Builds images into a storage in `folder`. Each of its words ends the process with buildah's own if it fails."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        settings = folder / "storage.conf"
        running = RUNNING.format(hashlib.sha256(bytes(folder.resolve())).hexdigest()[:8])
        settings.write_text(STORAGE.format(folder=folder, running=running))
        self._environment = {**os.environ, "CONTAINERS_STORAGE_CONF": str(settings)}

    def build(
        self,
        reference: str,
        context: Path,
        *,
        target: str | None = None,
        dockerfile: str = "Dockerfile",
        arguments: Mapping[str, str] | None = None,
        mounts: Mapping[Path, str] | None = None,
        anew: bool = False,
    ) -> None:
        """Builds a Dockerfile; steps that an earlier build made of the same are taken from it, but not if `anew`.

        `mounts` are what the steps see of this machine, read-only.
        """
        words = ["--layers", "--pull=never", "--network=none", f"--timestamp={EPOCH}", f"--tag={reference}"]
        words += ["--no-cache"] if anew else []
        words += [f"--target={target}"] if target else []
        words += [f"--build-arg={name}={value}" for name, value in (arguments or {}).items()]
        words += [f"--volume={path}:{place}:ro" for path, place in (mounts or {}).items()]
        self._run("build", *words, f"--file={context / dockerfile}", str(context))

    def save(self, reference: str, archive: Path) -> None:
        """Writes an image as an OCI archive that carries its name."""
        self._run("push", reference, f"oci-archive:{archive}:{reference}")

    def load(self, archive: Path) -> None:
        """The image in an OCI archive, under its name."""
        self._run("pull", f"oci-archive:{archive}")

    def open(self, reference: str) -> Path:
        """A folder with an image's files; what is written there reaches no one else."""
        container = self._run("from", "--pull-never", reference).strip()
        return Path(self._run("mount", container).strip())

    def config(self, reference: str) -> dict[str, Any]:
        """How a container of the image is run: User, Env, Entrypoint, Labels, StopSignal…"""
        return json.loads(self._run("inspect", "--type=image", reference))["OCIv1"]["config"]

    def close(self) -> None:
        """Removes all containers and images."""
        self._run("rm", "--all")
        self._run("rmi", "--all", "--force")

    def has(self, reference: str) -> bool:
        """Whether the storage holds the image."""
        command = ["buildah", "inspect", "--type=image", reference]
        answer = subprocess.run(command, env=self._environment, capture_output=True, check=False)
        return answer.returncode == 0

    def forget_if_there_are_many(self) -> None:
        """Throws all away when the storage has grown long: the next build starts from nothing."""
        if len(self._run("images", "--all", "--quiet").split()) > MOST_IMAGES:
            self._run("rmi", "--all", "--force")

    def _run(self, *words: str) -> str:
        answer = subprocess.run(["buildah", *words], env=self._environment, capture_output=True, text=True, check=False)
        if answer.returncode:
            log_tail = (answer.stdout + answer.stderr).splitlines()[-LOG_TAIL:]
            sys.exit("\n".join([*log_tail, f"buildah could not {words[0]}; what it says stands above."]))
        return answer.stdout
