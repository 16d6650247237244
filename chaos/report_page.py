"""What a person reads: a summary on the terminal, and docs/reliability.md. Every figure is one that a campaign gave."""

from __future__ import annotations

import os
import platform
import statistics
from typing import TYPE_CHECKING, Final

from chaos.checker import promises
from chaos.faults.catalogue import KINDS
from chaos.processes import LEASE_S, PROJECT
from chaos.results import EDGES_S, UNDONE, Recovery, Result

if TYPE_CHECKING:
    from collections.abc import Sequence

PAGE: Final = PROJECT / "docs" / "reliability.md"
CLAIMABLE_WITHIN_S: Final = LEASE_S + 6  # DESIGN section 9
AGAIN_WITHIN_S: Final = 1
BAR: Final = 30  # characters of the longest bar of a histogram

# Promises that are not a query of invariants.sql, as the checkers call them.
CHECKED_IN_PYTHON: Final = (
    "effects of succeeded runs happened exactly once",
    "no tick is lost",
    "no tick twice",
    "a tick is a moment of its schedule",
    "the cursor stands at the next tick",
    "an acknowledged enqueue is never lost",
    "an enqueue happens at most once",
    "enqueue_many is all or none",
    "limits are never exceeded (sampled, and along the log of every lease)",
    "every worker works again",
    "a process of the cast ends only as it should",
)

_ABOUT: Final = """\
# Reliability

What we promise: **exactly-once scheduling per tick, at-least-once execution, at most one accepted completion per run,
exactly-once effects through `job_effects`.** This page was written by

```
{command} CHAOS_ARGS=--write
```

and says nothing that the command did not find. `make chaos` plays a shorter campaign, in some five minutes.

## How it is tested

A campaign puts up a PostgreSQL server with durable settings on a small disk, PgBouncer in transaction mode in front of
it, and a cast of real processes: workers with `--forever` (one of them with prepared statements, one through
PgBouncer), with `--linger`, and `--drain` woken again and again (one through PgBouncer), with leases of {lease} s; a
process that does nothing but duties; and applications that enqueue with and without idempotency keys, in transactions
of their own and in bulk, declare schedules that have ticks to catch up, cancel, retry, replay and run things now.
Every connection goes through a proxy that can cut it, hold it, silence it, or lose one answer. Handlers have effects
through `run.once`, steps, outside effects, limits, retries, snoozes and timeouts.

A script made from the seed strikes: about three faults a second, many at a time; then each kind once, alone, to
measure how long recovery takes. When the last fault is over everything must drain, every worker must work, and a
checker reads the tables, the ledger of effects, what the applications were told, and a log of each change of a run,
written by a trigger in the transaction that makes the change. It asks for:

{promises}

The other half of the proof is in `tests/`: a state machine that makes random moves beside a model of them
(`tests/store/test_state_machine.py`), and a walk over every interleaving of a small model of lease, epoch and limit
(`tests/model`).
"""
_FAULTS: Final = f"""\
## Faults

Recovery is measured where a fault strikes alone: median and longest. *Serves*: from its end until a run that was
enqueued then has succeeded. *Claimable*: from its begin until the last lease that was lost with it is taken back, where
any was (bar: {CLAIMABLE_WITHIN_S} s, a lease and six seconds); the time that a server is away counts, and so does that
of three workers that die one after another. *Again*: from there until that run is leased again (bar: {AGAIN_WITHIN_S} s
with workers that stay), unless it was there at two crashes: then it waits for a worker that runs nothing else.
"""
_LATE: Final = """\
Late, while all this went on: runs without a limit, from due until first leased; ticks, from their moment until made
into a run; lapses, from the end of a lost lease until it was taken back.
"""
_REPLAY: Final = """\
## Replaying

Each campaign has at most 1000 faults and a seed of its own, counted up from the first. What broke is printed with its
seed, and the logs of every process are kept. `make chaos CHAOS_SEED=7 CHAOS_FAULTS=1000` plays campaign 7 again: the
same faults, at the same times after the start, on the same seats, for as long. What the processes are doing at these
moments is not decided by a seed (nor is what the applications enqueue): a replay meets another interleaving, and a
rare one may take several replays.
"""
_LIMITS: Final = """\
## What this does not show

- One machine, one server: no replicas, no failover, no lost disk. Promises hold on one timeline of commits.
- Clocks are moved by a patched clock source in the workers (wall clock, up to twelve hours), not by the kernel.
- `disk full` needs root (a file system in memory of bounded size) and PgBouncer must be installed: what cannot be done
  is counted as left out.
- An effect outside the database is at-least-once; here the provider honours its idempotency key.
"""


def summary(result: Result, command: str) -> str:
    """For the terminal."""
    head = f"{result.faults} faults, {_seeds(result)}, {result.seconds / 60:.1f} minutes. Again: {command}\n"
    said = [f"- said {count} times: {line}" for line, count in result.remarks.most_common(20)]
    table, figures = _fault_table(result), _figures(result)
    return "\n".join([head, *_findings(result), "", *table, "", *_bars(result), "", *figures, *said, *_broken(result)])


