"""The command `wakeboard resume`: ends a pause, and closes the circuit of a schedule."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wakeboard.cli.commands.pause import Kind, PauseKind, PauseName, pause_scope, print_pauses, require_name
from wakeboard.cli.support.options import AsJson, Reason
from wakeboard.cli.support.output import print_json, print_message
from wakeboard.cli.support.session import with_database

if TYPE_CHECKING:
    from wakeboard.cli.support.session import DatabaseSession

EXAMPLES = ("wakeboard resume all", "wakeboard resume queue mail", "wakeboard resume schedule clean-up")


def command(kind: PauseKind = None, name: PauseName = None, reason: Reason = "", as_json: AsJson = False) -> None:
    """End a pause, or close the circuit of a schedule.

    A schedule whose circuit is open (suspendAfterDead) creates runs again. Without arguments, list what is paused. The
    catchUp policy of each schedule applies to the ticks that were missed. A removed schedule keeps its pause, which is
    not listed, for the case that it is created again; a resume ends it.
    """
    if kind is None:
        print_pauses(as_json)
        return
    require_name(kind, name)

    async def remove(session: DatabaseSession) -> tuple[str, str, bool, str]:
        scope, label = await pause_scope(session, kind, name, include_removed=True)
        changed = await session.store.resume(scope, reason)
        found = await session.listings.explained_schedule(int(scope.split(":")[1])) if kind is Kind.SCHEDULE else None
        stopped = found is not None and found.state in {"suspended", "stalled", "paused", "removed"}
        return scope, label, changed, f" It stays {found.state}." if found is not None and stopped else ""

    scope, label, changed, rest = with_database(remove)
    if as_json:
        print_json({"scope": scope, "changed": changed})
    elif changed:
        print_message(f"{label} is resumed.{rest}")
    elif kind is Kind.ALL:  # queues and schedules may still be paused
        print_message("there is no pause of everything; `wakeboard pause` lists what is paused.")
    else:
        print_message(f"{label} was not paused.{rest}")
