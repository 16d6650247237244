"""Tables and texts on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len

from wakeboard.cli.support.tables import Column, table

if TYPE_CHECKING:
    from tests.cli.conftest import Cli
    from tests.cli.sample_store import SampleStore


def test_control_characters_in_errors_are_replaced(cli: Cli, sample: SampleStore):
    run = sample.enqueue("mail")
    sample.fail(run, "\x1b[31mred\x07 [bold]markup[/bold]\nnext line \u202eevil")

    result = cli("runs")

    assert "\x1b" not in result.out
    assert "\u202e" not in result.out
    assert "[31mred\ufffd [bold]markup[/bold] next line" in result.lines[1]


def test_a_table_fits_the_terminal_and_counts_wide_characters_twice():
    columns = [Column("RUN OF", shrinks=True), Column("TRY", right=True), Column("DETAILS", shrinks=True)]
    rows = [["billing/日次レポートを送信する", "1/5", "接続がリセットされました" * 3], ["tokens", "-", "x"]]

    shown = [str(line) for line in table(columns, rows, 40)]

    assert all(cell_len(line) <= 40 for line in shown)
    assert shown[1].endswith("…")
    ends = {
        cell_len(line[: line.index(word) + len(word)]) for line, word in zip(shown, ("TRY", "1/5", "-"), strict=True)
    }
    assert len(ends) == 1
