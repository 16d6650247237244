"""Reads a file that may change while it is in use; the last valid content stays in force."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

from wakeboard.errors import InvalidSchedule

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

_Content = TypeVar("_Content")
_Stamp: TypeAlias = "tuple[int, int, int]"


class ReloadedFile(Generic[_Content]):
    """The content of a file, which `load` reads. Volumes of Kubernetes replace a file by changing a link.

    `report` is called with the sentences about an invalid file once for each change of them, and with none when the
    file is valid again. `missing`: the content of a missing file; None: a missing file is a problem.
    """

    def __init__(
        self,
        path: Path,
        load: Callable[[Path], _Content],
        report: Callable[[Sequence[str]], object],
        *,
        missing: _Content | None = None,
    ) -> None:
        self._path, self._load, self._report, self._missing = path, load, report, missing
        self._stamp: _Stamp | None = None
        self._content: _Content | None = None
        self._problems: tuple[str, ...] = ()

    def content(self) -> _Content | None:
        """The last valid content; None: there is none.

        Reads the file if it was replaced or written since the last call.
        """
        stamp = _stamp_of(self._path)
        if stamp is None and self._missing is not None:
            self._stamp, self._content = None, self._missing
            self._set_problems(())
        elif stamp is None or stamp != self._stamp:
            self._stamp = stamp
            try:
                self._content = self._load(self._path)
            except InvalidSchedule as error:
                self._set_problems(tuple(error.problems))
            else:
                self._set_problems(())
        return self._content

    def _set_problems(self, problems: tuple[str, ...]) -> None:
        if problems != self._problems:
            self._problems = problems
            self._report(problems)


def _stamp_of(path: Path) -> _Stamp | None:
    """Changes when the file changes, also if a link on the way to it does, as in volumes of Kubernetes."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
