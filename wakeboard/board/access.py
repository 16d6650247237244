"""Who may see and do what.

An `Access` turns a request into a `Viewer`. Every page and action asks the viewer for a permission in a namespace.
`LocalAccess` is for a board that only this machine can reach: it allows everything.
"""

from __future__ import annotations

import getpass
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection


class Permission(StrEnum):
    """What a viewer may do. Each action of the board has a permission of its own."""

    VIEW = "view"
    RETRY = "retry"
    CANCEL = "cancel"
    REPLAY = "replay"
    DISCARD = "discard"
    RUN_NOW = "run"
    PAUSE = "pause"
    LIMIT = "limit"
    REVEAL = "reveal"  # see values that are masked by their key


class Viewer(Protocol):
    """A user who has logged in, or the user of a local board."""

    @property
    def name(self) -> str:
        """The name for the audit log."""
        ...

    @property
    def namespaces(self) -> frozenset[str] | None:
        """The namespaces whose schedules and runs are shown; None: all, and runs without a schedule."""
        ...

    async def may(self, permission: Permission, namespace: str | None) -> bool:
        """Whether an action is allowed in a namespace; None: on what belongs to no namespace."""
        ...


class Access(Protocol):
    """A way to log in."""

    async def viewer(self, request: HTTPConnection) -> Viewer | None:
        """The viewer who sent the request; None: the request must log in first."""
        ...


@dataclass(frozen=True, slots=True)
class LocalViewer:
    """The user of this machine. Everything is allowed."""

    name: str
    namespaces: frozenset[str] | None = None

    async def may(self, permission: Permission, namespace: str | None) -> bool:  # noqa: ARG002
        """Always true."""
        return True


class LocalAccess:
    """No login: for a board that listens on loopback only."""

    async def viewer(self, request: HTTPConnection) -> Viewer | None:  # noqa: ARG002
        """The user that runs the board."""
        try:
            return LocalViewer(getpass.getuser())
        except (KeyError, OSError):
            return LocalViewer("local")
