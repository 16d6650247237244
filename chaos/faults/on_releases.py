"""Migrations while everything runs, and workers of another release beside this one's."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from chaos.endings import OTHER_RELEASE
from chaos.faults.fault import Fault, Struck
from chaos.processes import Seat
from chaos.roles import ROLES
from wakeboard.errors import WakeboardError
from wakeboard.store.migrate import migrate

if TYPE_CHECKING:
    from chaos.environment import Stage
    from chaos.faults.fault import Draw


TRIES = 120  # half a second apart: other faults go on meanwhile


class MigratedAgain(Fault):
    """`wakeboard migrate` while everything runs; every move is written anew, as an upgrade does it."""

    name = "migrated while running"
    weight = 5

    def strike(self, stage: Stage, draw: Draw) -> Struck | None:
        """Forgets which moves are there, and migrates: twice at once, now and then."""
        struck = Struck("all moves")
        stage.ask("update wakeboard.installation set functions_hash = ''")
        try:
            asyncio.run(_migrate(stage.dsn, 2 if draw.how < 0.3 else 1))
        except (
            WakeboardError,
            ExceptionGroup,
        ) as error:  # the server was away: then nothing was done, and it is tried again
            struck.what = f"refused: {error}"
            _migrate_until_done(stage)
        return struck


async def _migrate(dsn: str, times: int) -> None:
    await asyncio.gather(*(migrate(dsn, roles=ROLES) for _ in range(times)))


def _migrate_until_done(stage: Stage) -> None:
    for _ in range(TRIES):
        try:
            asyncio.run(migrate(stage.dsn, roles=ROLES))
        except WakeboardError:
            time.sleep(0.5)
        else:
            return
    raise RuntimeError(f"the migration could not be made in {TRIES} tries")


class OtherRelease(Fault):
    """A worker of another release works beside this one's for a few seconds, then leaves."""

    name = "another release beside this one"
    weight = 4

    def strike(self, stage: Stage, draw: Draw) -> Struck | None:
        """Adds a seat for it, and takes the seat away."""
        release = stage.other_release
        seat = Seat(
            f"{OTHER_RELEASE}{int(draw.who * 1e6)}",
            ("wakeboard_worker", "--forever"),
            stage.dsn_through(stage.direct, "chaos_worker"),
            {"queues": "default"},
            code=release.code,
            release=release.number,
        )
        struck = Struck(str(release))
        stage.cast.add(seat)
        time.sleep(draw.between(2.0, 6.0))
        stage.cast.remove(seat)
        return struck
