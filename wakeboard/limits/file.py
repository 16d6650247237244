"""Loads declared limits from a YAML file with one document. Each problem has its file and line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wakeboard.declared.single_document import load_single_document
from wakeboard.limits.rules.declared_limits import API_VERSION, KIND, load_limits

if TYPE_CHECKING:
    from pathlib import Path

    from wakeboard.limits.rules.declared_limits import Limits


def load_limit_file(path: Path) -> Limits:
    """The limits of a file with one document. Raises InvalidSchedule with a sentence for each problem."""
    return load_single_document(path, load_limits, api_version=API_VERSION, kind=KIND, content="limits")
