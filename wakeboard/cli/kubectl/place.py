"""What the global options of `kubectl wakeboard` choose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

DEFAULT_NAMESPACE: Final = "wakeboard"  # of the board, as docs/install.md installs it


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Which cluster, which board in it, and which namespace commands are about; None: that of the context.

    `timeout_s`: of each answer. `may_ask`: a credential plugin may talk to the user.
    """

    context: str = ""
    kubeconfig: str = ""
    board_namespace: str = DEFAULT_NAMESPACE
    board: str = ""
    namespace: str | None = None
    all_namespaces: bool = False
    timeout_s: float = 30.0
    may_ask: bool = True
