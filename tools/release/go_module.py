"""Writes a Go module as a module proxy serves it: `MODULE/@v/VERSION.info`, `.mod` and `.zip`.

`GOPROXY=file://FOLDER` reads the folder. The zip follows the rules of golang.org/x/mod/zip: the files of nested modules
and of `vendor` are left out, each name begins with `MODULE@VERSION/`, and names must be valid on every system.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zipfile
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

MOST_BYTES: Final = 500 << 20
MOST_BYTES_OF_ONE: Final = {"go.mod": 16 << 20, "LICENSE": 16 << 20}
VALID_PART: Final = re.compile(r"[A-Za-z0-9!#$%&()+,\-.=@\[\]^_{}~ ]*[A-Za-z0-9!#$%&()+,\-=@\[\]^_{}~]")
DEVICE: Final = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)  # names that Windows keeps
NO_TIME: Final = (1980, 1, 1, 0, 0, 0)  # the oldest of a zip


class Refused(Exception):
    """Go would refuse the zip. The message names the file and the rule."""


def write_module(folder: Path, files: Mapping[str, bytes], version: str, date: str) -> dict[str, str]:
    """Writes the three files. `files` are the module's, by path. Returns the module and its line of go.sum."""
    found = re.match(r"module (\S+)", files["go.mod"].decode())
    if not found or found[1] != found[1].lower():
        raise Refused("go.mod must begin with `module` and a name in lower case.")
    module, content = found[1], {name: files[name] for name in of_module(files)}
    check_zip(content)
    (place := folder / module / "@v").mkdir(parents=True)
    (place / f"{version}.info").write_text(json.dumps({"Version": version, "Time": date}))
    (place / f"{version}.mod").write_bytes(content["go.mod"])
    named = {f"{module}@{version}/{name}": data for name, data in content.items()}
    with zipfile.ZipFile(place / f"{version}.zip", "w") as archive:
        for name in sorted(named):
            entry = zipfile.ZipInfo(name, NO_TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, named[name], compresslevel=9)
    return {"module": module, "go.sum": f"{module} {version} {hash_of(named)}"}


def of_module(names: Iterable[str]) -> list[str]:
    """Those of these files that belong to the module itself."""
    names = sorted(names)
    nested = tuple(name.removesuffix("go.mod") for name in names if name.endswith("/go.mod"))
    return [name for name in names if not name.startswith(nested) and "vendor" not in name.split("/")[:-1]]


def check_zip(files: Mapping[str, bytes]) -> None:
    """Raises Refused if Go would not take these files."""
    folded: dict[str, str] = {}
    for name, data in files.items():
        for part in name.split("/"):
            if not VALID_PART.fullmatch(part) or DEVICE.fullmatch(part):
                raise Refused(f"{name}: rename it, because {part!r} is not a valid name on every system.")
        if len(data) > MOST_BYTES_OF_ONE.get(name, MOST_BYTES):
            raise Refused(f"{name} has {len(data)} bytes, more than Go takes.")
        if (other := folded.setdefault(name.lower(), name)) != name:
            raise Refused(f"{name} and {other} differ only by case: rename one.")
    if sum(map(len, files.values())) > MOST_BYTES:
        raise Refused(f"The module has more than {MOST_BYTES >> 20} MB.")


def hash_of(files: Mapping[str, bytes]) -> str:
    """What go.sum has of these files: `h1:` and the hash of the list of their hashes."""
    lines = "".join(f"{hashlib.sha256(files[name]).hexdigest()}  {name}\n" for name in sorted(files))
    return "h1:" + base64.b64encode(hashlib.sha256(lines.encode()).digest()).decode()
