"""Who runs this process, for the audit log."""

from __future__ import annotations

import os
import pwd
import socket
from typing import Final

from wakeboard.text.sanitize import one_line

MAX_ACTOR_LENGTH: Final = 256  # characters of audit_log.actor


def system_user() -> str:
    """user@host of the operating system; without a name of the user, "uid NUMBER"."""
    user_id = os.geteuid()
    try:
        user = pwd.getpwuid(user_id).pw_name
    except KeyError:  # a container may run with any user id
        user = f"uid {user_id}"
    return one_line(f"{user}@{socket.gethostname()}")[:MAX_ACTOR_LENGTH]
