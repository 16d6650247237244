"""How the user of this machine types `wakeboard`."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path


def program_name() -> str:
    """The command to type for wakeboard: `wakeboard` if the shell finds it, else its path."""
    path = Path(sys.argv[0]).absolute()
    found = shutil.which("wakeboard")
    if path.name != "wakeboard" or (found and Path(found).resolve() == path.resolve()):
        return "wakeboard"
    return shlex.quote(min(os.path.relpath(path), str(path), key=len))
