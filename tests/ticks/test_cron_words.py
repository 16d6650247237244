from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import pytest

from wakeboard.errors import InvalidSchedule
from wakeboard.ticks.cron_parser import parse_cron
from wakeboard.ticks.cron_words import cron_in_words

if TYPE_CHECKING:
    from wakeboard.ticks.compiled_cron import CronFields


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("* * * * *", "every minute"),
        ("*/5 * * * *", "every 5 minutes"),
        ("0 * * * *", "every hour, on the hour"),
        ("15 * * * *", "every hour at minute 15"),
        ("*/7 * * * *", "every hour at minutes 0, 7, 14, 21, 28, 35, 42, 49 and 56"),
        ("1,2,5,7-12 * * * *", "every hour at minutes 1, 2, 5 and 7 to 12"),
        ("0 */2 * * *", "every 2 hours at minute 0"),
        ("@daily", "every day at 00:00"),
        ("30 1,13 * * *", "every day at 01:30 and 13:30"),
        ("*/5 9-17 * * MON-FRI", "every 5 minutes from 09:00 to 17:59 on Monday to Friday"),
        ("* 8,12-13 * * *", "every minute from 08:00 to 08:59 and 12:00 to 13:59"),
        ("5,35 9-17 * * *", "at minutes 5 and 35 of every hour from 09:00 to 17:59"),
        ("0 8 * * MON", "on Monday at 08:00"),
        ("0 8 * * SAT,SUN", "on Saturday and Sunday at 08:00"),
        ("0 3 1 * *", "on day 1 of the month at 03:00"),
        ("0 0 L,15 * *", "on day 15 and the last day of the month at 00:00"),
        ("0 0 1,15 * FRI", "on days 1 and 15 of the month or on Friday at 00:00"),
        ("0 9 * * FRI#2", "on the second Friday of the month at 09:00"),
        ("0 9 * * L5", "on the last Friday of the month at 09:00"),
        ("0 0 1 1-3,7 *", "on day 1 of the month at 00:00, in January to March and July"),
    ],
)
def test_an_expression_is_described_in_words(line: str, words: str):
    assert cron_in_words(parse_cron(line, name="billing/report")) == words


def test_expressions_with_the_same_words_match_the_same_local_times():
    minutes = ("*", "0", "0-1", "0,2", "*/5", "*/7", "0-55/5", "5-59/5")
    hours = ("*", "0", "0-1", "*/2", "0-22/2", "9-17", "1,3,5,7,9,11,13")
    days = ("*", "1", "1-31", "L", "1,L", "*/2")
    months = ("*", "1", "1-2", "1-12")
    weekdays = ("*", "0", "1-5", "0-6", "FRI#2", "L5")
    by_words: dict[str, tuple[object, ...]] = {}

    for parts in product(minutes, hours, days, months, weekdays):
        try:
            fields = parse_cron(" ".join(parts), name="billing/report")
        except InvalidSchedule:
            continue  # L mixed with counted weekdays and the like
        means = meaning(fields)
        assert by_words.setdefault(cron_in_words(fields), means) == means, parts


def meaning(fields: CronFields) -> tuple[object, ...]:
    kinds = [(weekday, length) for weekday in range(7) for length in (28, 29, 30, 31)]
    return fields.minutes, fields.hours, fields.months, [fields.matching_days(*kind) for kind in kinds]
