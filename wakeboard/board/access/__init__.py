"""Ways to log in to the board, and what each viewer may see and do.

- `LocalAccess`: no login, for a board on loopback.
- `TokenAccess`: tokens in a file, with the roles viewer and operator.
- `KubernetesAccess`: the user's own token of the cluster. RBAC decides, and the board has no rights of its own.
- `ProxyAccess`: the headers of an authenticating proxy that knows a shared secret. RBAC decides.
"""

from __future__ import annotations

from wakeboard.board.access.kubernetes import KubernetesAccess
from wakeboard.board.access.proxy import ProxyAccess
from wakeboard.board.access.tokens import TokenAccess
from wakeboard.board.access.viewer import Access, LocalAccess, Permission, RoleViewer, Viewer

__all__ = [
    "Access",
    "KubernetesAccess",
    "LocalAccess",
    "Permission",
    "ProxyAccess",
    "RoleViewer",
    "TokenAccess",
    "Viewer",
]
