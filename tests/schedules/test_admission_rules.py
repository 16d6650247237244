"""The CEL rules of the CRD accept all that job_schedule accepts. tests/cluster tests them with an API server."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.schedules.cel_rules import admitted
from tests.ticks.cron_expressions import cron_lines, loose_lines
from wakeboard.errors import InvalidSchedule
from wakeboard.schedules.rules.admission_rules import RULES, ZONE
from wakeboard.ticks.cron_parser import parse_cron
from wakeboard.ticks.zones import known_zones

# What CEL is not asked to see: days that never come, and ranges from a name to a number.
LEFT_TO_THE_OPERATOR = re.compile(r"names days that its months do not have|runs backwards")


def why_refused(line: str) -> str | None:
    try:
        parse_cron(line, name="billing/report")
    except InvalidSchedule as refused:
        return str(refused)
    return None


@settings(max_examples=500)
@given(
    st.one_of(cron_lines, loose_lines, st.text(max_size=20), st.text("0123456789*,-/#LHT=@ MONFRIJA()", max_size=20))
)
def test_the_api_server_admits_what_the_loader_accepts_and_little_else(line: str):
    refusal = why_refused(line)
    if refusal is None:
        assert admitted(line)
    elif admitted(line):
        assert LEFT_TO_THE_OPERATOR.search(refusal)


@pytest.mark.parametrize(
    "line",
    [
        " 0\t8 * *  mon\n",
        "@Daily",
        "\n@midnight ",
        "00 08 01 01 07",
        "59 23 31 12 7",
        "*/60 */24 */31 */12 */7",
        "0-59/60 0/01 1-1 JAN-DEC SUN-SUN",
        "H(0-59)/60 H(00-23) H(30-31)/2 H(1-12) H(0-7)",
        "1,2,*,3-5/2 * *,L feb,3-SEP MON-7",
        "0 0 L,1-3 * FRI#2,l5,7#5",
        "0 0 * * sat-sun",
    ],
)
def test_every_valid_cron_expression_is_admitted(line: str):
    assert why_refused(line) is None
    assert admitted(line)


def test_every_known_time_zone_matches_the_pattern():
    assert [zone for zone in sorted(known_zones()) if not re.fullmatch(ZONE, zone)] == []


@pytest.mark.parametrize("zone", ["+05:00", "05:30", "posixrules", "posix/UTC", "right/UTC", "../UTC", " UTC", "UTC\n"])
def test_what_is_not_a_zone_name_does_not_match_the_pattern(zone: str):
    assert not re.fullmatch(ZONE, zone)


@pytest.mark.parametrize("rule", [rule for rules in RULES.values() for rule in rules], ids=lambda rule: rule["message"])
def test_every_rule_says_what_to_write(rule: dict[str, str]):
    assert re.search(r"\bwrite\b", rule["message"])
