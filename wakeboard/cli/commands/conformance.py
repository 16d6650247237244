"""The command `wakeboard conformance`: tests a worker in any language (wakeboard/conformance)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from wakeboard.cli.support.options import AsJson
from wakeboard.cli.support.output import print_json, print_message
from wakeboard.cli.support.tables import print_lines, styled
from wakeboard.text.sanitize import one_line

if TYPE_CHECKING:
    from wakeboard.conformance.suite import ScenarioResult

EXAMPLES = (
    "wakeboard conformance -- node dist/conformance.js",
    "wakeboard conformance --only cancel --only sigterm -- ./worker",
    "WAKEBOARD_HANDLERS=wakeboard.conformance.handlers wakeboard conformance -- wakeboard worker --forever",
)


def command(
    worker: Annotated[
        list[str],
        typer.Argument(metavar="-- COMMAND...", help="The command that starts the worker.", show_default=False),
    ],
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only",
            metavar="SCENARIO",
            help="Only this scenario. Repeat it for more. An unknown name lists all.",
            show_default=False,
        ),
    ] = None,
    parallel: Annotated[
        int, typer.Option("--parallel", metavar="N", help="How many scenarios run at once.", min=1, max=24)
    ] = 6,
    as_json: AsJson = False,
) -> None:
    """Test a worker in any language from outside.

    It takes about half a minute.

    The command starts a Postgres server of its own, and the worker once for each scenario, with WAKEBOARD_DSN and other
    variables in its environment. It injects faults and reports what held, what did not, and why that matters. The
    worker must have handlers for the job types conformance.…; docs/workers-in-any-language.md lists them. The exit code
    is 1 if a promise was not kept.
    """
    from wakeboard.conformance.suite import check_command, chosen_scenarios, embedded_suite, inherited_settings

    chosen = chosen_scenarios(only or [])
    check_command(worker)
    with embedded_suite() as suite:
        results = suite.run(
            worker,
            chosen,
            environment=inherited_settings(),
            parallel=parallel,
            report=(lambda _: None) if as_json else _print,
        )
    held = sum(result.held for result in results)
    if as_json:
        print_json(results)
    else:
        print_message(f"{held} of {len(results)} scenarios held.")
    if held < len(results):
        raise typer.Exit(1)


def _print(result: ScenarioResult) -> None:
    word = "ok" if result.held else "fail"
    padding = " " * (6 - len(word))
    print_lines([styled(word, f"{padding}{result.scenario:<16}{result.seconds:5.1f} s  {result.promise}")])
    if not result.held:
        details = [f"found: {result.found}", f"why:   {result.why}", *(f"| {line}" for line in result.output)]
        print_lines([f"{'':6}{one_line(line)}" for line in details])
