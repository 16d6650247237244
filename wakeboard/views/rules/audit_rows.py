"""A row of the audit log. The fields are public: they are keys of `--json`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

_DONE: Final = {
    "cancel": "cancelled this run",
    "retry": "retried this run",
    "discard": "discarded this run",
    "replay": "replayed this run",
    "revoke": "took this run from its worker",
    "run_now": "created this run",
    "send_test_notification": "sent this test",
    "reveal": "saw the values that are masked",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRow:
    """What one action did to one run or other object.

    `action`: the name of the SQL function. `actor` and `source` (cli, board, kubectl, up, sql): who acted through which
    program, as the program said. `database_user`: whom Postgres let in. `new_run_id`: the run that a replay created.
    `scope`: of a pause; a limit key; the source of a removal; the receiver of a test; a silenced rule. `detail`: see
    docs/sql-functions.md, Audit.
    """

    id: int
    at: datetime
    actor: str
    source: str
    database_user: str
    action: str
    run_id: int | None
    run_uuid: UUID | None
    new_run_id: int | None
    definition_id: int | None
    schedule: str | None
    scope: str | None
    reason: str
    detail: dict[str, Any]
    bulk_action_id: int | None

    def in_words(self, run_id: int) -> str:
        """Who did what to this run: "ada (cli) retried this run". The id of the run that a replay created follows."""
        done = _DONE.get(self.action, self.action.replace("_", " "))
        if self.action == "release_effect":
            done = f"released the effect {self.scope} of this run"
        if self.detail.get("answer") == "requested":
            done = "asked this run to stop"
        elif self.new_run_id == run_id:
            done = f"replayed run {self.run_id} as this run"
        elif self.new_run_id is not None:
            done += " as run"
        return f"{self.actor} ({self.source}) {done}"
