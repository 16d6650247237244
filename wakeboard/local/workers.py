"""The workers that `wakeboard up` starts: their settings, and the programs that run beside them."""

from __future__ import annotations

import os
import shlex
import sys
from typing import TYPE_CHECKING, Final

from wakeboard.errors import InvalidSettings
from wakeboard.local.child_process import ChildProcess
from wakeboard.local.folder_settings import BESIDE, read_folder_settings
from wakeboard.settings import Settings, read_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

FOLDER_MODULE: Final = "handlers"
FOR_ONE_PERSON: Final = {
    "WAKEBOARD_LEASE_SECONDS": "8",  # a killed worker's runs come back soon, and progress is told every 2 s
    "WAKEBOARD_GRACE_SECONDS": "5",  # nobody likes to wait after Ctrl-C
    "WAKEBOARD_POLL_SECONDS": "0.2",  # a retry by hand starts at once, also while a worker is about to go
}


class WorkerSettings:
    """What workers are told through their environment. It goes before FOLDER/wakeboard.env, and that before ours."""

    def __init__(self, folder: Path, dsn: str) -> None:
        self.folder, self._dsn = folder, dsn
        self.from_file: dict[str, str] = {}
        self.read()

    def read(self) -> None:
        """Reads the folder's settings anew. Raises InvalidSettings, and keeps what was known."""
        self.from_file = read_folder_settings(self.folder)

    @property
    def settings(self) -> Settings:
        """The workers' settings, as they will read them. Raises InvalidSettings."""
        known = {f"WAKEBOARD_{name.upper()}": name for name in Settings.model_fields}
        given = {**FOR_ONE_PERSON, **self.from_file}
        return read_settings(
            **{known[name]: value for name, value in given.items() if name in known and name not in os.environ}
        )

    @property
    def modules(self) -> list[str]:
        """The modules of handlers: those that the settings name, or else the folder's own, if it has one."""
        named = self.settings.handlers
        return named or ([FOLDER_MODULE] if (self.folder / f"{FOLDER_MODULE}.py").is_file() else [])

    @property
    def places(self) -> list[Path]:
        """Where modules are looked for first."""
        return [self.folder.absolute(), self.folder.cwd()]

    def environment(self, queues: Sequence[str]) -> dict[str, str]:
        """The environment of a worker that serves `queues`, unless settings say which. Raises InvalidSettings."""
        path = [*map(str, self.places), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
        return {
            **FOR_ONE_PERSON,
            "WAKEBOARD_QUEUES": ",".join(queues),
            **self.from_file,
            **os.environ,
            "WAKEBOARD_HANDLERS": ",".join(self.modules),
            "WAKEBOARD_DSN": self._dsn,
            "WAKEBOARD_LOG_FORMAT": "json",
            "PYTHONPATH": os.pathsep.join(part for part in path if part),
            "PYTHONUNBUFFERED": "1",
        }

    def served(self, queues: Sequence[str]) -> list[str]:
        """The queues that workers serve: those that the settings name, or else `queues`."""
        said = "WAKEBOARD_QUEUES" in os.environ or "WAKEBOARD_QUEUES" in self.from_file
        return list(self.settings.queues if said else queues)

    @property
    def beside(self) -> list[str]:
        """The command that is to run beside the workers; [] for none. `python` is the one that runs us."""
        try:
            words = shlex.split(os.environ.get(BESIDE) or self.from_file.get(BESIDE, ""))
        except ValueError as error:
            raise InvalidSettings(f"{BESIDE} is no command: {error}.") from error
        return [sys.executable, *words[1:]] if words[:1] == ["python"] else words


async def start_worker(settings: WorkerSettings, queues: Sequence[str], hear: Callable[[str], None]) -> ChildProcess:
    """Wakes a worker. Raises InvalidSettings, OSError."""
    environment = settings.environment(queues)
    command = [sys.executable, "-P", "-m", "wakeboard_worker"]
    return await ChildProcess.start(command, environment=environment, folder=settings.folder.cwd(), tell=hear)


async def start_beside(
    command: Sequence[str], folder: Path, from_file: Mapping[str, str], hear: Callable[[str], None]
) -> ChildProcess:
    """Starts a program in the folder. Raises OSError if there is none such."""
    environment = {**from_file, **os.environ, "PYTHONUNBUFFERED": "1"}
    return await ChildProcess.start(command, environment=environment, folder=folder, tell=hear)
