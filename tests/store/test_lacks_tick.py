"""The SQL function lacks_tick knows how far apart two ticks of a cron expression may be."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING

from wakeboard.ticks.cron_parser import parse_cron
from wakeboard.ticks.dst_ticks import DstTicks

if TYPE_CHECKING:
    from tests.store.sql_clients import SqlClient

LACKS = "select lacks_tick(%s, statement_timestamp() + %s::interval)"


BOUNDS = [
    ("*/5 * * * *", "4 days"),
    ("30 2 * * *", "4 days"),
    ("30 2 * * SUN", "16 days"),
    ("0 8 * * MON-FRI", "16 days"),
    ("30 2 31 * *", "125 days"),
    ("0 0 L * *", "125 days"),
    ("0 0 1,15 * *", "125 days"),
    ("0 0 1 1 *", "9 years"),
    ("0 0 29 2 *", "9 years"),
    ("30 2 31 3 *", "9 years"),
    ("0 0 13 * FRI", "41 years"),
    ("0 0 * * FRI#5", "41 years"),
    ("0 0 29 2 MON", "41 years"),
]


def test_no_two_ticks_are_further_apart_than_the_bound(admin: SqlClient) -> None:
    for expression, bound in BOUNDS:
        fields = parse_cron(expression, name="a/b")
        ticks = DstTicks(fields, "Europe/Berlin", "Skip", "First").upcoming(datetime(2094, 1, 1, tzinfo=UTC), 400)
        text = fields.to_text()
        assert not admin.value(LACKS, text, max(later - earlier for earlier, later in pairwise(ticks))), expression
        found = [admin.value(LACKS, text, each) for each in (bound, f"{bound} 1 second")]
        assert found == [False, True], expression
        assert admin.value("select lacks_tick(%s, null)", text), expression


def test_a_schedule_without_a_cron_expression_lacks_no_tick(admin: SqlClient) -> None:
    assert not admin.value("select lacks_tick(null, null)")
