"""What is wrong with a state of declared schedules, as rows of `wakeboard check`. Pure functions.

`fail`: it cannot be applied, or a schedule of it never runs, for a reason that is in the state itself. `warn`: it may
be intended. A warning that the state before has as well is left out, because the change is not its cause.
"""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING, Final

from wakeboard.dependencies.rules.graph import missing_parent
from wakeboard.health.findings import Finding
from wakeboard.plan.rules.state import clock_changes, parents_of
from wakeboard.text.clear_secrets import clear_secrets
from wakeboard.text.humanize import counted
from wakeboard.ticks.tick_load import count_planes, counts_of, highest_count, minutes_above, pile_ups
from wakeboard.ticks.ticks import moment_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from wakeboard.plan.rules.comparison import Comparison
    from wakeboard.plan.rules.state import State
    from wakeboard.ticks.tick_load import TickRule

MAX_SHOWN: Final = 100  # findings of one check; the others are counted
_HOUR: Final = 60  # minutes
_DAY: Final = 1440  # minutes


def findings(compared: Comparison) -> list[Finding]:
    """The findings of all checks, in their order; of a check without any, one that says what was looked at."""
    found: list[Finding] = []
    for check, (find, right) in CHECKS.items():
        of_check = [*find(compared)]
        found += of_check[:MAX_SHOWN]
        if len(of_check) > MAX_SHOWN:
            level = "fail" if any(each.level == "fail" for each in of_check) else "warn"
            found.append(Finding(level=level, check=check, message=f"And {len(of_check) - MAX_SHOWN:,} more."))
        if not of_check:
            found.append(Finding(level="ok", check=check, message=right(compared)))
    return found


def _files(compared: Comparison) -> Iterator[Finding]:
    for problem in compared.after.problems:
        yield Finding(level="fail", check="files", message=problem, hint="Nothing of it can be applied until then.")
    for problem in compared.before.problems:
        hint = "It is in the state before; what it declares is not compared."
        yield Finding(level="warn", check="files", message=problem, hint=hint)


def _read(compared: Comparison) -> str:
    after = compared.after
    limits = f" and {counted(len(after.limits), 'limit')}" if after.limits else ""
    return f"{counted(len(after.schedules), 'schedule')}{limits}, no problems."


def _after(compared: Comparison) -> Iterator[Finding]:
    after, before = compared.after, compared.before
    moved = {was: key for key, was in compared.renamed.items()}
    for key, schedule in sorted(after.schedules.items()):
        if schedule.spec.suspend:
            continue
        for parent in parents_of(schedule):
            name, wanted = schedule.full_name, "/".join(parent)
            if (key, parent) in compared.new.cycles:
                message = f"{name} waits for itself: {wanted} runs after it."
                yield Finding(level="fail", check="after", message=message, hint="Remove one of them from `after`.")
            elif parent in after.schedules or parent in after.invalid or not after.complete:
                continue
            elif parent in moved:
                message = f"{name} runs after {wanted}, whose new name is {'/'.join(moved[parent])}."
                yield Finding(level="fail", check="after", message=message, hint="Write the new name in `after`.")
            elif parent in before.schedules:
                message = f"{name} runs after {wanted}, which goes."
                yield Finding(level="fail", check="after", message=message, hint="Remove it from `after`, or keep it.")
            elif parent not in _parents_before(before, key):
                hint = "Correct the name, unless another source declares it."
                yield Finding(level="warn", check="after", message=missing_parent(name, wanted), hint=hint)
    yield from _never_run(compared)


def _parents_before(before: State, key: tuple[str, str]) -> list[tuple[str, str]]:
    return parents_of(before.schedules[key]) if key in before.schedules else []


def _never_run(compared: Comparison) -> Iterator[Finding]:
    """Schedules after others that get no ticks although nothing is missing."""
    for key, schedule in sorted(compared.after.schedules.items()):
        parents = parents_of(schedule)
        if not parents or schedule.spec.suspend or not all(each in compared.after.schedules for each in parents):
            continue
        known = compared.new.of(key)
        if known.bits or any((key, each) in compared.new.cycles for each in parents):
            continue
        if key in compared.before.schedules and not compared.old.of(key).bits:
            continue
        waits = [name for each in parents if (name := "/".join(each)) and not compared.new.of(each).can_run]
        if waits:
            message = f"{schedule.full_name} does not run: {waits[0]}, which it runs after, is suspended or never due."
            yield Finding(level="warn", check="after", message=message, hint="Resume it, or suspend both.")
        else:
            names = ", ".join("/".join(each) for each in parents)
            message = f"{schedule.full_name} does not run in this period: {names} have no tick in common."
            hint = "Give them the same times, or write ticks: All for the one that runs more often."
            yield Finding(level="warn", check="after", message=message, hint=hint)


def _chains(compared: Comparison) -> str:
    chained = sum(bool(schedule.spec.after) for schedule in compared.after.schedules.values())
    return f"{counted(chained, 'schedule')} after others, none of which waits for ever."


def _names(compared: Comparison) -> Iterator[Finding]:
    for key, was in sorted(compared.renamed.items()):
        message = (
            f"{'/'.join(was)} goes and {'/'.join(key)} comes with the same content: it is taken for a new schedule."
        )
        hint = (
            "Its history, dead runs and pauses stay with the old name, its queued runs are cancelled when that is"
            " removed, and a cron expression with H moves. Keep the name, unless that is right."
        )
        yield Finding(level="warn", check="names", message=message, hint=hint)


