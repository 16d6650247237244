"""Settings that lie beside the schedules: FOLDER/wakeboard.env, lines of NAME=value.

    # A comment.
    WAKEBOARD_HTTP_ALLOWED_HOSTS=127.0.0.1:48123

They are for the workers that `wakeboard up FOLDER` starts. The environment goes before them. Two names are special:
WAKEBOARD_UP_COMPANION is a command that `up` runs in the folder beside the workers, and WAKEBOARD_DSN is refused: which
database it is stands in the environment or on the command line.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Final

from wakeboard.errors import InvalidSettings
from wakeboard.local.bounded_file import Unreadable, read_text

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

MOST_BYTES: Final = 65_536
FILE_NAME: Final = "wakeboard.env"
BESIDE: Final = "WAKEBOARD_UP_COMPANION"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def read_folder_settings(folder: Path) -> dict[str, str]:
    """What the file says; {} without one. Raises InvalidSettings in a sentence that names the line."""
    path = folder / FILE_NAME
    try:
        text = read_text(path, MOST_BYTES)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise InvalidSettings(f"{path} cannot be read: {error.strerror}.") from error
    except Unreadable as error:
        raise InvalidSettings(f"{path}, line {error.line}: {error}.") from error
    settings: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip() and not line.lstrip().startswith("#"):
            name, value = _parsed(line.strip(), f"{path}, line {number}")
            settings[name] = value
    return settings


def _parsed(line: str, where: str) -> tuple[str, str]:
    name, equals, value = (part.strip() for part in line.partition("="))
    if not equals or not _NAME.fullmatch(name):
        raise InvalidSettings(f"{where}: {line[:80]!r} is no setting; write for example WAKEBOARD_CONCURRENCY=10.")
    if name == "WAKEBOARD_DSN":
        raise InvalidSettings(f"{where}: the database does not belong here; say it with --dsn or in the environment.")
    if value[:1] in {"'", '"'}:
        try:
            (value,) = shlex.split(value)
        except ValueError:
            raise InvalidSettings(f"{where}: the quotes of {name} do not match.") from None
    return name, value


def shown(settings: Mapping[str, str]) -> list[str]:
    """NAME=value for people, in order; what is a secret is not told."""
    return [f"{name}={_harmless(name, value)}" for name, value in settings.items()]


def _harmless(name: str, value: str) -> str:
    secret = re.search(r"SECRET|PASSWORD|TOKEN|KEY", name.upper()) and not name.endswith(("_DIR", "_DAYS"))
    return "…" if secret else value
