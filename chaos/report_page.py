"""The report of a campaign: a summary for the terminal, and docs/reliability.md. Every figure is a campaign's."""

from __future__ import annotations

import os
import platform
import re
import statistics
from typing import TYPE_CHECKING, Final

from chaos.checker import invariants
from chaos.faults.catalogue import FAULTS, faults_of
from chaos.held_locks import BOUND_S, SLOWER
from chaos.losses import COUNTED, SILENT
from chaos.processes import LEASE_S
from chaos.results import EDGES_S, UNDONE, Recovery, Result
from chaos.wal_witness import CAMPAIGNS, COUNT_OF_WAL, INVARIANTS
from testbed.patroni import TTL_S
from testbed.processes import ROOT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chaos.faults.fault import Fault

PAGE: Final = ROOT / "docs" / "reliability.md"
CLAIMABLE_WITHIN_S: Final = LEASE_S + 6
AGAIN_WITHIN_S: Final = 1
OF_A_CLUSTER: Final = {"patroni", "network"}  # what the faults of several servers need
BAR: Final = 30  # characters of the longest bar of a histogram

# The invariants that the checkers test in Python, not by a query of invariants.sql.
CHECKED_IN_PYTHON: Final = (
    "effects of succeeded runs happened exactly once",
    "no tick is lost",
    "no tick twice",
    "a tick is a moment of its schedule",
    "the cursor is at the next tick",
    "an acknowledged enqueue is never lost",
    "an acknowledged effect is never lost",
    "an effect is acknowledged once",
    "an enqueue happens at most once",
    "enqueue_many is all or none",
    "limits are never exceeded (along the audit log of every lease)",
    "rates are never exceeded",
    "a unique window has one run",
    "a circuit affects no requested run",
    "a schedule and an application's row commit together",
    "every worker works again",
    "a held lock stops only what it locks",
    "a process ends only as it should",
    *INVARIANTS,
)

_ABOUT: Final = """\
# Reliability

wakeboard guarantees **exactly-once scheduling per tick, at-least-once execution, at most one accepted completion per
run, exactly-once effects through `job_effects`.** This command wrote the page and measured everything on it:

```sh
{command} CHAOS_ARGS=--write
```

`make chaos` runs a shorter campaign, in about five minutes.

## How it is tested

A campaign starts a PostgreSQL server with durable settings on a small disk, PgBouncer in transaction mode in front of
it, and real processes: workers with `--forever` (one with prepared statements, one through PgBouncer), with `--linger`,
and with `--drain`, started again and again (one through PgBouncer), with leases of {lease} s; a process that runs only
the operator's maintenance, with its alerts and limits; and applications that enqueue with and without idempotency keys,
in unique windows, in their own transactions, in bulk, and after other runs, and that create, edit and remove schedules
in transactions of their own, often at the moment of a tick. Users create schedules with missed ticks, with circuits and
after other schedules, run them now, cancel, retry and replay runs, and declare, pause, resume and cancel backfills.
Every connection goes through a proxy that can cut it, delay it, block it, or drop one reply. Handlers use `run.once`,
steps, external effects, effects once for ever, limits, rate limits, retries, snoozes and timeouts.

The seed decides a plan: about three faults per second, many at the same time, then one of each kind in isolation, to
measure how long recovery takes. Then one session holds locks of every kind for longer than any timeout (rows of runs,
workers, limits, backfills and schedules, an open `cancel`, an open `reap`). Runs that need none of these rows must end
within {bound:g} s meanwhile, or {slower:g} times as long as without the locks on a busy machine. At last everything
must drain and every worker must work. A checker then reads the tables, the effects table, the replies that
applications received, and an audit log of each change of a run, which a trigger writes in the transaction that makes
the change. A second reader reads the archived WAL with `pg_waldump`. The checkers know these invariants:

{invariants}

The other half of the evidence is in `tests/`: a state machine that calls SQL functions in random order, lets the server
forget its last commits, and compares the store with a model (`tests/store/test_state_machine.py`), and a search of
every interleaving of a small model of leases, epochs and limits (`tests/model`).
"""
_FAULTS: Final = f"""\
## Faults

Recovery is measured after a fault in isolation, as median and maximum. *Serves*: from its end until a run that was
enqueued then has succeeded. *Claimable*: from its start until the last lease that was lost by it is reaped, if any was
(threshold: {CLAIMABLE_WITHIN_S} s, a lease and six seconds); this includes the time that a server is away, and that of
three workers that die one after another. *Again*: from there until that run is claimed again (threshold:
{AGAIN_WITHIN_S} s with `--forever` workers), unless it was running at two crashes: then it waits for a worker that runs
nothing else.
"""
_LATE: Final = """\
Lateness during all this. Runs: from due until first claimed, without limits. Ticks: from their moment until they became
runs. Reaps: from the end of a lost lease until it was reaped.
"""
REPLAYING: Final = "## Replaying\n"
_REPLAY: Final = f"""\
{REPLAYING}
Each campaign has at most 1000 faults and its own seed, counted up from the first. A violation is printed with its seed,
and the logs of every process are kept. `make chaos CHAOS_SEED=7 CHAOS_FAULTS=1000` repeats campaign 7: the same faults,
at the same times after the start, in the same slots, for as long. The seed does not decide what the processes do at
these moments, nor what the applications enqueue. A replay meets another interleaving, so a rare violation may take
several replays.
"""
_LIMITS: Final = """\
## What this does not show

- One machine, and no lost disk. The guarantees hold on one timeline of commits, which a failover to a synchronous
  standby continues. A database that goes back in time says so ([production.md](production.md#backup-and-restore));
  `tests/restores` and `tests/chaos` show that with real servers.
- A former primary that was frozen and goes on is ended after a second, as by Patroni's watchdog. Without one, Patroni
  3.0 can take the lease away from the new primary ([production.md](production.md#set-ups)).
- A patched clock source in the workers changes the wall clock by up to twelve hours. The kernel's clock stays right,
  and so does that of the database: no fault makes it jump (the tests of `tests/store` move leases and ticks instead).
- `disk full` needs root (a tmpfs of bounded size), and PgBouncer must be installed. Faults that the machine cannot
  inject are counted as skipped.
- Logs of runs are no promise: a worker that is killed loses its lines since the last flush, a second at most, and a
  database that is away costs lines ([logs.md](logs.md#what-it-costs-and-what-is-lost)).
- An effect outside the database is at-least-once. Here the provider respects its idempotency key.
"""


