"""The public names of `import wakeboard`, and what is not imported."""

from __future__ import annotations

import subprocess
import sys

import pytest

import wakeboard


def test_the_package_lists_its_public_names():
    assert dir(wakeboard) == sorted(wakeboard.__all__)
    assert "enqueue" in dir(wakeboard)
    assert all(getattr(wakeboard, name) for name in dir(wakeboard))


def test_listing_or_importing_it_loads_nothing_more():
    code = "import sys, wakeboard; dir(wakeboard); print(*(name for name in sys.modules if 'wakeboard' in name))"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert output == "wakeboard\n"


TICKS = """
from datetime import UTC, datetime
from wakeboard.ticks.compiled_ticks import ticks_for
ticks = ticks_for("1 1 100 fffffffe 1ffe 2 - -", "Europe/Lisbon", "RunAfter", "First")
assert ticks.next_tick(datetime(2026, 1, 1, tzinfo=UTC)) == datetime(2026, 1, 5, 8, tzinfo=UTC)
"""
HEAVY = {"aiohttp", "croniter", "dateutil", "importlib.resources", "psycopg", "pydantic", "rich", "tzdata", "yaml"}


@pytest.mark.parametrize(
    ("code", "may_import"),
    [
        ("from wakeboard.cli import main; main(['--help'])", {"importlib.resources"}),
        ("import wakeboard.maintenance", {"psycopg", "importlib.resources"}),
        (TICKS, {"tzdata"}),
    ],
    ids=["--help", "the loop of a waking worker", "ticks"],
)
def test_what_starts_often_imports_nothing_heavy(code: str, may_import: set[str]):
    """A waking worker counts milliseconds."""
    script = f"{code}\nimport sys\nprint(*sorted({HEAVY!r} & set(sys.modules)), file=sys.stderr)"
    imported = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stderr

    assert set(imported.split()) <= may_import
