"""What every replica of the operator has, and what its tasks share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wakeboard.schedules.leader_api import OperatorStore
from wakeboard.store.connection import require_schema
from wakeboard.store.reconnecting import ReconnectingConnection

if TYPE_CHECKING:
    from wakeboard_operator.kube_client import Cluster
    from wakeboard_operator.leadership import Leadership
    from wakeboard_operator.metrics import Metrics
    from wakeboard_operator.settings import OperatorSettings
    from wakeboard_operator.watch import WatchSupervisor


@dataclass(frozen=True, slots=True)
class OperatorReplica:
    """What every replica of the operator has, whether it leads or not."""

    settings: OperatorSettings
    cluster: Cluster
    source: str
    leadership: Leadership
    supervisor: WatchSupervisor
    metrics: Metrics

    def connection(self, purpose: str) -> ReconnectingConnection[OperatorStore]:
        """Returns a connection that is opened when it is first needed."""
        return ReconnectingConnection(
            self.settings.dsn.get_secret_value(),
            f"wakeboard operator {purpose}",
            OperatorStore,
            prepared_statements=self.settings.prepared_statements,
        )

    async def installation(self) -> str:
        """Returns the id of the database. Raises WakeboardError if its schema is not the one of this release."""
        connection = self.connection("start")
        try:
            store = await connection.store()
            await require_schema(store.conn)
            return await store.installation()
        finally:
            await connection.close()
