"""The command `wakeboard graph`: which schedules run after which, and what they wait for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from wakeboard.cli.support.options import AsJson
from wakeboard.cli.support.output import print_json, print_message
from wakeboard.cli.support.session import query_database
from wakeboard.cli.support.tables import print_lines
from wakeboard.errors import InvalidValue

if TYPE_CHECKING:
    from wakeboard.dependencies.rules.graph import Node, Parent

EXAMPLES = ("wakeboard graph", "wakeboard graph --namespace billing", "wakeboard graph --mermaid > graph.mmd")


def command(
    namespace: Annotated[str | None, typer.Option(metavar="NAME", help="Only schedules in this namespace.")] = None,
    mermaid: Annotated[bool, typer.Option("--mermaid", help="Print a Mermaid flowchart.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show which schedules run after which.

    Each schedule with spec.after is shown below those that it runs after, a repeated branch once.
    A schedule that waits is followed by what it waits for, such as a dead run or a schedule that does not exist.
    """
    from wakeboard.dependencies.queries import read_graph
    from wakeboard.dependencies.rules import graph as dependency_graph

    if mermaid and as_json:
        raise InvalidValue("--mermaid and --json exclude each other; write one of them")
    (nodes, edges), _ = query_database(lambda session: read_graph(session.conn, namespace))
    if as_json:
        print_json({"schedules": [_json_node(node) for node in nodes.values()], "edges": _json_edges(nodes, edges)})
    elif mermaid:
        print_lines([*dependency_graph.mermaid(nodes, edges)])
    elif nodes:
        print_lines([*dependency_graph.tree(nodes, edges)])
    else:
        where = f" in namespace {namespace!r}" if namespace else ""
        print_message(f"no schedule runs after another one{where}. spec.after declares it.")


def _json_node(node: Node) -> dict[str, Any]:
    return {
        "id": node.id,
        "name": node.name,
        "schedule": node.schedule,
        "state": node.state,
        "waiting_for": node.waiting_for,
    }


def _json_edges(nodes: dict[int, Node], edges: list[Parent]) -> list[dict[str, Any]]:
    return [
        {
            "schedule": nodes[edge.definition_id].name,
            "after": edge.name,
            "outcome": edge.outcome,
            "ticks": edge.ticks,
            "exists": edge.parent_id is not None and not edge.removed,
            "in_cycle": edge.in_cycle,
            "waits_for_run": edge.run_id,
            "run_status": edge.run_status,
        }
        for edge in edges
    ]
