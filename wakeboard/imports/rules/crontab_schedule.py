"""Reads the five fields of a crontab as Debian's cron does, and refuses what it refuses.

The grammar is narrower than that of a JobSchedule and of Kubernetes: no step behind a single value, no `?`, no
`@every`, and short forms in lower case. Where cron accepts a field and does something that no user means, the field is
refused as well: cron passes over the rest of a field that it does not understand (`5#2` is each Friday), and a range
that runs backwards is never due. tests/imports/test_crontab_schedule.py compares the grammar with `crontab -n`.

A refusal says which other dialect the expression looks like, because crontabs of containers have more fields and signs.
"""

from __future__ import annotations

import re
from typing import Final

from wakeboard.errors import InvalidSchedule
from wakeboard.imports.rules.kubernetes_cron import FIELDS, MONTHS, SHORT_FORMS, WEEKDAYS, CronField, KubernetesCron

_PART: Final = re.compile(r"(?:\*|([0-9]{1,9}|[a-z]{3})(?:-([0-9]{1,9}|[a-z]{3}))?)(?:/([0-9]{1,9}))?", re.IGNORECASE)
_SUNDAY_TWICE: Final = 0b111_1111

# What a schedule that cron refuses looks like: the first that matches one of its words.
_DIALECTS: Final = (
    (r"@every", "@every is of Go programs such as supercronic and ofelia; write for example */5 * * * *"),
    (r"@every_.*|@[0-9]+", "it is of FreeBSD's cron; write for example * * * * *"),
    (r"@.*", "cron knows @hourly, @daily, @midnight, @weekly, @monthly, @yearly and @annually, in lower case"),
    (r".*\?.*", "? is of Quartz, Spring and AWS; write *"),
    (r".*#.*", "# is of Quartz, Spring and AWS, and cron passes over it"),
    (r"(?i:L|LW|L-?[0-9]+|[0-9]+L|[a-z]{3}L)", "L is of Quartz, Spring and AWS; test the day in the command"),
    (r"(?i:[0-9]+W)", "W is of Quartz, Spring and AWS; test the day in the command"),
    (r"H(?:[(/].*)?", "H is of Jenkins; give the JobSchedule itself an H"),
    (r"[0-9]+/[0-9]+", "a step behind a single value is of Quartz and Kubernetes; write a range, for example 5-59/10"),
)
_FIELD_LIKE: Final = re.compile(
    rf"[*?]\S*|[0-9*][0-9*,/?#LW-]*|(?i:(?:{'|'.join((*MONTHS, *WEEKDAYS))})(?:[-,#/0-9L][-,#/0-9A-Z]*)?)"
)


class _Field(CronField):
    __slots__ = ()

    def mask(self, text: str) -> int:
        """The values of a comma-separated list, as bits."""
        mask = 0
        for part in text.split(","):
            for value in self._values(part):
                mask |= 1 << value
        return mask

    def _values(self, part: str) -> range:
        found = _PART.fullmatch(part)
        if found is None:
            raise _Refused(f'the {self.noun} "{part[:40]}", which cron does not understand')
        first, last, step = found.groups()
        if first is None:
            low, high = self.low, self.high
        else:
            low = self._value(part, first)
            high = self._value(part, last) if last else low
        if step is not None and (int(step) == 0 or (first and not last)):
            raise _Refused(f'the {self.noun} "{part[:40]}", a step that cron refuses')
        if low > high:
            raise _Refused(
                f'the {self.noun} "{part[:40]}", which runs backwards: cron accepts it and is never due then'
            )
        return range(low, high + 1, int(step or 1))

    def _value(self, part: str, text: str) -> int:
        name = text.lower()
        value = self.names.index(name) + self.low if name in self.names else int(text) if text.isdigit() else -1
        if not self.low <= value <= self.high:
            raise _Refused(f'the {self.noun} "{part[:40]}", which is not within {self.low}-{self.high}')
        return value


_FIELDS: Final = (
    *(_Field(each.noun, each.low, each.high, each.names) for each in FIELDS[:-1]),
    _Field("day of the week", 0, 7, WEEKDAYS),  # Sunday twice
)


class _Refused(Exception):
    """Why an expression is invalid, as the rest of a sentence."""


def parse_crontab_schedule(written: str) -> KubernetesCron:
    """Parses five fields or a short form of cron. A field that begins with `*` makes cron want both days to match.

    Raises InvalidSchedule for what cron refuses, with the dialect that it looks like.
    """
    texts = SHORT_FORMS.get(written, written).split()
    try:
        if len(texts) != len(_FIELDS) or texts[0].startswith("@"):
            raise _Refused("a form that cron does not know")  # noqa: TRY301 - one way out for every refusal
        minutes, hours, days, months, weekdays = (field.mask(text) for field, text in zip(_FIELDS, texts, strict=True))
    except _Refused as error:
        raise InvalidSchedule(f'schedule "{written[:100]}" has {error}{_dialect(texts)}') from None
    both_days = texts[2].startswith("*") or texts[4].startswith("*")
    return KubernetesCron(minutes, hours, days, months, (weekdays | weekdays >> 7) & _SUNDAY_TWICE, both_days)


def _dialect(texts: list[str]) -> str:
    parts = [part for text in texts for part in text.split(",")]
    for pattern, sentence in _DIALECTS:
        if any(re.fullmatch(pattern, part) for part in parts):
            return f": {sentence}"
    return ""


def sixth_field(command: str) -> str | None:
    """The first word of a command if it looks like a further field of a schedule, which no program is called."""
    word = command.split(None, 1)[0] if command.strip() else ""
    return word if _FIELD_LIKE.fullmatch(word) else None
