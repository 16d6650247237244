"""The command `wakeboard confirm removal`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.cli.conftest import Cli
    from tests.cli.sample_store import SampleStore


def test_a_pending_removal_is_confirmed(cli: Cli, sample: SampleStore):
    sample.sql("select wakeboard.request_removal('file:test', 'hash', 12)")
    sample.sql("select wakeboard.request_removal('file:other', '', 0)")

    wrong = cli("confirm", "removal", "file:tset")
    assert (wrong.code, wrong.err) == (
        1,
        "wakeboard: no removal is pending for 'file:tset'; removals are pending for file:test.\n",
    )
    assert cli("confirm", "removal", "file:other").code == 1
    assert cli("confirm", "removal", "file:test").out == "the next sync of file:test removes 12 schedules.\n"
    assert sample.value("select wakeboard.request_removal('file:test', 'hash', 12)") is True
