"""Settings for the workers that `wakeboard up` starts: FOLDER/wakeboard.env, the environment, and local defaults.

    # A comment.
    WAKEBOARD_HTTP_ALLOWED_HOSTS=127.0.0.1:48123

An environment variable overrides FOLDER/wakeboard.env, which overrides the local defaults. Two names are special:
WAKEBOARD_UP_COMPANION is a command that `up` runs in the folder next to the workers, and which gets the database as
WAKEBOARD_DSN. The file must not set WAKEBOARD_DSN, because the environment or --dsn chooses the database.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from wakeboard.declared.bounded_file import Unreadable, read_text
from wakeboard.errors import InvalidSettings
from wakeboard.secrets import variable_of
from wakeboard.settings import Settings, read_settings

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

MAX_FILE_BYTES: Final = 65_536
FILE_NAME: Final = "wakeboard.env"
_SHOWN: Final = 120  # characters of a value in the log
COMPANION: Final = "WAKEBOARD_UP_COMPANION"
WATCH_ORIGINS: Final = "WAKEBOARD_BOARD_WATCH_ORIGINS"
WATCH_SECRETS: Final = "WAKEBOARD_BOARD_WATCH_SECRETS_FILE"
ALERTS_FILE: Final = "alerts.yaml"  # in the folder
HANDLER_MODULE: Final = "handlers"  # FOLDER/handlers.py
LOCAL_DEFAULTS: Final = {
    "WAKEBOARD_LEASE_SECONDS": "8",  # runs of a killed worker are soon queued again; progress is written every 2 s
    "WAKEBOARD_GRACE_SECONDS": "5",  # Ctrl-C takes no longer
    "WAKEBOARD_MAX_TIMEOUT_SECONDS": "2678400",  # 31 days: no other pool could take runs with a long timeout
    "WAKEBOARD_POLL_SECONDS": "0.2",  # a manual retry starts at once, even while a worker is about to exit
}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class WorkerSettings:
    """The settings of the workers and of the companion process."""

    def __init__(self, folder: Path, dsn: str) -> None:
        self.folder, self._dsn = folder, dsn
        self.board_url = self.watch_secrets_file = ""  # of the board that `up` serves
        self.from_file: dict[str, str] = {}
        self.read_file()

    def read_file(self) -> None:
        """Reads FOLDER/wakeboard.env again. Keeps the earlier values and raises InvalidSettings if it is invalid.

        The message has a line for each mistake.
        """
        file = read_env_file(self.folder)
        earlier, self.from_file = self.from_file, file.values
        mistakes = list(file.mistakes)
        for check in (lambda: self.settings, lambda: self.companion_command):
            try:
                check()
            except InvalidSettings as error:
                mistakes += map(file.placed, str(error).splitlines())
        if mistakes:
            self.from_file = earlier
            raise InvalidSettings("\n".join(mistakes))

    @property
    def settings(self) -> Settings:
        """The settings as a worker will read them. Raises InvalidSettings."""
        known = {f"WAKEBOARD_{name.upper()}": name for name in Settings.model_fields}
        given = {**LOCAL_DEFAULTS, **self.from_file}
        return read_settings(
            **{known[name]: value for name, value in given.items() if name in known and name not in os.environ}
        )

    @property
    def modules(self) -> list[str]:
        """The handler modules: those of WAKEBOARD_HANDLERS, or else FOLDER/handlers.py if it exists."""
        explicit = self.settings.handlers
        return explicit or ([HANDLER_MODULE] if (self.folder / f"{HANDLER_MODULE}.py").is_file() else [])

    @property
    def import_paths(self) -> list[Path]:
        """The folders that Python searches first for handler modules."""
        return [self.folder.absolute(), self.folder.cwd()]

    @property
    def local_alerts_file(self) -> Path:
        """The file with alert rules in the folder, which need not exist."""
        return self.folder.absolute() / ALERTS_FILE

    def missing_secrets(self, names: Iterable[str]) -> list[str]:
        """The variables of those secrets that the workers do not have."""
        folder = self.settings.secrets_dir
        known = {**self.from_file, **os.environ}
        return [
            variable
            for name in names
            if not known.get(variable := variable_of(name)) and not (folder and Path(folder, name).is_file())
        ]

    def environment(self, queues: Sequence[str]) -> dict[str, str]:
        """The environment of a worker of `queues`, unless settings name other queues. Raises InvalidSettings."""
        path = [*map(str, self.import_paths), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
        return {
            **LOCAL_DEFAULTS,
            "WAKEBOARD_QUEUES": ",".join(queues),
            "WAKEBOARD_BOARD_URL": self.board_url,
            "WAKEBOARD_ALERTS_FILE": str(self.local_alerts_file) if self.local_alerts_file.exists() else "",
            **self.from_file,
            **os.environ,
            "WAKEBOARD_HANDLERS": ",".join(self.modules),
            "WAKEBOARD_DSN": self._dsn,
            "WAKEBOARD_LOG_FORMAT": "json",
            "PYTHONPATH": os.pathsep.join(part for part in path if part),
            "PYTHONUNBUFFERED": "1",
        }

    def companion_environment(self) -> dict[str, str]:
        """The environment of the companion process, which may enqueue, and sign run tokens for the board."""
        return {
            **self.from_file,
            **os.environ,
            "WAKEBOARD_DSN": self._dsn,
            "WAKEBOARD_BOARD_URL": self.board_url,
            WATCH_SECRETS: self.watch_secrets_file,
            "PYTHONUNBUFFERED": "1",
        }

    @property
    def watch_origins(self) -> list[str]:
        """The origins whose pages may use run tokens."""
        names = {**self.from_file, **os.environ}.get(WATCH_ORIGINS, "").split(",")
        return [name.strip().rstrip("/") for name in names if name.strip()]

    def worker_queues(self, declared: Sequence[str]) -> list[str]:
        """The queues that workers serve: those of WAKEBOARD_QUEUES, or else the `declared` ones."""
        is_explicit = "WAKEBOARD_QUEUES" in os.environ or "WAKEBOARD_QUEUES" in self.from_file
        return list(self.settings.queues if is_explicit else declared)

    @property
    def companion_command(self) -> list[str]:
        """The command of the companion process; [] for none. `python` is the interpreter that runs wakeboard."""
        try:
            words = shlex.split(os.environ.get(COMPANION) or self.from_file.get(COMPANION, ""))
        except ValueError as error:
            raise InvalidSettings(f"{COMPANION} is not a valid command: {error}.") from error
        return [sys.executable, *words[1:]] if words[:1] == ["python"] else words


@dataclass(frozen=True, slots=True)
class EnvFile:
    """FOLDER/wakeboard.env. `lines`: where each name is. `mistakes`: a sentence for each invalid line."""

    path: Path
    values: dict[str, str] = field(default_factory=dict[str, str])
    lines: dict[str, int] = field(default_factory=dict[str, int])
    mistakes: list[str] = field(default_factory=list[str])

    def placed(self, sentence: str) -> str:
        """A sentence that begins with the name of a setting, with file and line if the setting is from the file."""
        name = _NAME.match(sentence)
        line = self.lines.get(name[0]) if name and name[0] not in os.environ else None
        return sentence if line is None else f"{self.path}, line {line}: {sentence}"


def read_env_file(folder: Path) -> EnvFile:
    """Parses FOLDER/wakeboard.env, which need not exist. Raises InvalidSettings if it cannot be read."""
    path = folder / FILE_NAME
    file = EnvFile(path)
    try:
        text = read_text(path, MAX_FILE_BYTES)
    except FileNotFoundError:
        return file
    except OSError as error:
        raise InvalidSettings(f"{path} cannot be read: {error.strerror}.") from error
    except Unreadable as error:
        raise InvalidSettings(f"{path}, line {error.line}: {error}.") from error
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip() and not line.lstrip().startswith("#"):
            try:
                name, value = _parse_line(line.strip())
            except InvalidSettings as error:
                file.mistakes.append(f"{path}, line {number}: {error}")
            else:
                file.values[name], file.lines[name] = value, number
    return file


def _parse_line(line: str) -> tuple[str, str]:
    name, equals, value = (part.strip() for part in line.partition("="))
    if not equals or not _NAME.fullmatch(name):
        raise InvalidSettings(f"{line[:80]!r} is not NAME=value; write for example WAKEBOARD_CONCURRENCY=10.")
    if name == "WAKEBOARD_DSN":
        raise InvalidSettings("WAKEBOARD_DSN is not allowed here; use --dsn or the environment.")
    if value[:1] in {"'", '"'}:
        try:
            (value,) = shlex.split(value)
        except ValueError:
            raise InvalidSettings(f"the quotes of {name} do not match.") from None
    return name, value


def redacted(settings: Mapping[str, str]) -> list[str]:
    """Formats settings as NAME=value in order, without the values of secrets; a long value is cut."""
    return [f"{name}={'…' if _is_secret(name) else _cut(value)}" for name, value in settings.items()]


def _cut(value: str) -> str:
    return value if len(value) <= _SHOWN else f"{value[:_SHOWN]}…"


def _is_secret(name: str) -> bool:
    """Whether a setting of this name may be a credential; `AI_TOKENS_PER_MINUTE` counts something."""
    return bool(re.search(r"SECRET|PASSWORD|TOKEN|KEY", name.upper())) and not re.search(
        "_(DIR|DAYS)$|_PER_|MAX_", name
    )
