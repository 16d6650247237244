"""Prints docs/workers-in-any-language.md with the current text of the minimal worker in it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
WORKER: Final = "examples/minimal_worker/minimal_worker.py"
BEGIN: Final = f"<!-- make fix copies {WORKER} -->\n"


def main() -> int:
    """Replaces what follows the mark."""
    page = (ROOT / "docs/workers-in-any-language.md").read_text(encoding="utf-8")
    written, mark, _ = page.partition(BEGIN)
    assert mark, "the page says where the worker follows"
    sys.stdout.write(f"{written}{BEGIN}\n```python\n{(ROOT / WORKER).read_text(encoding='utf-8')}```\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
