"""The command `wakeboard effects list`: the effects that happen once for ever."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from wakeboard.cli.support.options import AsJson
from wakeboard.cli.support.session import query_database
from wakeboard.cli.support.tables import Column, print_rows, styled
from wakeboard.text.humanize import relative
from wakeboard.text.sanitize import one_line

if TYPE_CHECKING:
    from rich.text import Text

    from wakeboard.cli.support.session import DatabaseSession
    from wakeboard.views.queries.forever_effects import ForeverEffectRow

COLUMNS = (Column("EFFECT", shrinks=True), Column("STATE"), Column("RUN", right=True), Column("BEGAN"))
EXAMPLES = ("wakeboard effects list", "wakeboard effects list invoice:8", "wakeboard effects list --after invoice:812")


def command(
    prefix: Annotated[str, typer.Argument(metavar="PREFIX", help="Only keys that begin so.", show_default=False)] = "",
    after: Annotated[
        str, typer.Option(metavar="KEY", help="Only keys after this one: the next page.", show_default=False)
    ] = "",
    limit: Annotated[int, typer.Option(metavar="COUNT", min=1, max=1000, help="List at most this many.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List the effects that happen once for ever, in the order of their keys.

    RUN is the run that had the effect, or that took it over last.
    """

    async def query(session: DatabaseSession) -> list[ForeverEffectRow]:
        from wakeboard.views.queries.forever_effects import list_forever_effects

        return await list_forever_effects(session.conn, prefix, after, limit)

    rows, now = query_database(query)

    def cells(row: ForeverEffectRow) -> list[str | Text]:
        return [one_line(row.key), styled(row.state), str(row.run_id), relative(row.started_at, now)]

    otherwise = "no such key." if prefix + after else "no run has had such an effect."
    print_rows(rows, COLUMNS, cells, otherwise, as_json=as_json)
