"""Two images made from Debian's static busybox, without a registry: one for pods of tests, one that holds sandboxes."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

from testbed.cluster.node_settings import PAUSE

if TYPE_CHECKING:
    from collections.abc import Iterator

BUSYBOX = "localhost/busybox:1"
FOREVER = "2147483647"  # seconds
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
LOADERS = b"/ld-linux", b"/ld-musl"
FILES = {
    "etc/passwd": "root:x:0:0:root:/:/bin/sh\nnonroot:x:65532:65532::/home:/bin/sh\n",
    "etc/group": "root:x:0:\nnonroot:x:65532:\n",
    "etc/nsswitch.conf": "hosts: files dns\n",
    "www/index.html": "ok\n",
}


def find_busybox() -> Path | None:
    """A busybox that needs no libraries; None if there is none."""
    found = shutil.which("busybox")
    if found is None or any(loader in Path(found).read_bytes() for loader in LOADERS):
        return None
    return Path(found)


def write_small_images(busybox: Path, archive: Path) -> None:
    """Both, in one archive of the kind that `docker save` writes."""
    layer = _layer(busybox)
    digest = hashlib.sha256(layer).hexdigest()
    files = {f"{digest}/layer.tar": layer}
    manifest: list[dict[str, object]] = []
    for name, command in ((BUSYBOX, ["sh"]), (PAUSE, ["sleep", FOREVER])):
        config = _config(digest, command)
        file = f"{hashlib.sha256(config).hexdigest()}.json"
        files[file] = config
        manifest.append({"Config": file, "RepoTags": [name], "Layers": [f"{digest}/layer.tar"]})
    files["manifest.json"] = json.dumps(manifest).encode()
    with tarfile.open(archive, "w") as tar:
        for name, content in files.items():
            _add_file(tar, name, content)


def _config(layer: str, command: list[str]) -> bytes:
    document = {
        "architecture": ARCHITECTURES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": {"Cmd": command, "Env": ["PATH=/bin"], "WorkingDir": "/"},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer}"]},
    }
    return json.dumps(document).encode()


def _layer(busybox: Path) -> bytes:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as tar:
        for name in ("bin", "dev", "etc", "home", "proc", "sys", "var", "www"):
            _add_folder(tar, name, 0o755)
        _add_folder(tar, "tmp", 0o1777)
        _add_file(tar, "bin/busybox", busybox.read_bytes(), 0o755)
        for name, text in FILES.items():
            _add_file(tar, name, text.encode())
        for word in _words_of(busybox):
            link = tarfile.TarInfo(f"bin/{word}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(link)
    return written.getvalue()


def _words_of(busybox: Path) -> Iterator[str]:
    answer = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True)
    return (word for word in answer.stdout.split() if word != "busybox")


def _add_folder(tar: tarfile.TarFile, name: str, mode: int) -> None:
    folder = tarfile.TarInfo(name)
    folder.type, folder.mode = tarfile.DIRTYPE, mode
    tar.addfile(folder)


def _add_file(tar: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    file = tarfile.TarInfo(name)
    file.size, file.mode = len(content), mode
    tar.addfile(file, io.BytesIO(content))
