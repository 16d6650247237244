"""The graph of schedules that run after others: what each waits for, cycles, and the graph as text. Pure functions.

`dependencies/queries.py` reads the model. `wakeboard explain`, `wakeboard graph`, the board and the status of a
JobSchedule show the same facts.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from wakeboard.text.facts import Fact
from wakeboard.text.humanize import counted
from wakeboard.text.sanitize import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Parent:
    """An entry of `after`: a schedule that another one runs after.

    `parent_id` None: there is none of this name. `run_*`: a live run of it that the other one waits for, dead ones
    first; None: there is none. `in_cycle`: it runs after the other one, too. `is_active`: the other one is, so that its
    ticks become runs; it is neither suspended, paused, stalled nor stopped after dead runs.
    """

    definition_id: int
    name: str
    outcome: str
    ticks: str
    parent_id: int | None
    removed: bool
    run_id: int | None
    run_status: str | None
    run_tick: datetime | None
    in_cycle: bool = False
    is_active: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitedRun:
    """A run that another run waits for. `status` None: its row was deleted. `name`: of its schedule or job type."""

    id: int
    name: str | None
    status: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnmatchedTicks:
    """Ticks of one parent (`has`) that another one (`lacks`) passed over, so that no run of them is created.

    `count`: of the newest 100 of the first one. Both have `ticks: Same`.
    """

    has: str
    lacks: str
    count: int
    newest: datetime


_WHICH = {
    "dead": "which is dead; `wakeboard retry {id}` continues it",
    "running": "which is running",
    "queued": "which is queued",
    "failed": "which failed and is retried",
}


def missing_parent(name: str, wanted: str) -> str:
    """Says that a schedule runs after one that does not exist."""
    return f"{name} runs after {wanted}, which does not exist."


def awaited_run_facts(runs: Sequence[AwaitedRun], *, with_names: bool = True) -> Iterator[Fact]:
    """That a run waits for others. `with_names` False: they may belong to namespaces that the viewer may not see."""
    if runs and not with_names:
        yield Fact("waits_for_runs", "It waits for other runs to succeed.")
        return
    for run in runs:
        of = f" of {one_line(run.name)}" if run.name else ""
        if run.status in _WHICH:
            yield Fact("waits_for_run", f"It waits for run {run.id}{of}, {_WHICH[run.status].format(id=run.id)}.")
        elif run.status is None:
            yield Fact("waits_for_run", f"It waits for run {run.id}, which no longer exists; cancel this run.")
        elif run.status == "succeeded":
            yield Fact("waits_for_run", f"It waits for maintenance: run {run.id}{of} has succeeded.")
        else:
            advice = f"`wakeboard replay {run.id}` continues it"
            yield Fact("waits_for_run", f"It waits for run {run.id}{of}, which was {run.status}; {advice}.")


def parent_facts(parents: Sequence[Parent]) -> Iterator[Fact]:
    """What a schedule runs after, and what it waits for."""
    if not parents:
        return
    names = [f"{one_line(each.name)}{' (all ticks)' if each.ticks == 'All' else ''}" for each in parents]
    listed = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    yield Fact("after", f"It runs after {listed}, at the same ticks.")
    for parent in parents:
        name = one_line(parent.name)
        if parent.parent_id is None:
            yield Fact("missing_parent", f"It waits for {name}, which does not exist in its namespace.")
        elif parent.removed:
            yield Fact("missing_parent", f"It waits for {name}, which was removed.")
        elif parent.in_cycle:
            yield Fact("cycle", f"It waits for itself: {name} runs after it. Remove one of them from `after`.")
        elif parent.run_id is not None:
            which = _WHICH.get(parent.run_status or "", "").format(id=parent.run_id)
            yield Fact("waits_for_run", f"It waits for run {parent.run_id} of {name}, {which}.")


def unmatched_fact(ticks: UnmatchedTicks) -> Fact:
    """Why a tick that one parent had became no run."""
    has, lacks = one_line(ticks.has), one_line(ticks.lacks)
    which = "the tick of" if ticks.count == 1 else f"{counted(ticks.count, 'tick')}, the newest of"
    return Fact(
        "unmatched_ticks",
        f"It gets no run for {which}",
        ticks.newest,
        f", which {has} had and {lacks} did not: write ticks: All for the one that runs more often, or backfill {lacks}"
        " if it skipped ticks.",
    )


def waiting_for(parents: Sequence[Parent]) -> str | None:
    """The most important of the facts that keep a schedule waiting, in one sentence; None: nothing does."""
    found = {fact.name: fact for fact in reversed([*parent_facts(_dead_first(parents))])}
    for name in ("cycle", "missing_parent", "waits_for_run"):
        if name in found:
            return found[name].before
    return None


def blocked_by(parents: Sequence[Parent]) -> str | None:
    """As `waiting_for`, but only what does not pass by itself: a dead run, a missing schedule, a cycle.

    None for a schedule that is not active: nothing is expected of it.
    """
    return waiting_for(
        [
            parent if parent.run_status == "dead" else replace(parent, run_id=None, run_status=None)
            for parent in parents
            if parent.is_active
        ]
    )


def _dead_first(parents: Sequence[Parent]) -> list[Parent]:
    return sorted(parents, key=lambda parent: parent.run_status != "dead")


def edges_in_cycles(edges: Iterable[tuple[int, int]]) -> set[tuple[int, int]]:
    """The edges (from, to) of a graph that are part of a cycle. Edges between two cycles are not."""
    whole = list(edges)
    nodes = _without_ends(whole) & _without_ends([(to, start) for start, to in whole])
    left = [(start, to) for start, to in whole if start in nodes and to in nodes]
    component = _strongly_connected(left)
    return {(start, to) for start, to in left if component[start] == component[to]}


def _without_ends(edges: list[tuple[int, int]]) -> set[int]:
    """What is left when nodes without an edge to them are removed, again and again."""
    nodes = {node for edge in edges for node in edge}
    following: dict[int, list[int]] = defaultdict(list)
    incoming: dict[int, int] = defaultdict(int)
    for start, to in edges:
        following[start].append(to)
        incoming[to] += 1
    free = [node for node in nodes if not incoming[node]]
    while free:
        node = free.pop()
        nodes.discard(node)
        for to in following[node]:
            incoming[to] -= 1
            if not incoming[to]:
                free.append(to)
    return nodes


def _strongly_connected(edges: Iterable[tuple[int, int]]) -> dict[int, int]:
    """For each node one of those that it leads to and that lead to it, the same one for all of them (Kosaraju)."""
    following: dict[int, list[int]] = defaultdict(list)
    leading: dict[int, list[int]] = defaultdict(list)
    for start, to in edges:
        following[start].append(to)
        leading[to].append(start)
    order: list[int] = []  # each node behind those that it leads to, but for cycles
    seen: set[int] = set()
    for root in list(following):
        stack = [(root, False)]
        while stack:
            node, is_left = stack.pop()
            if is_left:
                order.append(node)
            elif node not in seen:
                seen.add(node)
                stack += [(node, True), *((to, False) for to in following[node])]
    found: dict[int, int] = {}
    for root in reversed(order):
        nodes = [root]
        while nodes:
            node = nodes.pop()
            if node not in found:
                found[node] = root
                nodes += leading[node]
    return found


# -- the graph as text -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A schedule of the graph: what `wakeboard graph` shows of it."""

    id: int
    name: str  # namespace/name
    schedule: str | None
    state: str
    waiting_for: str | None = None


