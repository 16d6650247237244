"""The manifest of a release, which names every file with size and hash, and the checksums of all files."""

from __future__ import annotations

import hashlib
import json
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tools.bootstrap import report

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tools.release.artifacts import Artifact
    from tools.release.source import Source

NAME: Final = "wakeboard"
MANIFEST: Final = "manifest.json"
CHECKSUMS: Final = "SHA256SUMS"


def is_release(folder: Path) -> bool:
    """Whether the folder has a release and nothing else, so that another release may replace it."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        named = {file["path"] for entry in manifest["artifacts"] for file in entry["files"]}
    except (OSError, ValueError, TypeError, LookupError):
        return False
    return manifest.get("name") == NAME and named | {MANIFEST, CHECKSUMS} >= set(files_of(folder))


def build(artifacts: Iterable[Artifact], source: Source, folder: Path) -> dict[str, float]:
    """Builds the artifacts into `folder`, and writes the manifest and the checksums there.

    Returns for how many seconds it built each.
    """
    times: dict[str, float] = {}
    entries = [_entry(artifact, source, folder, times) for artifact in artifacts]
    manifest: dict[str, Any] = {
        "name": NAME,
        "version": source.version,
        "commit": source.commit,
        "date": source.date,
        "tag": source.tag or None,
        "repository": source.repository or None,
        "modified": source.modified,
        "artifacts": entries,
    }
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    lines = [f"{sha256(folder / name)}  {name}\n" for name in files_of(folder)]
    (folder / CHECKSUMS).write_text("".join(lines), encoding="utf-8")
    return times


def _entry(artifact: Artifact, source: Source, folder: Path, times: dict[str, float]) -> dict[str, Any]:
    """Builds one artifact apart from the others, so that the files that it makes are known, and moves them there."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="artifact-") as name:
        facts = artifact.build(source, Path(name))
        files = [_moved(Path(name, each), folder, Path(artifact.place, each)) for each in files_of(Path(name))]
    size, names = sum(file["bytes"] for file in files) / 1e6, ", ".join(file["path"] for file in files[:2])
    times[artifact.name] = time.monotonic() - began
    report(f"  {artifact.name:18} {times[artifact.name]:5.1f} s {size:7.1f} MB  {names}")
    return {"name": artifact.name, "what": artifact.what, **facts, "files": files}


def _moved(file: Path, folder: Path, name: Path) -> dict[str, Any]:
    """Moves a file to its place. Raises FileExistsError if another artifact has one there."""
    target = folder / name
    if target.exists():
        raise FileExistsError(f"Two artifacts have a file {name}: give them different places.")
    target.parent.mkdir(parents=True, exist_ok=True)
    file.rename(target)
    return {"path": name.as_posix(), "bytes": target.stat().st_size, "sha256": sha256(target)}


def files_of(folder: Path) -> list[str]:
    """The paths of all files in a folder, relative to it."""
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def sha256(file: Path) -> str:
    """The hash of a file's content, in hexadecimal digits."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
