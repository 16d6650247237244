"""Cron lines for properties: all that a person may write, as Hypothesis strategies."""

from __future__ import annotations

from hypothesis import strategies as st

from wakeboard.errors import InvalidSchedule
from wakeboard.ticks.cron_parser import parse_cron

MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")


def _spans(low: int, high: int) -> st.SearchStrategy[str]:
    number = st.integers(low, high).map(str)
    ends = st.tuples(st.integers(low, high), st.integers(low, high)).filter(lambda pair: pair[0] < pair[1])
    spans = ends.map(lambda pair: f"{pair[0]}-{pair[1]}")
    step = st.integers(2, (high - low + 1) // 2)
    return st.one_of(
        number,
        spans,
        st.builds("{}/{}".format, spans, step),
        st.builds("*/{}".format, step),
        st.builds("{}/{}".format, number, step),
    )


def _field(low: int, high: int, *more: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    parts = st.one_of(_spans(low, high), *more)
    return st.one_of(st.just("*"), st.lists(parts, min_size=1, max_size=3, unique=True).map(",".join))


_minutes, _hours = _field(0, 59), _field(0, 23)
_days, _months = _field(1, 31, st.just("L")), _field(1, 12, st.sampled_from(MONTHS))
_weekdays = _field(0, 6, st.sampled_from(WEEKDAYS))
_counted = st.one_of(
    st.builds("{}#{}".format, st.sampled_from(WEEKDAYS), st.integers(1, 5)), st.builds("L{}".format, st.integers(0, 7))
)


def _line(*fields: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.tuples(*fields).map(" ".join)


def _comes(line: str) -> bool:
    try:
        parse_cron(line, name="billing/report")
    except InvalidSchedule as refused:
        return "would never run" not in str(refused)
    return True


cron_lines = st.one_of(
    _line(_minutes, _hours, _days, _months, _weekdays),
    _line(_minutes, _hours, st.just("*"), st.just("*"), st.just("*")),
    _line(_minutes, _hours, st.just("*"), _months, st.lists(_counted, min_size=1, max_size=2).map(",".join)),
).filter(_comes)
# Lines that tick at least once a day, so that a few days show something.
daily_lines = _line(_minutes, _hours, st.just("*"), st.just("*"), st.just("*"))

# Lines as people write and mistype them: any case, blanks, leading zeros, names and ranges that may run backwards, H.
_numbers = st.one_of(st.integers(0, 9).map("0{}".format), st.integers(0, 62).map(str))
_values = st.one_of(_numbers, st.sampled_from(MONTHS + WEEKDAYS))
_ranges = st.one_of(_values, st.builds("{}-{}".format, _values, _values), st.just("*"), st.sampled_from(["L", "L5"]))
_elements = st.one_of(
    _ranges, st.builds("{}/{}".format, _ranges, _numbers), st.builds("{}#{}".format, _values, st.integers(0, 6))
)
_loose_fields = st.one_of(
    st.just("*"),
    _numbers,
    st.lists(_elements, min_size=1, max_size=3).map(",".join),
    st.sampled_from(["H", "H/2", "H(1-5)", "H(5-1)", "H(0-7)/3", "H(30-31)"]),
)
_often_any = st.one_of(st.just("*"), st.just("*"), _loose_fields)  # or hardly a line would be right


def _written(fields: tuple[str, ...], blank: str, around: tuple[str, str], *, in_capitals: bool) -> str:
    line = around[0] + blank.join(fields) + around[1]
    return line.upper() if in_capitals else line.lower()


loose_lines = st.builds(
    _written,
    st.one_of(st.tuples(*[_often_any] * 5), st.lists(_often_any, min_size=4, max_size=6).map(tuple)),
    st.text(" \t", min_size=1, max_size=2),
    st.tuples(st.sampled_from(["", " ", "\n", "TZ=UTC "]), st.sampled_from(["", "\t", "\n", "\r"])),
    in_capitals=st.booleans(),
)
