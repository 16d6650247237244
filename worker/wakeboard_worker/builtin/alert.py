"""The job type `wakeboard.alert`: delivers one notification about an alert to one receiver.

A delivery that fails is a failed attempt and is retried.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wakeboard.alerts.sender import AlertSender

if TYPE_CHECKING:
    from wakeboard.engine.run import Run
    from wakeboard.settings import Settings


class AlertDelivery:
    """The handler of the job type `wakeboard.alert`."""

    def __init__(self, settings: Settings) -> None:
        self._sender = AlertSender(settings)

    async def __call__(self, run: Run) -> dict[str, Any]:
        """Deliver the notification that was recorded for this run."""
        return await self._sender.deliver(run.id, str(run.uuid))
