"""The public names of `import wakeboard`."""

from __future__ import annotations

import subprocess
import sys

import wakeboard


def test_the_package_lists_what_it_has():
    assert dir(wakeboard) == sorted(wakeboard.__all__)
    assert "enqueue" in dir(wakeboard)
    assert all(getattr(wakeboard, name) for name in dir(wakeboard))


def test_listing_or_importing_it_loads_nothing_more():
    """A waking worker counts milliseconds."""
    code = "import sys, wakeboard; dir(wakeboard); print(*(name for name in sys.modules if 'wakeboard' in name))"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert output == "wakeboard\n"