def _secrets(compared: Comparison) -> Iterator[Finding]:
    for key, schedule in sorted(compared.after.schedules.items()):
        known = compared.before.schedules.get(key)
        if known is not None and known.spec.payload == schedule.spec.payload:
            continue
        for path in clear_secrets(schedule.spec.payload, "spec.payload"):
            message = f"{schedule.full_name}: {path} looks like a secret in clear text."
            hint = 'Write {"$secret": "NAME"}; the worker reads the secret of this name.'
            yield Finding(level="warn", check="secrets", message=message, hint=hint)


def _clocks(compared: Comparison) -> Iterator[Finding]:
    for key, rule in sorted(compared.new.rules.items()):
        if compared.old.rules.get(key) != rule:
            for is_surprise, sentence in clock_changes(rule, compared.begin):
                if is_surprise:
                    message = f"{'/'.join(key)} in {rule.time_zone}: {sentence}."
                    hint = "spec.dst decides: gap RunAfter and overlap First run it once."
                    yield Finding(level="warn", check="clock changes", message=message, hint=hint)


def _piles(compared: Comparison) -> Iterator[Finding]:
    """Minutes with far more ticks than others, as the board's calendar lists them, if the change adds to them."""
    before, after = _counts(compared)
    piled = pile_ups(after)
    rises = [minute for minute in piled.single if after[minute] > before[minute]]
    first = compared.begin // 60
    by_time = sorted(rises, key=lambda minute: ((first + minute) % _DAY, minute))
    hint = "Spread them: write H for the minute, or jitterSeconds."
    for time, minutes in groupby(by_time, key=lambda minute: (first + minute) % _DAY):
        each = [*minutes]
        fullest = max(each, key=lambda minute: after[minute])
        message = (
            f"{time // _HOUR:02}:{time % _HOUR:02} UTC has up to {counted(after[fullest], 'tick')} on"
            f" {counted(len(each), 'day')}, first {_minute_text(compared.begin, each[0])}"
            f"{_before(compared, before[fullest])}."
        )
        yield Finding(level="warn", check="pile-ups", message=message, hint=hint)
    for minute in piled.hourly:
        fullest = max(range(minute, len(after), _HOUR), key=lambda each: after[each])
        if after[fullest] > before[fullest]:
            message = (
                f"Minute {(first + minute) % _HOUR:02} of most hours has up to {counted(after[fullest], 'tick')}"
                f"{_before(compared, before[fullest])}."
            )
            yield Finding(level="warn", check="pile-ups", message=message, hint=hint)


def _counts(compared: Comparison) -> tuple[list[int], list[int]]:
    """How many ticks each minute has before and after."""
    width = (compared.end - compared.begin) // 60
    before, after = _planes(compared, compared.old.load(), compared.new.load())
    return counts_of(before, width), counts_of(after, width)


def _planes(compared: Comparison, old: Counter[TickRule], new: Counter[TickRule]) -> tuple[list[int], list[int]]:
    """As `count_planes`, before and after. What both have is counted once."""
    begin, end = compared.begin, compared.end
    both = count_planes(old & new, begin, end)
    return count_planes(old - new, begin, end, both), count_planes(new - old, begin, end, both)


def _limits(compared: Comparison) -> Iterator[Finding]:
    """Minutes in which more runs of a limit key are due than may start, if the change adds to them."""
    old, new = compared.old.load_of_limits(), compared.new.load_of_limits()
    for key, rules in sorted(new.items()):
        allowed = _allowed(compared.after, key)
        was = old.get(key, Counter())
        if rules.total() <= allowed or (was == rules and allowed >= _allowed(compared.before, key)):
            continue
        before, planes = _planes(compared, was, rules)
        above = minutes_above(planes, allowed)
        if not above:
            continue
        most, minutes = highest_count(planes)
        most_before, _ = highest_count(before)
        if most <= most_before and allowed >= _allowed(compared.before, key):
            continue
        at = _minute_text(compared.begin, (minutes & -minutes).bit_length() - 1)
        message = (
            f"The limit {key} lets {counted(allowed, 'run')} start in a minute, and {most:,} are due at {at} UTC"
            f"{_before(compared, most_before)}; {counted(above.bit_count(), 'minute')} of the period"
            f" {'has' if above.bit_count() == 1 else 'have'} too many."
        )
        hint = "They wait for one another. Spread their times, or raise the limit."
        if key not in compared.after.limits:
            hint = f"It is not declared here, so one runs at once unless `wakeboard limit` says otherwise. {hint}"
        yield Finding(level="warn", check="limits", message=message, hint=hint)


def _allowed(state: State, key: str) -> int:
    """How many runs of a limit key may start in one minute, if each runs for longer than that."""
    limit = state.limits.get(key)
    if limit is None:
        return 1
    rate = limit["rate_count"]
    starts = None if rate is None else limit["rate_burst"] + rate * 60 // limit["rate_period_s"]
    return min(bound for bound in (limit["max_running"], starts) if bound is not None)


def _before(compared: Comparison, count: int) -> str:
    return f" ({count:,} before)" if compared.before.schedules else ""


def _minute_text(begin: int, minute: int) -> str:
    return f"{moment_of(begin + minute * 60):%Y-%m-%d %H:%M}"


CHECKS: Final[Mapping[str, tuple[Callable[[Comparison], Iterator[Finding]], Callable[[Comparison], str]]]] = {
    "files": (_files, _read),
    "after": (_after, _chains),
    "names": (_names, lambda _: "No schedule has only a new name."),
    "secrets": (_secrets, lambda _: "No payload has a secret in clear text."),
    "clock changes": (_clocks, lambda _: "No tick of a new timing gets lost or comes twice within a year."),
    "pile-ups": (_piles, lambda _: "No minute gets far more ticks than others."),
    "limits": (_limits, lambda _: "No limit gets more ticks in a minute than it lets start."),
}
