"""A plan as Markdown for a pull request, within the length that GitHub accepts. Nothing in it notifies a user."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from wakeboard.plan.rules.words import difference, plan_summary, tick_words, totals
from wakeboard.text.humanize import counted
from wakeboard.text.sanitize import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wakeboard.health.findings import Finding
    from wakeboard.plan.plan import Plan
    from wakeboard.plan.rules.changes import ScheduleChange

LONGEST: Final = 60_000  # characters; GitHub accepts 65,536
_LONGEST_ROW: Final = 1_000
_MARKS: Final = {"fail": "❌", "warn": "⚠️"}
_SPECIAL: Final = re.compile(r"([\\`*_{}\[\]<>|~&$])")
_REFERENCE: Final = re.compile(r"[@#]")  # of an account, or of a pull request


def markdown(plan: Plan) -> str:
    """The plan: what is wrong first, then the schedules with the largest changes."""
    problems = [each for each in plan.findings if each.level != "ok"]
    changes = sorted(plan.schedules, key=lambda each: -(each.gained + each.lost + each.moved))
    head = [
        f"### Plan: {plan_summary(plan, plan.schedules, plan.not_compared)}",
        "",
        f"{_text(plan.before)} → {_text(plan.after)}, {plan.begin:%Y-%m-%d %H:%M} to {plan.end:%Y-%m-%d %H:%M} UTC.",
    ]
    lines = [*head, *_bounded([_finding(each) for each in problems], [""], LONGEST // 2, "finding")]
    if changes:
        table = ["", "| | schedule | ticks | | what |", "|---|---|---|---|---|"]
        room = LONGEST - sum(len(line) + 1 for line in lines)
        lines += _bounded([_row(each) for each in changes], table, room, "schedule")
    return "\n".join(lines) + "\n"


def _bounded(rows: list[str], head: list[str], room: int, noun: str) -> Iterator[str]:
    """The first rows that fit, and how many do not."""
    if not rows:
        return
    yield from head
    room -= sum(map(len, head)) + 200
    for place, row in enumerate(rows):
        room -= len(row) + 1
        if room < 0:
            yield f"\n… and {counted(len(rows) - place, f'more {noun}')}; `wakeboard plan` lists them all."
            return
        yield row


def _finding(finding: Finding) -> str:
    hint = f" → {_text(finding.hint)}" if finding.hint else ""  # sentences of files have no full stop
    return f"- {_MARKS[finding.level]} **{finding.check}**: {_text(finding.message)}{hint}"


def _row(change: ScheduleChange) -> str:
    notes = [difference(change), *(f"{change.time_zone}: {sentence}" for sentence in change.clock_changes)]
    what = _text("; ".join(note for note in notes if note))
    return f"| {change.change} | {_text(change.schedule)} | {totals(change)} | {tick_words(change)} | {what} |"


def _text(text: str) -> str:
    """Text of users: no markup, and no mention of an account or an issue."""
    shown = one_line(text)
    shown = shown if len(shown) <= _LONGEST_ROW else f"{shown[:_LONGEST_ROW]}…"
    escaped = _SPECIAL.sub(r"\\\1", shown)
    return _REFERENCE.sub("\\g<0>\N{WORD JOINER}", escaped)  # GitHub looks for them in what it has rendered
