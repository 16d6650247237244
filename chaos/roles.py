"""The database roles of a campaign: each part has the least rights, as in production."""

from __future__ import annotations

from typing import Final

from wakeboard.store.migrate import Roles

ROLES: Final = Roles(operator="chaos_operator", worker="chaos_worker", client="chaos_app")
