"""The web board: pages that show what runs, what went wrong and what comes next, and actions on runs and schedules.

`app` makes an ASGI application, which can be mounted in another one. `wakeboard board` serves it. Pages work without
JavaScript. The package needs the extra `wakeboard[board]`.
"""

from __future__ import annotations

from wakeboard.board.application import app
from wakeboard.board.state import BoardOptions

__all__ = ["BoardOptions", "app"]
