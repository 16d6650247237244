"""The CEL validation rules of the JobSchedule CRD: what the API server refuses beyond types and bounds.

tools/generate_crd.py writes them into the CRD, so they apply without a webhook. A rule may accept more than
`wakeboard.schedules.rules.job_schedule`, never less. CEL cannot check everything (a day that never comes, a payload
over 64 KiB, a number beyond 2^53); the operator reports those in the status, with the messages of job_schedule.
tools/generate_schedule_check.py writes them into SQL, for schedules that applications create.
The fields of payloads are refused by an admission policy (tools/generate_admission_policy.py).

The patterns mean the same in RE2 and in Python. Those for a cron expression expect it in upper case. No process imports
this module at run time.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from wakeboard.schedules.rules.job_schedule import OWN_TICKS
from wakeboard.text.durations import INTERVAL_IN_WORDS
from wakeboard.text.durations import PATTERN as DURATION
from wakeboard.text.name_patterns import RESERVED, RESERVED_IN_WORDS
from wakeboard.ticks.compiled_ticks import LAST_YEAR, LONGEST_INTERVAL
from wakeboard.ticks.zones import unknown_zone

Rule: TypeAlias = dict[str, str]

# ------------------------------------------------------------------------------------------------ schedule

# A short form, or five fields of printable ASCII, with the spaces that the parser ignores.
CRON_EXPRESSION: Final = (
    r"^[ \t\n]*(@(HOURLY|DAILY|MIDNIGHT|WEEKLY|MONTHLY|YEARLY|ANNUALLY)|[!-~]+([ \t]+[!-~]+){4})[ \t\n]*$"
)
FIELD: Final = r"[^ \t\n]+"
NUMERIC_RANGE: Final = "[0-9]{1,2}-[0-9]{1,2}"
NAMED_RANGE: Final = "[A-Z]{3}-[A-Z]{3}"

MONTHS: Final = "JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC"
WEEKDAYS: Final = "SUN MON TUE WED THU FRI SAT"
_TO_12, _TO_31, _TO_59 = "0?[1-9]|1[0-2]", "0?[1-9]|[12][0-9]|3[01]", "[0-5]?[0-9]"


def _pattern(number: str, step: str, names: str = "", *, also: str = "", counted: str = "") -> str:
    """The pattern of one field with a comma after it, so that a list is `(element,)+`.

    `number` and `step` are patterns of its numbers, `names` are its words for numbers, and `also` is one more element
    of a list. Elements that match `counted` cannot be mixed with others in a list. H cannot be in a list.
    """
    value = "|".join([number, *names.split()])
    element = rf"(\*|({value})(-({value}))?)(/({step}))?" + f"|{also}" * bool(also)
    lists = f"(({element}),)+" + f"|(({counted}),)+" * bool(counted)
    return rf"^({lists}|H(\(({number})-({number})\))?(/({step}))?,)$"


# For each field, in order: its pattern, its description and examples.
FIELDS: Final = (
    (_pattern(_TO_59, "0?[1-9]|[1-5][0-9]|60"), "minute is 0-59, in steps of 1-60", '"0", "*/15" or "H"'),
    (_pattern("[01]?[0-9]|2[0-3]", "0?[1-9]|1[0-9]|2[0-4]"), "hour is 0-23, in steps of 1-24", '"8", "9-17" or "*/2"'),
    (
        _pattern(_TO_31, _TO_31, also="L"),
        "day of the month is 1-31, in steps of 1-31",
        '"1", "1,15" or "L" for the last',
    ),
    (_pattern(_TO_12, _TO_12, MONTHS), "month is 1-12 or JAN-DEC, in steps of 1-12", '"1", "JAN-MAR" or "*/3"'),
    (
        _pattern("0?[0-7]", "0?[1-7]", WEEKDAYS, counted=rf"([0-7]|{WEEKDAYS.replace(' ', '|')})#[1-5]|L[0-7]"),
        "day of the week is 0-7 or SUN-SAT, in steps of 1-7",
        '"MON-FRI", "FRI#2" for the second or "L5" for the last Friday',
    ),
)

_FIELDS_OF_SELF: Final = f"self.upperAscii().findAll(r'{FIELD}')"
_NAMES_IN_ORDER: Final = f"'{MONTHS} {WEEKDAYS}'"

NO_TIME_ZONE: Rule = {
    "rule": "!self.upperAscii().contains('TZ=')",
    "message": 'the time zone is a separate field; write for example "0 8 * * *" and timeZone: Europe/Lisbon',
}
FIVE_FIELDS: Rule = {
    "rule": f"self.upperAscii().contains('TZ=') ||\nself.upperAscii().matches(r'{CRON_EXPRESSION}')",
    "message": "a schedule has five fields (minute, hour, day of the month, month, day of the week) or is one of "
    '@hourly, @daily, @weekly, @monthly, @yearly; write for example "0 8 * * MON"',
}
EACH_FIELD: list[Rule] = [
    {
        "rule": f"{_FIELDS_OF_SELF}.size() != 5 ||\n({_FIELDS_OF_SELF}[{place}] + ',').matches(r'{pattern}')",
        "message": f"the {meaning}; write for example {examples}",
    }
    for place, (pattern, meaning, examples) in enumerate(FIELDS)
]
NUMBERS_ASCEND: Rule = {
    "rule": f"{_FIELDS_OF_SELF}.size() != 5 ||\n"
    f"self.findAll(r'{NUMERIC_RANGE}').all(range,\n  int(range.split('-')[0]) <= int(range.split('-')[1]))",
    "message": 'a range never runs backwards; instead of "22-6" write "22-23,0-6"',
}
NAMES_ASCEND: Rule = {  # a range may end with SUN, as it is also 7
    "rule": f"self.upperAscii().findAll(r'{NAMED_RANGE}').all(range, range.endsWith('SUN') ||\n"
    f"  {_NAMES_IN_ORDER}.indexOf(range.substring(0, 3)) <=\n"
    f"  {_NAMES_IN_ORDER}.indexOf(range.substring(4)))",
    "message": 'a range never runs backwards; instead of "FRI-MON" write "FRI-SAT,SUN-MON"',
}

# The common cases of days that never come: plain days and months, any day of the week.
_SHORT_MONTHS: Final = "0?[2469]|11|FEB|APR|JUN|SEP|NOV"
_TWO_FIELDS: Final = r"^[ \t\n]*[!-~]+[ \t]+[!-~]+[ \t]+"
_ANY_WEEKDAY: Final = r"[ \t]+\*[ \t\n]*$"
NEVER_IN_FEBRUARY: Final = rf"{_TWO_FIELDS}3[01](-3[01])?(,3[01](-3[01])?)*[ \t]+(0?2|FEB)(,(0?2|FEB))*{_ANY_WEEKDAY}"
NEVER_THE_31ST: Final = rf"{_TWO_FIELDS}31(-31)?(,31(-31)?)*[ \t]+({_SHORT_MONTHS})(,({_SHORT_MONTHS}))*{_ANY_WEEKDAY}"
NOT_ONLY_FEBRUARY_30_OR_31: Rule = {
    "rule": f"!self.upperAscii().matches(r'{NEVER_IN_FEBRUARY}')",
    "message": 'February has no day 30 or 31, so it would never run; write for example "0 0 L 2 *" for its last day',
}
NOT_ONLY_31ST_OF_SHORT_MONTHS: Rule = {
    "rule": f"!self.upperAscii().matches(r'{NEVER_THE_31ST}') ||\nself.upperAscii().matches(r'{NEVER_IN_FEBRUARY}')",
    "message": 'none of these months has a day 31, so it would never run; write for example "0 0 L 4 *"',
}

# ------------------------------------------------------------------------------------------------ every

_SECONDS: Final = (
    "int(self.substring(0, self.size() - 1)) *\n"
    "  (self.endsWith('s') ? 1 : self.endsWith('m') ? 60 : self.endsWith('h') ? 3600 : 86400)"
)
INTERVAL: Rule = {
    "rule": f"self.matches('^{DURATION}$') && {_SECONDS} <= {LONGEST_INTERVAL}",
    "message": f"an interval is {INTERVAL_IN_WORDS}; write for example 90m",
}

# ------------------------------------------------------------------------------- at, startsAt, endsAt

MOMENT: Rule = {
    "rule": f"self >= timestamp('1970-01-01T00:00:00Z') && self < timestamp('{LAST_YEAR + 1}-01-01T00:00:00Z')",
    "message": f"this is not from 1970 to {LAST_YEAR}; write for example 2026-12-01T08:00:00Z",
}

# ------------------------------------------------------------------------------------------------ timeZone

# Excludes what `getHours` also accepts: offsets (+05:00), "Local", "Factory", files that are not zones (posixrules).
ZONE: Final = "^[A-Z][A-Za-z0-9_+-]*(/[A-Z][A-Za-z0-9_+-]*)*$"

KNOWN_ZONE: Rule = {
    "rule": f"self.matches(r'{ZONE}') && !(self in ['Factory', 'Local']) &&\n"
    "timestamp('2026-01-01T00:00:00Z').getHours(self) >= 0",  # an unknown zone fails here
    "message": unknown_zone("this", "Europe/Lisbon"),
}

# ------------------------------------------------------------------------------- fields that depend on each other

_ONLY_ALL_HAS_A_LIMIT: Rule = {
    "rule": "!has(self.limit) || self.policy == 'All'",
    "message": "only All has a limit; write policy: All, or leave limit out",
    "fieldPath": ".limit",
}
_MAXIMUM_IS_NOT_BELOW_BASE: Rule = {
    # The API server also tries the default {} itself, before it is filled in.
    "rule": "!has(self.maxSeconds) || !has(self.baseSeconds) || self.maxSeconds >= self.baseSeconds",
    "message": "maxSeconds is below baseSeconds; write for example baseSeconds: 10 with maxSeconds: 3600",
    "fieldPath": ".maxSeconds",
}
JITTER_IS_BELOW_STARTING_DEADLINE: Rule = {
    "rule": "!has(self.startingDeadlineSeconds) || self.jitterSeconds < self.startingDeadlineSeconds",
    "message": "jitterSeconds must be below startingDeadlineSeconds, or runs would be skipped before they may start; "
    "write for example jitterSeconds: 0",
    "fieldPath": ".jitterSeconds",
}

_NOT_AFTER_ITSELF: Rule = {
    "rule": "!has(self.spec) || !has(self.spec.after) || !has(self.metadata.name) ||\n"
    "self.spec.after.all(entry, entry.schedule != self.metadata.name)",
    "message": "after names this schedule itself; write the name of another one",
    "fieldPath": ".spec.after",
}
_TICKS_COME_FROM_ONE_FIELD: Rule = {
    "rule": "[has(self.schedule), has(self.every), has(self.at), has(self.after)].filter(given, given).size() <= 1",
    "message": "schedule, every, at and after exclude each other, since its ticks come from one; write only one",
}
BOUNDS_ARE_OF_TICKS: Rule = {
    "rule": "!has(self.startsAt) && !has(self.endsAt) || has(self.schedule) || has(self.every)",
    "message": "startsAt and endsAt bound the ticks of schedule or every, which are absent; write one of them",
}
IT_ENDS_AFTER_IT_STARTS: Rule = {
    "rule": "!has(self.startsAt) || !has(self.endsAt) || self.startsAt <= self.endsAt",
    "message": "endsAt is before startsAt; write a later endsAt",
    "fieldPath": ".endsAt",
}
_AFTER_SAYS_WHEN: Rule = {
    "rule": "!has(self.after) || self.after.exists(entry, !has(entry.ticks) || entry.ticks != 'All')",
    "message": "after needs an entry without ticks: All, which says when it runs; write ticks: Same for one",
    "fieldPath": ".after",
}
DEAD_RUNS_ARE_OF_ITS_OWN_TICKS: Rule = {
    "rule": "!has(self.suspendAfterDead) || has(self.schedule) || has(self.every) || has(self.at) || has(self.after)",
    "message": f"suspendAfterDead stops {OWN_TICKS}; write one of them, or leave it out",
    "fieldPath": ".suspendAfterDead",
}
SUCCESS_IS_EXPECTED_OF_ITS_OWN_TICKS: Rule = {
    "rule": "!has(self.expectSuccessWithinSeconds) || has(self.schedule) || has(self.every) || has(self.at)"
    " || has(self.after)",
    "message": f"expectSuccessWithinSeconds counts from {OWN_TICKS}; write one of them, or leave it out",
    "fieldPath": ".expectSuccessWithinSeconds",
}
MISSED_TICKS_ARE_EXPECTED_TO_SUCCEED: Rule = {
    "rule": "!has(self.alertAfterMissed) || has(self.expectSuccessWithinSeconds)",
    "message": "alertAfterMissed counts ticks that miss expectSuccessWithinSeconds, which is absent; write it, or "
    "leave alertAfterMissed out",
    "fieldPath": ".alertAfterMissed",
}

_JOB_TYPE_IS_NOT_OF_THE_PRODUCT: Rule = {
    "rule": f"!self.startsWith('{RESERVED}')",
    "message": RESERVED_IN_WORDS,
}

# ------------------------------------------------------------------------------------------------ rules by field

RULES: Final[dict[str, list[Rule]]] = {
    "": [_NOT_AFTER_ITSELF],
    "spec": [
        JITTER_IS_BELOW_STARTING_DEADLINE,
        _TICKS_COME_FROM_ONE_FIELD,
        BOUNDS_ARE_OF_TICKS,
        IT_ENDS_AFTER_IT_STARTS,
        _AFTER_SAYS_WHEN,
        DEAD_RUNS_ARE_OF_ITS_OWN_TICKS,
        SUCCESS_IS_EXPECTED_OF_ITS_OWN_TICKS,
        MISSED_TICKS_ARE_EXPECTED_TO_SUCCEED,
    ],
    "spec.jobType": [_JOB_TYPE_IS_NOT_OF_THE_PRODUCT],
    "spec.schedule": [
        NO_TIME_ZONE,
        FIVE_FIELDS,
        *EACH_FIELD,
        NUMBERS_ASCEND,
        NAMES_ASCEND,
        NOT_ONLY_FEBRUARY_30_OR_31,
        NOT_ONLY_31ST_OF_SHORT_MONTHS,
    ],
    "spec.every": [INTERVAL],
    "spec.at": [MOMENT],
    "spec.startsAt": [MOMENT],
    "spec.endsAt": [MOMENT],
    "spec.timeZone": [KNOWN_ZONE],
    "spec.catchUp": [_ONLY_ALL_HAS_A_LIMIT],
    "spec.backoff": [_MAXIMUM_IS_NOT_BELOW_BASE],
}
