"""Ways to log in to the board, and what each viewer may see and do.

- `LocalAccess`: no login, for a board that only its user can reach.
- `AddressAccess`: a token in the address that a board on loopback prints.
- `TokenAccess`: tokens in a file, with the roles viewer and operator.
- `KubernetesAccess`: the user's own token of the cluster. RBAC decides, and the board has no rights of its own.
- `ProxyAccess`: the headers of an authenticating proxy that knows a shared secret. RBAC decides.
"""

from __future__ import annotations

from wakeboard.board.access.address import AddressAccess
from wakeboard.board.access.kubernetes import KubernetesAccess
from wakeboard.board.access.proxy import ProxyAccess
from wakeboard.board.access.tokens import TokenAccess
from wakeboard.board.access.viewer import Access, LocalAccess, Permission, RoleViewer, Viewer

__all__ = [
    "Access",
    "AddressAccess",
    "KubernetesAccess",
    "LocalAccess",
    "Permission",
    "ProxyAccess",
    "RoleViewer",
    "TokenAccess",
    "Viewer",
]
