"""`.wakeboard/up.json`: how other commands find the database of a running `wakeboard up`; for its owner alone."""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator
    from datetime import datetime
    from pathlib import Path


@contextmanager
def up_file(home: Path, dsn: str, started_at: datetime) -> Generator[None]:
    """{"pid": …, "dsn": …, "started_at": …} while the block runs."""
    path, draft = home / "up.json", home / "up.json.new"
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        json.dump({"pid": os.getpid(), "dsn": dsn, "started_at": started_at.isoformat(timespec="seconds")}, file)
    draft.replace(path)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
