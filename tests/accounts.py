"""What an ordinary user meets, also where root runs the tests."""

from __future__ import annotations

import os
import pwd
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator


@contextmanager
def as_ordinary_user() -> Generator[None]:
    """Root is `nobody` inside the block; every other user stays themselves."""
    former = os.geteuid()
    os.seteuid(former or pwd.getpwnam("nobody").pw_uid)
    try:
        yield
    finally:
        os.seteuid(former)
