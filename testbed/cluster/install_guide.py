"""Types the commands of docs/install.md, unchanged, as an administrator of a node does."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from typing import TYPE_CHECKING, Final

from testbed.cluster.binaries import find_program
from testbed.cluster.node_settings import SOCKET
from tools.chart_linters import find_tool

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from testbed.cluster.node import Node

TIMEOUT_S: Final = 240  # for one block
NO_PLACEHOLDERS: Final[Mapping[str, str]] = {}


class Reader:
    """Only `helm install` gets more arguments: `values`, for the images of this machine.

    `text` is the guide's. `placeholders` are words of it, and what replaces them. Commands run in `place`.
    """

    def __init__(
        self,
        node: Node,
        folder: Path,
        text: str,
        place: Path,
        values: str,
        placeholders: Mapping[str, str] = NO_PLACEHOLDERS,
    ) -> None:
        self.node, self._folder, self._text, self._place = node, folder, text, place
        self._placeholders = placeholders
        (folder / "values.yaml").write_text(values)
        helm, kubectl = find_tool("helm"), find_program("kubectl")
        inside = f'cd "$0" && exec {shutil.which("ctr")} --address {SOCKET} "$@"'  # nsenter leaves the folder
        ctr = shlex.join(node.machine.command(("sh", "-c", inside)))
        more = f'case "$1" in install) set -- "$@" --values {folder}/values.yaml;; esac\n'
        for name, script in (
            ("helm", f"{more}exec {helm}"),
            ("kubectl", f"exec {kubectl}"),
            ("ctr", f'exec {ctr} "$PWD"'),
        ):
            (folder / name).write_text(f'#!/bin/sh\n{script} "$@"\n')
            (folder / name).chmod(0o755)

    def types(self, heading: str) -> str:
        """Types every `sh` block below a heading; what they print."""
        return "".join(self.run(block) for block in self.blocks(heading, "sh"))

    def blocks(self, heading: str, language: str) -> list[str]:
        """The blocks of code below a heading."""
        section = self._text.split(f"\n## {heading}\n")[1].split("\n## ")[0]
        found = re.findall(rf"^```{language}\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
        for written, meant in self._placeholders.items():
            found = [block.replace(written, meant) for block in found]
        return found

    def run(self, script: str) -> str:
        """Types a block; what it prints. Raises AssertionError with its output if it fails."""
        environment = {
            **os.environ,
            "PATH": f"{self._folder}:{os.environ['PATH']}",
            "KUBECONFIG": str(self.node.admin),
            "HOME": str(self._folder),
        }
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            env=environment,
            cwd=self._place,
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT_S,
        )
        assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
        return done.stdout
