"""Migrations while everything runs, and a worker of the first published release next to this one's."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

from chaos.exit_checks import OTHER_RELEASE
from chaos.faults.fault import Fault
from chaos.postgres_server import ROLES
from chaos.processes import Slot
from wakeboard.errors import WakeboardError
from wakeboard.store.migrate import migrate

if TYPE_CHECKING:
    from chaos.environment import Environment
    from chaos.faults.fault import Draw

ATTEMPTS: Final = 120  # half a second apart: other faults happen at the same time


class MigratedAgain(Fault):
    """`wakeboard migrate` while everything runs. Every SQL function is replaced, as in an upgrade."""

    name = "migrated while running"
    weight = 5

    def inject(self, environment: Environment, draw: Draw) -> str | None:
        environment.query("update wakeboard.installation set functions_hash = ''")
        try:
            asyncio.run(_migrate(environment.dsn, 2 if draw.how < 0.3 else 1))
        except (WakeboardError, ExceptionGroup) as error:  # the server was away, and nothing was changed
            _migrate_until_done(environment)
            return f"refused: {error}"
        return "all SQL functions"


async def _migrate(dsn: str, times: int) -> None:
    await asyncio.gather(*(migrate(dsn, roles=ROLES) for _ in range(times)))


def _migrate_until_done(environment: Environment) -> None:
    for _ in range(ATTEMPTS):
        try:
            asyncio.run(migrate(environment.dsn, roles=ROLES))
        except WakeboardError:
            time.sleep(0.5)
        else:
            return
    raise RuntimeError(f"the migration failed {ATTEMPTS} times")


class OtherRelease(Fault):
    """A worker of the first published release runs next to this one's for a few seconds, then terminates."""

    name = "worker of another release"
    weight = 4

    def inject(self, environment: Environment, draw: Draw) -> str | None:
        slot = Slot(
            f"{OTHER_RELEASE}{int(draw.who * 1e6)}",
            ("wakeboard_worker", "--forever"),
            environment.dsn_through(environment.direct, "chaos_worker"),
            {"queues": "default"},
            code=environment.first_release,
        )
        environment.supervisor.add(slot)
        time.sleep(draw.between(2.0, 6.0))
        environment.supervisor.remove(slot)
        return slot.name
