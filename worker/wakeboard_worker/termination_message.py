"""Writes this worker's id where the kubelet finds it when the container has ended: its termination message.

The kubelet gives each start of a container an empty file, and copies it into the container's status when the container
has ended, whatever ended it. The operator reads the id there, and so knows which process ended
(wakeboard_operator/terminations.py). Outside of Kubernetes the file does not exist, and nothing is written.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Final

PATH: Final = "/dev/termination-log"  # Kubernetes' default for terminationMessagePath
MAX_BYTES: Final = 2048  # the kubelet reads the last 4096


def write_worker_id(worker_id: int, path: str = PATH) -> None:
    """Appends the line of this process, or does nothing if there is no such file. A long file is emptied first."""
    with suppress(OSError):
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK)
        try:
            if os.fstat(file).st_size > MAX_BYTES:
                os.ftruncate(file, 0)
            os.write(file, f"wakeboard worker {worker_id}\n".encode())
        finally:
            os.close(file)