def tree(nodes: Mapping[int, Node], edges: Sequence[Parent]) -> Iterator[str]:
    """The graph as lines: each schedule below those that it runs after. A repeated branch is shown once."""
    children: dict[int, list[Parent]] = defaultdict(list)
    for edge in edges:
        if edge.parent_id is not None and edge.parent_id in nodes and edge.definition_id in nodes:
            children[edge.parent_id].append(edge)
    has_parent = {edge.definition_id for found in children.values() for edge in found}
    shown: set[int] = set()
    roots = [id_ for id_ in nodes if id_ not in has_parent]
    for root in (*roots, *nodes):  # the second time for cycles, which have no root
        if root in shown:
            continue
        stack: list[tuple[int, str, str, str]] = [(root, "", "", "")]
        while stack:
            id_, line_start, indent, how = stack.pop()
            if id_ in shown and children[id_]:
                yield f"{line_start}{one_line(nodes[id_].name)}{how} (see above)"
                continue
            yield f"{line_start}{_label(nodes[id_], how)}"
            shown.add(id_)
            branches = sorted(children[id_], key=lambda edge: nodes[edge.definition_id].name)
            for place, edge in reversed(list(enumerate(branches))):
                last = place == len(branches) - 1
                stack.append(
                    (
                        edge.definition_id,
                        f"{indent}{'└─ ' if last else '├─ '}",
                        indent + ("   " if last else "│  "),
                        _how(edge),
                    )
                )


def _label(node: Node, how: str) -> str:
    when = f" [{one_line(node.schedule)}]" if node.schedule else ""
    state = f" {node.state}" if node.state not in {"active", "on demand", "ended"} else ""
    waits = f": {one_line(node.waiting_for)}" if node.waiting_for else ""
    return f"{one_line(node.name)}{when}{how}{state}{waits}"


def _how(edge: Parent) -> str:
    words = [*(["ended"] if edge.outcome == "Ended" else []), *(["all ticks"] if edge.ticks == "All" else [])]
    return f" ({', '.join(words)})" if words else ""


def mermaid(nodes: Mapping[int, Node], edges: Sequence[Parent]) -> Iterator[str]:
    """The graph as a Mermaid flowchart."""
    yield "flowchart LR"
    for node in nodes.values():
        yield f'  s{node.id}["{_quoted(node.name)}"]'
    for edge in edges:
        if edge.parent_id in nodes and edge.definition_id in nodes:
            how = _how(edge).strip(" ()")
            yield f"  s{edge.parent_id} -->{f'|{how}|' if how else ''} s{edge.definition_id}"


def _quoted(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "/.-_ " else f"#{ord(letter)};" for letter in one_line(name))
