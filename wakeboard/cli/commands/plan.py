"""The command `wakeboard plan`: what a change of schedules does to their ticks, before it is applied."""

from __future__ import annotations

import gc
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import typer

from wakeboard.cli.support.findings import has_failed, print_findings
from wakeboard.cli.support.options import AsJson, Strict
from wakeboard.cli.support.output import print_json, print_message
from wakeboard.cli.support.session import with_database
from wakeboard.cli.support.tables import Column, print_table
from wakeboard.cli.support.time_args import parse_time
from wakeboard.errors import InvalidValue
from wakeboard.process.output import write_line
from wakeboard.text.humanize import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wakeboard.cli.support.session import DatabaseSession
    from wakeboard.manifests import Parsed
    from wakeboard.plan.plan import Plan
    from wakeboard.plan.rules.state import State

DIFFERS = 3  # exit code; 2 is invalid usage
FIRST_TIME = datetime(1972, 1, 1, tzinfo=UTC)  # no zone has had seconds in its offset since
LAST_TIME = datetime(2090, 1, 1, tzinfo=UTC)


class ClusterChoice(NamedTuple):
    """The cluster of a context of kubectl. `namespaces`: those of --namespace; `selector`: of labels."""

    context: str
    namespaces: tuple[str, ...]
    selector: str


EXAMPLES = (
    "wakeboard plan main:schedules/ schedules/           the branch main, and the files of this folder",
    "wakeboard plan HEAD~1:deploy HEAD:deploy -o markdown    two commits, for a pull request",
    "wakeboard plan --source file:schedules schedules/    what the database has of this source",
    "wakeboard plan --cluster schedules/                  what the cluster of kubectl has",
)


