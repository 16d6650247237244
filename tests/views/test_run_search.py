"""What a search for runs means, and what it answers to words without a meaning."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakeboard.views.rules.run_search import LONGEST_SEARCH, MOST_TERMS, RunSearch, Value, parse_run_search, quoted
from wakeboard.views.rules.search_suggestions import suggestions


def terms(text: str):
    search = parse_run_search(text)
    assert search.problem == ""
    return [
        (("-" if term.negated else "") + ".".join([term.qualifier, *term.path]), [value.text for value in term.values])
        for term in search.terms
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("   ", []),
        ("status:dead", [("status", ["dead"])]),
        ("STATUS:Dead", [("status", ["dead"])]),
        ("status:dead,failed", [("status", ["dead", "failed"])]),
        ("type:send_* queue:mail", [("type", ["send_*"]), ("queue", ["mail"])]),
        ("schedule:billing/*", [("schedule", ["billing/*"])]),
        ("limit:openai trigger:tick,replay", [("limit", ["openai"]), ("trigger", ["tick", "replay"])]),
        ("generation:3 id:42,43", [("generation", ["3"]), ("id", ["42", "43"])]),
        ("payload.customer:42", [("payload.customer", ["42"])]),
        ("payload.customer.id:42,43", [("payload.customer.id", ["42", "43"])]),
        ('payload."a key: odd".x:1', [("payload.a key: odd.x", ["1"])]),
        ('error:"no answer, sorry"', [("error", ["no answer, sorry"])]),
        (r'error:"say \"no\""', [("error", ['say "no"'])]),
        ('error:"never closed', [("error", ["never closed"])]),
        ('payload.name:""', [("payload.name", [""])]),
        ("-type:send_mail", [("-type", ["send_mail"])]),
        ("NOT type:send_mail mail", [("-type", ["send_mail"]), ("", ["mail"])]),
        ("not", [("", ["not"])]),
        ('mail "two words" -draft', [("", ["mail"]), ("", ["two words"]), ("-", ["draft"])]),
        ("0192f0c1-2a6b", [("", ["0192f0c1-2a6b"])]),
        ("uuid:0192F0", [("uuid", ["0192F0"])]),
        ("type:a type:b*", [("type", ["a"]), ("type", ["b*"])]),
        ('"http://x"', [("", ["http://x"])]),
        ("\tstatus:dead\n mail ", [("status", ["dead"]), ("", ["mail"])]),
    ],
)
def test_a_search_is_a_list_of_terms(text: str, expected: list[tuple[str, list[str]]]):
    assert terms(text) == expected


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("colour:red", 'there is no qualifier "colour"; write one of status, type, schedule, '),
        ("stats:dead", 'there is no qualifier "stats"; write status:, or "stats:dead" for the text.'),
        ("status:ded", '"ded" is not a status; write status:dead.'),
        ("status:zzz", '"zzz" is not a status; write queued, running, failed, dead, '),
        ("status:dead status:failed", "status: is given twice; write status:dead,failed for runs with either status."),
        ("status:", "status: has no value; write for example status:dead,failed."),
        ("type:,", "type: has no value; write for example type:send_*."),
        ("since:", "since: has no value; write for example since:2h."),
        ("since:soon", '"soon" is no time; write since:2h (ago), since:7d or since:2026-11-21T12:00 (UTC).'),
        ("since:99999w", '"99999w" is no time; write '),
        ("since:0001-01-01", "since: takes times from the year 1970 to 3000."),
        ("-since:2h", "since: cannot be turned around; write until: instead."),
        ("id:x", '"x" is not a number from 1 on; write for example id:42.'),
        ("id:0", '"0" is not a number from 1 on; write for example id:42.'),
        ("id:9223372036854775808", '"9223372036854775808" is not a number from 1 on; write for example id:42.'),
        ("id:٤٢", '"٤٢" is not a number from 1 on; write for example id:42.'),
        ("attempts:many", '"many" is no number or range; write attempts:2, attempts:>2, attempts:2..4 or attempts:3..'),
        ("priority:..", '".." is no number or range; write priority:2, '),
        ("generation:=3", '"=3" is no number or range; write generation:2, '),
        ("trigger:cron", '"cron" is not a trigger; write tick, manual, replay, backfill, application.'),
        ("uuid:xyz", '"xyz" is not the beginning of a uuid; write for example uuid:0192f0c1.'),
        ("payload:42", "payload: needs the key of a value; write for example payload.customer:42."),
        ("payload.smtp.password:h*", "Values of password are masked and cannot be searched; search another key."),
        ("payload.apiKeys.0:h*", "Values of apiKeys are masked and cannot be searched; search another key."),
        ("type.name:x", "type has no parts; write type: instead of type.name:."),
        ("AND status:dead", "A run must fit all words, also without AND; write type:send_mail status:dead."),
        ("OR status:dead", "Write values with a comma for or, such as status:dead,failed;"),
        ("NOT", "NOT stands at the end; write a term after it, for example NOT type:send_mail."),
        ("type:" + "x" * 201, "A value of type: is longer than 200 characters; write a part of it."),
        ("id:" + ",".join("1" * 51), "id: has more than 50 values; write a pattern such as send_*."),
        ("mail\0", "A search cannot contain the character NUL; leave it out."),
    ],
)
def test_a_word_that_means_nothing_is_left_out_with_a_sentence(text: str, problem: str):
    search = parse_run_search(f"{text} " if text.endswith("NOT") else f"queue:mail {text}")

    assert search.problem.startswith(problem)
    assert search.problem.endswith(".")
    assert "\n" not in search.problem
    assert all(term.text in {"queue:mail", "status:dead"} for term in search.terms)


@pytest.mark.parametrize(("text", "hinted"), [('"open', True), ('error:"no \\" end', True), ('error:"a \\" b"', False)])
def test_a_quote_that_is_not_closed_has_a_hint(text: str, hinted: bool):
    assert bool(parse_run_search(text).hint) == hinted


def test_a_search_is_bounded_in_length_and_terms():
    assert parse_run_search("x" * (LONGEST_SEARCH + 1)) == RunSearch(
        problem="The search is longer than 1,000 characters; write a shorter one."
    )
    many = parse_run_search("x " * (MOST_TERMS + 1))
    assert len(many.terms) == MOST_TERMS
    assert many.problem.startswith("A search has at most 20 terms")


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("since:90s", timedelta(seconds=90)),
        ("since:15m", timedelta(minutes=15)),
        ("until:15min", timedelta(minutes=15)),
        ("since:2h", timedelta(hours=2)),
        ("since:7d", timedelta(days=7)),
        ("since:2w", timedelta(weeks=2)),
        ("since:2026-11-21", datetime(2026, 11, 21, tzinfo=UTC)),
        ("since:2026-11-21T12:30", datetime(2026, 11, 21, 12, 30, tzinfo=UTC)),
        ('since:"2026-11-21 12:30"', datetime(2026, 11, 21, 12, 30, tzinfo=UTC)),
        ("until:2026-11-21T12:30+02:00", datetime(2026, 11, 21, 10, 30, tzinfo=UTC)),
    ],
)
def test_a_time_is_absolute_or_so_long_ago(text: str, moment: datetime | timedelta):
    assert [term.moment for term in parse_run_search(text).terms] == [moment]


@pytest.mark.parametrize(
    ("text", "statuses"),
    [
        ("mail", 8),
        ("status:dead,queued", ("queued", "dead")),
        ("-status:succeeded,skipped,cancelled,discarded", ("queued", "running", "failed", "dead")),
    ],
)
def test_statuses_are_those_that_fit(text: str, statuses: tuple[str, ...] | int):
    found = parse_run_search(text).statuses
    assert (len(found) if isinstance(statuses, int) else found) == statuses


def test_a_tab_changes_only_the_status():
    search = parse_run_search('type:send_* status:dead "two words" -queue:a')

    assert search.with_status("failed") == 'status:failed type:send_* "two words" -queue:a'
    assert search.with_status("") == 'type:send_* "two words" -queue:a'


def test_a_star_in_quotes_is_a_star():
    assert parse_run_search('error:"a*b"').terms[0].values == (Value("a*b"),)
    assert parse_run_search("error:a*b").terms[0].values == (Value("a*b", wild=True),)


@given(st.text(max_size=LONGEST_SEARCH + 10))
def test_no_text_breaks_the_parser_and_its_terms_parse_to_themselves(text: str):
    search = parse_run_search(text)
    again = parse_run_search(search.text)

    assert again.terms == search.terms
    assert not again.problem


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=100))
def test_a_quoted_value_means_exactly_its_text(text: str):
    assert parse_run_search(f"error:{quoted(text)}").terms[0].values == (Value(text),)


KNOWN = {
    "type": ["send_mail", "resend", "import"],
    "queue": ["default"],
    "schedule": ["billing/close", "billing/*"],
    "payload": ["customer", "customer id"],
}


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("s", ["status:", "schedule:", "since:"]),
        ("-ty", ["-type:"]),
        ("p", ["priority:", "payload."]),
        ("payload.", ["payload.customer:", 'payload."customer id":']),
        ("status:s", ["status:succeeded", "status:skipped", "status:discarded"]),
        ("status:dead,f", ["status:dead,failed"]),
        ("type:send", ["type:send_mail", "type:resend"]),
        ("-type:imp", ["-type:import"]),
        ("schedule:billing/", ["schedule:billing/close", "schedule:billing/*"]),
        ("trigger:m", ["trigger:manual"]),
        ("nothing", []),
        ("colour:x", []),
    ],
)  # fmt: skip
def test_suggestions_go_on_with_the_word(word: str, expected: list[str]):
    assert suggestions(word, KNOWN) == expected