_FAILOVERS: Final = """\
## Failovers

The same campaign with three PostgreSQL servers that Patroni keeps (a synchronous standby, a lease of {ttl} s in etcd),
in place of one server. Each has a small disk and a network namespace, which a bridge links to the others, to etcd and
to the other processes. These have connection strings of all three servers; PgBouncer has a load balancer in front of
it, which follows the primary. Handlers also note each effect whose commit was acknowledged in a file, with fsync, and
the checker compares it with the tables. The servers archive their WAL, and `pg_waldump` reads that of the last
timeline, from the first commit on. This command ran a campaign, once for each of its seeds, and `--parts` added them
up:

```sh
{command}
```

{campaigns} campaigns, {hit}; {failovers} promotions of a standby; {effort}; {about}.

{findings}

{witness}

{faults}
"""
_WITNESS: Final = """\
The WAL of {campaigns} of these campaigns was read: {figures}. It contradicted the ledger, the replies that applications
received, the tables or itself {contradictions} times. `tests/chaos/test_wal_witness.py` plants faults that the tables
hide, and the WAL shows them."""
_LOSSES: Final = """\
## Failovers that lose commits

The same cluster, but no commit waits for a standby, and a primary sends nothing for up to a second before it is killed.
So commits that were acknowledged just before are lost. The installation must name each promotion as one after which
commits may be missing, until an administrator acknowledges it; one that it does not name counts as lost below. All
other invariants hold for the timeline that goes on.

```sh
{command}
```

{campaigns} campaigns, {hit}; {effort}. Of {promotions} promotions, the installation left {silent} unnamed. Counted:
{losses}.

{findings}
"""
# A section of several servers.
_SECTION: Final = re.compile(r"^## Failovers(?: that lose commits)?\n.*?(?=^## )", re.MULTILINE | re.DOTALL)


