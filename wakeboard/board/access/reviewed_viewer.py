"""A viewer whose permissions an API server reviews, one by one and for each namespace."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from wakeboard.board.access.viewer import KnownNamespaces, Permission

Review: TypeAlias = Callable[[Permission, str | None], Awaitable[bool]]


@dataclass(frozen=True, slots=True)
class ReviewedViewer:
    """A viewer of a cluster."""

    name: str
    namespaces: frozenset[str] | None
    _may: Review

    async def may(self, permission: Permission, namespace: str | None) -> bool:
        """Whether the API server allowed it in the last 30 s.

        What belongs to no namespace needs the permission in all.
        """
        return await self._may(permission, namespace)


async def visible_namespaces(known: KnownNamespaces, may: Review) -> frozenset[str] | None:
    """The namespaces whose runs a user may see; None: all. Raises ReviewFailed."""
    if await may(Permission.VIEW, None):
        return None
    names = await known()
    answers = await asyncio.gather(*(may(Permission.VIEW, name) for name in names))
    return frozenset(name for name, allowed in zip(names, answers, strict=True) if allowed)
