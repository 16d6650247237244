"""Serves the files of `static/` under names that contain a hash of their content, so that browsers keep them for good.

All files are read at start. Nothing else can be requested.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from starlette.responses import PlainTextResponse, Response

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.resources.abc import Traversable

    from starlette.types import Receive, Scope, Send

MEDIA_TYPES: Final = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


@lru_cache(maxsize=1)
def assets() -> dict[str, tuple[str, bytes]]:
    """All static files by name (`board.css`, `vendor/htmx.min.js`): the name with a hash, and the content."""
    return {name: (_hashed(name, content), content) for name, content in _files(files("wakeboard.board") / "static")}


def _files(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, bytes]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _files(entry, f"{prefix}{entry.name}/")
        elif any(entry.name.endswith(suffix) for suffix in MEDIA_TYPES):
            yield prefix + entry.name, entry.read_bytes()


def _hashed(name: str, content: bytes) -> str:
    stem, _, suffix = name.rpartition(".")
    return f"{stem}-{hashlib.sha256(content).hexdigest()[:12]}.{suffix}"


class StaticAssets:
    """An ASGI application for these files."""

    def __init__(self) -> None:
        self._by_hashed_name = dict(assets().values())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: D102 - ASGI
        name = scope["path"].removeprefix(scope.get("root_path", "")).removeprefix("/")
        content = self._by_hashed_name.get(name)
        if content is None or scope["method"] not in {"GET", "HEAD"}:
            await PlainTextResponse("404: there is no such file.\n", 404)(scope, receive, send)
            return
        media_type = MEDIA_TYPES[name[name.rindex(".") :]]
        headers = {"Cache-Control": "public, max-age=31536000, immutable"}
        await Response(content, media_type=media_type, headers=headers)(scope, receive, send)