def page_with_losses(result: Result, command: str, before: str) -> str:
    """docs/reliability.md as it was before, with a new section about failovers to asynchronous standbys."""
    losses = [f"{result.counts[name]:,} {name}" for name in COUNTED.values() if name]
    section = _LOSSES.format(
        command=command,
        campaigns=len(result.seeds),
        hit=_hit(result),
        effort=_effort(result),
        promotions=result.counts["timelines of this WAL"] - result.counts[CAMPAIGNS],
        silent=_silent(result),
        losses=", ".join(losses),
        findings="\n".join([*_findings(result), "", *map(_shortened, _violations(result))]).strip(),
    )
    kept = [each for each in _SECTION.findall(before) if not each.startswith(section.partition("\n")[0])]
    return _SECTION.sub("", before).replace(REPLAYING, "".join([*kept, f"{section}\n"]) + REPLAYING)


def page_with_failovers(result: Result, command: str, before: str) -> str:
    """docs/reliability.md as it was before, with a new section about failovers."""
    kinds = [fault for fault in faults_of(failover=True) if fault.needs in OF_A_CLUSTER]
    section = _FAILOVERS.format(
        ttl=TTL_S,
        command=command,
        campaigns=len(result.seeds),
        hit=_hit(result),
        failovers=result.counts["failovers"],
        effort=_effort(result),
        about=result.about,
        findings="\n".join([*_findings(result), "", *map(_shortened, _violations(result))]).strip(),
        witness=_witness(result),
        faults="\n".join(_fault_table(result, kinds, descriptions=True)),
    )
    kept = [each for each in _SECTION.findall(before) if not each.startswith("## Failovers\n")]
    return _SECTION.sub("", before).replace(REPLAYING, "".join([f"{section}\n", *kept]) + REPLAYING)


def summary(result: Result, command: str) -> str:
    """The text for the terminal."""
    head = f"{result.faults} faults, {_seeds(result)}, {result.seconds / 60:.1f} minutes. Again: {command}\n"
    logged = [f"- logged {count} times: {line}" for line, count in result.log_lines.most_common(20)]
    table, figures = _fault_table(result), _figures(result)
    return "\n".join(
        [
            head,
            *_findings(result),
            "",
            *table,
            "",
            *_within_thresholds(result),
            "",
            *figures,
            *logged,
            *_violations(result),
            *_verdict(result),
        ]
    )


def page(result: Result, command: str, before: str = "") -> str:
    """docs/reliability.md, with the sections about failovers that it had before."""
    failovers = "".join(_SECTION.findall(before))
    listed = "\n".join(f"- {name}" for name in [*(name for _, name, _ in invariants()), *CHECKED_IN_PYTHON])
    about = _ABOUT.format(command=command, lease=LEASE_S, invariants=listed, bound=BOUND_S, slower=SLOWER)
    parts = [
        about,
        f"## Result\n\n{_hit(result)}; {_effort(result)}; {result.about}.\n",
        *_findings(result),
        "",
        *(["```", *map(_shortened, _violations(result)), "```", ""] if result.violations else []),
        _FAULTS,
        *_fault_table(result, descriptions=True),
        "",
        *_within_thresholds(result),
        "\n## Figures\n",
        *_figures(result),
        "",
        failovers + _REPLAY,
        _LIMITS,
    ]
    return "\n".join(parts)


def _verdict(result: Result) -> list[str]:
    """The last line, about a cluster's failovers."""
    if not result.counts["failovers"]:
        return []
    lost, doubled = (len(result.in_category(category)) for category in ("lost", "doubled"))
    silent = _silent(result)
    named = sum(result.counts[name] for name in COUNTED.values() if name)
    return [
        f"{result.counts['failovers']} promotions of a standby: lost {lost}, doubled {doubled}."
        + f" Lost with a failover that the installation names: {named}; silent: {silent}." * bool(named or silent)
    ]


def _silent(result: Result) -> int:
    return sum(one.invariant == SILENT for one in result.violations)


def _witness(result: Result) -> str:
    """What the WAL says: each count, and how many violations it shows."""
    counted = [(COUNT_OF_WAL.match(name), count) for name, count in result.counts.items()]
    figures = ", ".join(f"{count:,} {found[1]}" for found, count in counted if found)
    contradictions = sum(one.invariant in INVARIANTS for one in result.violations)
    return _WITNESS.format(campaigns=result.counts[CAMPAIGNS], figures=figures, contradictions=contradictions)


