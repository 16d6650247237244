"""The file by which commands find the database of a `wakeboard up` that runs: {"pid": …, "dsn": …}."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

UP_FILE = Path(".wakeboard/up.json")


def running_up(path: Path = UP_FILE) -> dict[str, Any]:
    """The content of the file; {} if there is none, another user wrote it, or its `up` does not run any more."""
    try:
        found: Any = json.loads(path.read_text("utf-8")) if path.stat().st_uid == os.geteuid() else None
        os.kill(found["pid"], 0)
        return {"pid": found["pid"], "dsn": found["dsn"]}
    except (OSError, ValueError, KeyError, TypeError):
        return {}
