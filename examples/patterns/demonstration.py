"""Runs the companion program of a pattern, and says when the demonstration is over: `demonstration.py shop.py`.

`wakeboard up` runs it in the folder of the pattern. The pattern's check.py says when all work is done.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

UNFINISHED = 75  # exit code of a pattern's check.py
LOOK_EVERY_S = 5.0


def main(program: str) -> int:
    """Returns the exit code of the companion program."""
    environment = {"PATTERN_OUT": str(Path("out").absolute()), **os.environ}
    with subprocess.Popen([sys.executable, program]) as companion:

        def stop(_number: int, _frame: object) -> None:
            companion.terminate()

        signal.signal(signal.SIGTERM, stop)
        signal.signal(signal.SIGINT, stop)
        over = False
        while True:
            try:
                return companion.wait(None if over else LOOK_EVERY_S)
            except subprocess.TimeoutExpired:
                command = [sys.executable, "check.py"]
                found = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
                if over := found.returncode != UNFINISHED and bool(found.stdout):
                    print(f"The demonstration is over: {found.stdout.strip()}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