def page(result: Result, command: str) -> str:
    """docs/reliability.md."""
    asked = "\n".join(f"- {promise}" for promise in [*(name for _, name, _ in promises()), *CHECKED_IN_PYTHON])
    about = _ABOUT.format(command=command, lease=LEASE_S, promises=asked)
    hit = f"{result.faults:,} faults, of which {sum(result.struck.values()):,} found something to hit"
    parts = [
        about,
        f"## Result\n\n{hit}; {_seeds(result)}; {result.seconds / 60:.0f} minutes; {_machine()}; {result.about}.\n",
        *_findings(result),
        "",
        *(["```", *map(_shortened, _broken(result)), "```", ""] if result.violations else []),
        _FAULTS,
        *_fault_table(result, sentences=True),
        "",
        *_bars(result),
        "\n## Figures\n",
        *_figures(result),
        "",
        _REPLAY,
        _LIMITS,
    ]
    return "\n".join(parts)


def _machine() -> str:
    return f"{os.cpu_count()} CPUs, Python {platform.python_version()}"


def _seeds(result: Result) -> str:
    first, last = min(result.seeds), max(result.seeds)
    return f"seed {first}" if first == last else f"seeds {first} to {last}"


def _findings(result: Result) -> list[str]:
    undone = sum(one.promise == UNDONE for one in result.violations)
    lost, doubled, other = (len(result.of_sort(sort)) for sort in ("lost", "doubled", "other"))
    return [
        "| lost | doubled | other promises broken | faults that the campaign tried and could not do |",
        "| --- | --- | --- | --- |",
        f"| {lost} | {doubled} | {other - undone} | {undone} |",
    ]


def _broken(result: Result) -> list[str]:
    return [f"- {one.sort}: {one.promise}: {one.detail.strip()}" for one in result.violations]


def _shortened(text: str) -> str:
    """The first line and the last one: the terminal has all of them."""
    first, *others = text.splitlines()
    return f"{first} … {others[-1]}" if others else first


def _fault_table(result: Result, *, sentences: bool = False) -> list[str]:
    what = "fault" if not sentences else "fault, and what it is"
    lines = [f"| {what} | struck | nothing to hit | serves | claimable | again |", "| --- " * 6 + "|"]
    for kind in KINDS:
        mine = [one for one in result.recoveries if one.kind == kind.name]
        struck = f"{result.struck[kind.name]:,}" if kind.name not in result.left_out else "left out"
        name = f"**{kind.name}**: {kind.sentence()}" if sentences else kind.name
        lines.append(f"| {name} | {struck} | {result.missed[kind.name]:,} | {_recovery(mine)} |")
    total = f"{sum(result.struck.values()):,} | {sum(result.missed.values()):,}"
    return [*lines, f"| all | {total} | {_recovery(result.recoveries)} |"]


def _recovery(recoveries: Sequence[Recovery]) -> str:
    columns = ([getattr(one, name) for one in recoveries] for name in ("serves", "claimable", "again"))
    return " | ".join(_spread([value for value in column if value is not None]) for column in columns)


def _spread(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.2f} s, {max(values):.2f} s" if values else ""


def _bars(result: Result) -> list[str]:
    """How many of the measured recoveries were within the bars, and which were not."""
    return [
        _bar(result, "claimable", CLAIMABLE_WITHIN_S, f"Claimable within {CLAIMABLE_WITHIN_S} s"),
        _bar(result, "again", AGAIN_WITHIN_S, f"Running again within {AGAIN_WITHIN_S} s of that"),
    ]


def _bar(result: Result, what: str, within_s: float, says: str) -> str:
    found = [(value, one.kind) for one in result.recoveries if (value := getattr(one, what)) is not None]
    late = sorted(f"{kind} {value:.1f} s" for value, kind in found if value > within_s)
    exceptions = f" (not: {', '.join(late)})" if late else ""
    return f"- {says}: {len(found) - len(late)} of {len(found)}{exceptions}."


def _figures(result: Result) -> list[str]:
    counts = [f"| {name} | {count:,} |" for name, count in result.counts.items()]
    drained = f"| seconds until everything had drained (median, longest) | {_spread(result.drained_s)} |"
    clock = f"| furthest that the clock of a worker with an effect was wrong | {result.clock_off_h:g} h |"
    return [
        "| what there was | |",
        "| --- | --- |",
        *counts,
        clock,
        drained,
        "",
        _LATE,
        "```",
        *_histogram("runs", result.run_lateness),
        *_histogram("ticks", result.tick_lateness),
        *_histogram("lapses", result.lapse_lateness),
        "```",
    ]


def _histogram(name: str, counts: Sequence[int]) -> list[str]:
    most = max(counts) or 1
    labels = [*(f"up to {edge:g} s" for edge in EDGES_S), "later"]
    return [
        f"{name:6} {label:>12} {count:>9,} {'#' * round(BAR * count / most)}".rstrip()
        for label, count in zip(labels, counts, strict=True)
        if count
    ]
