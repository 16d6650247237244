"""The grammar of a crontab's fields: that of Debian's cron, which `crontab -n` checks, and no wider."""

from __future__ import annotations

import os
import shutil
import subprocess
from itertools import product
from typing import TYPE_CHECKING, Final

import pytest

from tests.imports.import_examples import OPTIONS
from wakeboard.errors import InvalidSchedule
from wakeboard.imports.rules.crontab import read_crontab
from wakeboard.imports.rules.crontab_line import import_crontab_line
from wakeboard.imports.rules.crontab_schedule import parse_crontab_schedule

if TYPE_CHECKING:
    from pathlib import Path

FIELDS: Final = (
    *("*", "0", "1", "7", "8", "12", "13", "23", "24", "31", "32", "59", "60", "05", "005", "+5", "-5"),
    *(
        "1-5",
        "5-1",
        "1-",
        "1-5-7",
        "*-5",
        "1-9/2",
        "1-9/0",
        "1-*/2",
        "*/5",
        "*/0",
        "*/70",
        "*/",
        "*/5/5",
        "5/10",
        "*/x",
    ),
    *(
        "1,2",
        "1,,2",
        ",1",
        "1,",
        "*,5",
        "5,*",
        "mon",
        "MON-FRI",
        "fri-mon",
        "mon,wed",
        "mon/2",
        "monday",
        "jan",
        "JAN-mar/2",
    ),
    *("?", "L", "5L", "LW", "15W", "MON#2", "5#2", "H", "H/5", "R", "a", "\u017fun", "1\u00a02"),
)
SHORT_FORMS: Final = (
    *("@hourly", "@daily", "@midnight", "@weekly", "@monthly", "@yearly", "@annually"),
    *("@Daily", "@DAILY", "@every 5m", "@every_minute", "@5", "@", "@weekdays"),
)
LINES: Final = (
    *(" ".join(value if place == at else "*" for at in range(5)) for place, value in product(range(5), FIELDS)),
    *SHORT_FORMS,
    *(
        "0 0 5 * * *",
        "*/10 * * * * *",
        "0 0 12 * * ?",
        "0 0 12 ? * MON",
        "0 0 12 1/1 * ? *",
        "0 5 * *",
        "0\u00a05 * * *",
    ),
)

needs_cron = pytest.mark.skipif(
    shutil.which("crontab") is None and not os.environ.get("CI"), reason="Debian's package cron is not installed"
)


def refusal(line: str) -> str:
    """Why the entry cannot be imported; empty if it can."""
    (entry,) = read_crontab(f"{line} run\n", with_users=False)
    try:
        import_crontab_line(entry, OPTIONS, namespace=None, taken=())
    except InvalidSchedule as error:
        return str(error)
    return ""


@needs_cron
def test_no_line_that_debians_cron_refuses_is_imported(tmp_path: Path):
    file = tmp_path / "crontab"
    refused: list[str] = []
    for line in LINES:
        file.write_text(f"{line} run\n")
        answer = subprocess.run(["crontab", "-n", str(file)], capture_output=True, text=True, check=False)
        if answer.returncode:
            refused.append(line)
    assert 100 < len(refused) < len(LINES) - 100
    assert [line for line in refused if not refusal(line)] == []


@pytest.mark.parametrize(
    ("written", "equal"),
    [
        ("* * * * *", "0-59 0-23 1-31 1-12 0-6"),
        ("*/70 * * * *", "0 * * * *"),
        ("10-20/5,50 * * * *", "10,15,20,50 * * * *"),
        ("0 0 * JAN-mar/2 *", "0 0 * 1,3 *"),
        ("0 0 * * 7", "0 0 * * 0"),
        ("0 0 * * 5-7", "0 0 * * 0,5,6"),
        ("0 0 * * mon,wed", "0 0 * * 1,3"),
        ("0 0 * * */7", "0 0 * * */14"),
        ("@midnight", "0 0 * * *"),
    ],
)
def test_two_spellings_that_cron_reads_alike_are_equal(written: str, equal: str):
    parsed, other = parse_crontab_schedule(written), parse_crontab_schedule(equal)
    assert (parsed.minutes, parsed.hours, parsed.days) == (other.minutes, other.hours, other.days)
    assert (parsed.months, parsed.weekdays) == (other.months, other.weekdays)


@pytest.mark.parametrize(
    ("written", "both_days"),
    [("0 0 1 * *", True), ("0 0 */2 * 1", True), ("0 0 *,5 * 1", True), ("0 0 1 * */2", True), ("0 0 1-31 * 1", False)],
)
def test_a_day_field_that_begins_with_a_star_wants_both_days(written: str, both_days: bool):
    assert parse_crontab_schedule(written).both_days == both_days


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("@every 5m", "@every is of Go programs such as supercronic and ofelia"),
        ("@every_minute", "of FreeBSD's cron"),
        ("@Daily", "in lower case"),
        ("0 0 ? * MON", "? is of Quartz, Spring and AWS; write *"),
        ("0 0 L * *", "L is of Quartz"),
        ("0 0 15W * *", "W is of Quartz"),
        ("0 0 * * MON#2", "# is of Quartz"),
        ("H 0 * * *", "H is of Jenkins"),
        ("5/10 * * * *", "write a range, for example 5-59/10"),
        ("*/10 * * * * *", 'its command begins with "*", which looks like a sixth field'),
        ("0 0 5 * * MON-FRI", 'begins with "MON-FRI", which looks like a sixth field'),
        ("0 0 12 ? * MON 2026", "looks like a sixth field"),
        ("0 0 * * fri-mon", "runs backwards: cron accepts it and is never due then"),
        ("CRON_TZ=Asia/Tokyo 30 6 * * *", "a zone in front of a schedule is of Go programs"),
        ("60 * * * *", 'the minute "60", which is not within 0-59'),
    ],
)
def test_a_refusal_names_the_dialect_that_the_line_looks_like(line: str, says: str):
    assert says in refusal(line)
