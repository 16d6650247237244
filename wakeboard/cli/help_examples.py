"""What `--help` adds to a command's own words."""

from __future__ import annotations


def examples(*lines: str) -> str:
    """An epilog of examples, kept line by line: the command, and after two spaces what it does."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)