def _hit(result: Result) -> str:
    return f"{result.faults:,} faults, of which {sum(result.injected.values()):,} had a target"


def _effort(result: Result) -> str:
    machine = f"{os.cpu_count()} CPUs, Python {platform.python_version()}"
    return f"{_seeds(result)}; {result.seconds / 60:.0f} minutes; {machine}"


def _seeds(result: Result) -> str:
    first, last = min(result.seeds), max(result.seeds)
    if last - first >= len(result.seeds):
        return f"seeds {', '.join(map(str, sorted(result.seeds)))}"
    return f"seed {first}" if first == last else f"seeds {first} to {last}"


def _findings(result: Result) -> list[str]:
    undone = sum(one.invariant == UNDONE for one in result.violations)
    lost, doubled, other = (len(result.in_category(category)) for category in ("lost", "doubled", "other"))
    return [
        "| lost | doubled | other violations | faults that could not be injected |",
        "| --- | --- | --- | --- |",
        f"| {lost} | {doubled} | {other - undone} | {undone} |",
    ]


def _violations(result: Result) -> list[str]:
    return [f"- {one.category}: {one.invariant}: {one.detail.strip()}" for one in result.violations]


def _shortened(text: str) -> str:
    """The first and the last line. The terminal shows all of them."""
    first, *others = text.splitlines()
    return f"{first} … {others[-1]}" if others else first


def _fault_table(
    result: Result, kinds: Sequence[type[Fault]] | None = None, *, descriptions: bool = False
) -> list[str]:
    what = "fault, and what it is" if descriptions else "fault"
    lines = [f"| {what} | injected | no target | serves | claimable | again |", "| --- " * 6 + "|"]
    for fault in kinds or [each for each in FAULTS if result.counts["failovers"] or each.needs not in OF_A_CLUSTER]:
        mine = [one for one in result.recoveries if one.fault == fault.name]
        injected = f"{result.injected[fault.name]:,}" if fault.name not in result.skipped else "skipped"
        name = f"**{fault.name}**: {fault.description()}" if descriptions else fault.name
        lines.append(f"| {name} | {injected} | {result.no_target[fault.name]:,} | {_recovery(mine)} |")
    total = f"{sum(result.injected.values()):,} | {sum(result.no_target.values()):,}"
    return [*lines, f"| all | {total} | {_recovery(result.recoveries)} |"]


def _recovery(recoveries: Sequence[Recovery]) -> str:
    columns = ([getattr(one, name) for one in recoveries] for name in ("serves", "claimable", "again"))
    return " | ".join(_spread([value for value in column if value is not None]) for column in columns)


def _spread(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.2f} s, {max(values):.2f} s" if values else ""


def _within_thresholds(result: Result) -> list[str]:
    """How many of the measured recoveries were within each threshold, and which were not."""
    return [
        _within(result, "claimable", CLAIMABLE_WITHIN_S, f"Claimable within {CLAIMABLE_WITHIN_S} s"),
        _within(result, "again", AGAIN_WITHIN_S, f"Running again within {AGAIN_WITHIN_S} s of that"),
    ]


def _within(result: Result, what: str, within_s: float, label: str) -> str:
    found = [(value, one.fault) for one in result.recoveries if (value := getattr(one, what)) is not None]
    late = sorted(f"{fault} {value:.1f} s" for value, fault in found if value > within_s)
    exceptions = f" (not: {', '.join(late)})" if late else ""
    return f"- {label}: {len(found) - len(late)} of {len(found)}{exceptions}."


def _figures(result: Result) -> list[str]:
    counts = [f"| {name} | {count:,} |" for name, count in result.counts.items()]
    drained = f"| seconds until everything had drained (median, maximum) | {_spread(result.drained_s)} |"
    clock = f"| largest clock error of a worker with an effect | {result.clock_error_h:g} h |"
    return [
        "| figure | |",
        "| --- | --- |",
        *counts,
        clock,
        drained,
        "",
        _LATE,
        "```",
        *_histogram("runs", result.run_lateness),
        *_histogram("ticks", result.tick_lateness),
        *_histogram("reaps", result.reap_lateness),
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
