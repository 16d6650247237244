"""The annotation wakeboard.dev/backfill: computes the ticks that its value means, and declares the backfill."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wakeboard.backfills.rules import CONFIRM_ABOVE, TickRules, backfill_range, parse_annotation
from wakeboard.errors import InvalidValue
from wakeboard.text.humanize import counted
from wakeboard.ticks.cron_parser import parse_cron

if TYPE_CHECKING:
    from datetime import datetime

    from wakeboard.backfills.rules import BackfillRange, BackfillWords
    from wakeboard.schedules.desired_schedule import DesiredSchedule
    from wakeboard.schedules.leader_api import ActionResult, LeaderStore


async def run_backfill_annotation(
    store: LeaderStore, definition_id: int, desired: DesiredSchedule, token: str, *, record_only: bool
) -> ActionResult:
    """Declares the backfill that the annotation's value means, once for each value.

    A value that means none is refused with a sentence. Raises Locked if it should be called again.
    """
    try:
        words, wanted = wanted_backfill(desired, token, await store.now())
    except InvalidValue as error:
        return await store.refuse_backfill_annotation(definition_id, token, f"{error}", record_only=record_only)
    return await store.run_backfill_annotation(
        definition_id, token, wanted, at_once=words.at_once, again=words.again, record_only=record_only
    )


def wanted_backfill(desired: DesiredSchedule, token: str, now: datetime) -> tuple[BackfillWords, BackfillRange]:
    """What the value means. Raises InvalidValue, also for so many ticks that the value must confirm them."""
    spec = desired.spec
    fields = parse_cron(spec.schedule, name=desired.full_name).to_text() if spec.schedule else None
    words = parse_annotation(token)
    rules = TickRules(desired.full_name, fields, spec.time_zone, spec.dst.gap, spec.dst.overlap)
    wanted = backfill_range(rules, words.first, words.last, now)
    if len(wanted.ticks) > CONFIRM_ABOVE and not words.confirmed:
        raise InvalidValue(
            f"these are {counted(len(wanted.ticks), 'tick')}; to run more than {CONFIRM_ABOVE:,}, write {token} yes"
        )
    return words, wanted
