"""Delivers notifications about alerts, and calls heartbeats, while no worker does.

A delivery is a run of the job type wakeboard.alert, which workers execute. When the workers are what is missing, the
leader executes it. The store gives it no other runs, and none that a worker would take (`claim_alert_delivery`). Only
the leader of a term is given one. Its lease decides about the outcome, as it does for workers: a notification that was
sent is not sent again by the next leader.
"""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from wakeboard.alerts.sender import SEND_WITHIN_S, AlertSender
from wakeboard.errors import DatabaseUnavailable, LeaseLost, RetryAfter, Snooze, WakeboardError
from wakeboard.process.clock import boottime
from wakeboard.text.redact import redact
from wakeboard.text.sanitize import printable

if TYPE_CHECKING:
    from collections.abc import Callable

    from wakeboard.alerts.rules.alert_rules import AlertSpec
    from wakeboard.schedules.leader_api import ClaimedDelivery, LeaderStore
    from wakeboard.settings import Settings

log = logging.getLogger("wakeboard.operator")

POLL_S: Final = 5.0
LEASE_S: Final = 70.0  # see the SQL function claim_alert_delivery
MAX_SENDING: Final = 8  # at once
FINISH_WITHIN_S: Final = 2.0  # at the end of a term
DISCONNECTED_DELAY_S: Final = 5.0
MAX_ERROR: Final = 2_000  # characters


@dataclass(frozen=True, slots=True)
class DeliveryOutcome:
    """What to report of a delivery: see `finish_alert_delivery`."""

    delivery: ClaimedDelivery
    outcome: str
    error: tuple[str, str] = ("", "")
    delay_s: float | None = None
    result: dict[str, Any] | None = None


class AlertDeliveries:
    """The deliveries of one term. `alerts` returns the receivers, or None if the file has not been valid yet."""

    def __init__(self, settings: Settings, alerts: Callable[[], AlertSpec | None]) -> None:
        self._alerts = alerts
        self._sender = AlertSender(settings)
        self._worker = (int.from_bytes(os.urandom(8), "big") >> 1) or 1
        self._sending: dict[asyncio.Task[None], ClaimedDelivery] = {}
        self._unreported: list[DeliveryOutcome] = []
        self._ended = asyncio.Event()

    async def run(self, store: LeaderStore) -> None:
        """Claims, sends and reports until it is cancelled. After an error, call it again with another connection."""
        try:
            while True:
                await self._report(store)
                await self._claim(store)
                await self._wait()
        except asyncio.CancelledError:
            with suppress(WakeboardError, TimeoutError):
                async with asyncio.timeout(2 * FINISH_WITHIN_S):
                    await self._finish(store)
            raise

    async def _claim(self, store: LeaderStore) -> None:
        alerts = self._alerts()
        if alerts is None:
            return
        receivers = [each.name for each in (*alerts.receivers, *alerts.heartbeats)]
        while receivers and len(self._sending) < MAX_SENDING:
            requested_at = boottime()
            delivery = await store.claim_alert_delivery(self._worker, alerts.queue, receivers)
            if delivery is None:
                return
            sending = asyncio.create_task(self._send(delivery, requested_at))
            self._sending[sending] = delivery
            sending.add_done_callback(self._end)

    async def _send(self, delivery: ClaimedDelivery, requested_at: float) -> None:
        def may_send() -> bool:
            return boottime() < requested_at + LEASE_S - SEND_WITHIN_S

        receiver = delivery.payload.get("receiver")
        try:
            result = await self._sender.deliver(delivery.run_id, str(delivery.uuid), may_send)
        except LeaseLost:
            log.warning("delivery %d to %s: this process was suspended; its lease is over", delivery.run_id, receiver)
        except Exception as error:  # noqa: BLE001 - the outcome of the run
            self._unreported.append(outcome_of(delivery, error))
            log.warning("delivery %d to %s: %s", delivery.run_id, receiver, redact(str(error), MAX_ERROR))
        else:
            self._unreported.append(DeliveryOutcome(delivery, "sent", result=result | {"by": "operator"}))
            log.info("no worker delivers alerts: delivered run %d to %s", delivery.run_id, receiver)

    def _end(self, sending: asyncio.Task[None]) -> None:
        del self._sending[sending]
        self._ended.set()

    async def _report(self, store: LeaderStore) -> None:
        """Reports what ended. Outcomes that could not be reported stay."""
        for outcome in tuple(self._unreported):
            answer = await store.finish_alert_delivery(
                self._worker,
                outcome.delivery,
                outcome.outcome,
                error=outcome.error,
                delay_s=outcome.delay_s,
                result=outcome.result,
            )
            if answer != "locked":
                self._unreported.remove(outcome)
            if answer == "lost":
                log.warning("delivery %d took longer than its lease", outcome.delivery.run_id)

    async def _wait(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(POLL_S):
                await self._ended.wait()
        self._ended.clear()

    async def _finish(self, store: LeaderStore) -> None:
        """At the end of the term: waits for what is being sent for a moment, and gives back the rest."""
        if self._sending:
            await asyncio.wait(self._sending, timeout=FINISH_WITHIN_S)
        for sending, delivery in tuple(self._sending.items()):
            if sending.cancel():
                self._unreported.append(DeliveryOutcome(delivery, "released"))
        await self._report(store)


def outcome_of(delivery: ClaimedDelivery, error: Exception) -> DeliveryOutcome:
    """What to report of a delivery that raised an error. It is not discarded: a worker may have what is missing."""
    match error:
        case Snooze():
            return DeliveryOutcome(delivery, "released", delay_s=error.seconds)
        case DatabaseUnavailable():
            return DeliveryOutcome(delivery, "released", delay_s=DISCONNECTED_DELAY_S)
        case _:
            text = printable(redact(str(error), MAX_ERROR))[:MAX_ERROR]
            delay_s = error.seconds if isinstance(error, RetryAfter) else None
            return DeliveryOutcome(delivery, "failed", (type(error).__name__, text), delay_s)
