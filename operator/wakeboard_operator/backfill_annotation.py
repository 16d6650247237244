"""The annotation wakeboard.dev/backfill: computes the ticks that its value means."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wakeboard.backfills.rules import CONFIRM_ABOVE, TickRules, backfill_range, parse_annotation
from wakeboard.errors import InvalidValue
from wakeboard.text.humanize import counted

if TYPE_CHECKING:
    from datetime import datetime

    from wakeboard.backfills.rules import BackfillRange, BackfillWords
    from wakeboard.schedules.desired_schedule import DesiredSchedule


def wanted_backfill(desired: DesiredSchedule, token: str, now: datetime) -> tuple[BackfillWords, BackfillRange]:
    """What the value means. Raises InvalidValue, also for so many ticks that the value must confirm them."""
    spec = desired.spec
    compiled = spec.compiled_ticks(desired.full_name)
    words = parse_annotation(token)
    rules = TickRules(desired.full_name, compiled, spec.time_zone, spec.dst.gap, spec.dst.overlap)
    wanted = backfill_range(rules, words.first, words.last, now)
    if len(wanted.ticks) > CONFIRM_ABOVE and not words.confirmed:
        raise InvalidValue(
            f"these are {counted(len(wanted.ticks), 'tick')}; to run more than {CONFIRM_ABOVE:,}, write {token} yes"
        )
    return words, wanted