def command(
    states: Annotated[
        list[str],
        typer.Argument(
            metavar="[BEFORE] AFTER",
            help="Each a folder, a file, or REVISION:PATH of a Git repository. With --source or --cluster only AFTER.",
            show_default=False,
        ),
    ],
    source: Annotated[
        str | None,
        typer.Option(
            metavar="SOURCE", help="Instead of BEFORE what the database has of this source: file:NAME or k8s:NAME."
        ),
    ] = None,
    cluster: Annotated[
        bool,
        typer.Option("--cluster", help="Instead of BEFORE the JobSchedules of kubectl's cluster.", show_default=False),
    ] = False,
    context: Annotated[
        str, typer.Option("--context", metavar="NAME", help="With --cluster: kubectl's context.", show_default=False)
    ] = "",
    namespaces: Annotated[
        list[str] | None,
        typer.Option(
            "--namespace",
            "-n",
            metavar="NAME",
            help="With --cluster: compare this namespace, too; can be repeated. The first is also that of files that"
            " name none. The default is that of the context.",
            show_default=False,
        ),
    ] = None,
    selector: Annotated[
        str,
        typer.Option(
            "--selector", "-l", metavar="LABELS", help="With --cluster: only those with labels.", show_default=False
        ),
    ] = "",
    allow_empty: Annotated[
        bool,
        typer.Option("--allow-empty", help="One of the states may declare nothing, or not exist.", show_default=False),
    ] = False,
    days: Annotated[int, typer.Option(metavar="N", min=1, max=366, help="For how many days ticks are compared.")] = 30,
    since: Annotated[
        str | None,
        typer.Option("--from", metavar="TIME", help="When they begin, an ISO 8601 time. The default is now."),
    ] = None,
    output: Annotated[
        Literal["markdown"] | None, typer.Option("--output", "-o", help="Markdown, for a pull request.")
    ] = None,
    strict: Strict = False,
    detailed_exitcode: Annotated[
        bool,
        typer.Option("--detailed-exitcode", help="Exit 3 if something differs and nothing fails.", show_default=False),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show what a change of schedules does to their ticks.

    It compares two states by the scheduler's own rules: ticks that are gained, lost and moved; clock changes, minutes
    with too many ticks, limits, renamed schedules, chains of `after` that break, mistakes in files, and secrets in
    clear text. It needs no database, except for --source, and changes nothing. The exit code is 1 if a finding fails.

    With --cluster, the namespaces of AFTER are compared. A JobSchedule that only the cluster has counts as removed;
    --selector leaves out those that AFTER does not own.
    """
    if output and as_json:
        raise InvalidValue("--output and --json exclude each other; write one of them.")
    place = ClusterChoice(context, tuple(namespaces or ()), selector) if cluster else None
    if place is None and (context or namespaces or selector):
        raise InvalidValue("--context, --namespace and --selector choose JobSchedules of a cluster: add --cluster.")
    if place and source:
        raise InvalidValue("--source and --cluster exclude each other; write one of them.")
    begin = _beginning(since)
    gc.disable()  # a sixth of the time of 10,000 schedules: they are kept to the end, and are no reference cycles
    try:
        found = _plan(states, source or place, begin, days, allow_empty=allow_empty)
        _show(found, as_json=as_json, as_markdown=output is not None)
    finally:
        gc.enable()
    if has_failed(found.findings, strict=strict):
        raise typer.Exit(1)
    if detailed_exitcode and found.schedules:
        raise typer.Exit(DIFFERS)


def _beginning(since: str | None) -> datetime:
    if since is None:
        return datetime.now(UTC)
    found = parse_time(since)
    if not FIRST_TIME <= found <= LAST_TIME:
        raise InvalidValue(f"--from is {since!r}; write a time from {FIRST_TIME.year} to {LAST_TIME.year - 1}.")
    return found


def _plan(
    states: Sequence[str], before: str | ClusterChoice | None, since: datetime, days: int, *, allow_empty: bool
) -> Plan:
    """`before`: a source in the database, or a cluster; None: the first of the states."""
    from wakeboard.plan.plan import plan
    from wakeboard.plan.states import read_state

    if len(states) != (1 if before else 2):
        wanted = "only AFTER" if before else "BEFORE and AFTER, for example main:schedules/ schedules/"
        what = " with --source or --cluster" if before else ""
        given = f"{counted(len(states), 'state')} {'is' if len(states) == 1 else 'are'} given"
        raise InvalidValue(f"{given}; write {wanted}{what}.")
    parsed: Parsed = {}
    after = read_state(states[-1], parsed, may_be_empty=allow_empty)
    if isinstance(before, ClusterChoice):
        old, after = _with_cluster(before, after)
    elif before:
        old = with_database(lambda session: _stored(session, before))
        if old.is_empty and not allow_empty:
            raise InvalidValue(
                f"the database has no schedules of the source {before}: `wakeboard schedules --json` names the"
                " sources; add --allow-empty for a new one."
            )
    else:
        old = read_state(states[0], parsed, may_be_empty=allow_empty)
    if old.is_empty and after.is_empty:
        raise InvalidValue(f"{old.name} and {after.name} declare nothing: name the folder with the schedules.")
    return plan(old, after, since, days)


def _with_cluster(cluster: ClusterChoice, after: State) -> tuple[State, State]:
    """The state of the cluster in the namespaces of the other, and the other as it would be in this cluster."""
    from wakeboard.cli.support.kubectl import WHERE, cluster_job_schedules, context_namespace, require_namespaces
    from wakeboard.plan.states import cluster_state, placed

    require_namespaces(cluster.namespaces)
    after = placed(after, lambda: cluster.namespaces[0] if cluster.namespaces else context_namespace(cluster.context))
    namespaces = {*cluster.namespaces, *(namespace for namespace, _ in {*after.schedules, *after.invalid})}
    found = cluster_job_schedules(
        namespaces or {context_namespace(cluster.context)}, context=cluster.context, selector=cluster.selector
    )
    name = f"{WHERE} of {cluster.context}" if cluster.context else WHERE
    return cluster_state(name, found, after.limits), after


async def _stored(session: DatabaseSession, source: str) -> State:
    from wakeboard.plan.states import read_source

    return await read_source(session.conn, source)


def _show(found: Plan, *, as_json: bool, as_markdown: bool) -> None:
    if as_json:
        print_json(found)
    elif as_markdown:
        from wakeboard.plan.markdown import markdown

        write_line(markdown(found).removesuffix("\n"))
    else:
        _print(found)


def _print(found: Plan) -> None:
    from wakeboard.plan.rules.words import difference, tick_words, totals

    columns = [*(Column(heading) for heading in ("CHANGE", "SCHEDULE", "TICKS", "")), Column("WHAT", shrinks=True)]
    rows = [[each.change, each.schedule, totals(each), tick_words(each), difference(each)] for each in found.schedules]
    if rows:
        print_table(columns, rows)
    for each in found.schedules:
        for sentence in each.clock_changes:
            print_message(f"Note: {each.schedule} in {each.time_zone}: {sentence}.")
    print_findings([each for each in found.findings if each.level != "ok"])
    print_message(_summary(found))


def _summary(found: Plan) -> str:
    from wakeboard.plan.rules.words import plan_summary

    period = f"{found.begin:%Y-%m-%d %H:%M} to {found.end:%Y-%m-%d %H:%M} UTC"
    summary = plan_summary(found, found.schedules, found.not_compared)
    return f"{found.before} -> {found.after}, {period}: {summary}."
