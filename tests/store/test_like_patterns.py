"""Values of a search become patterns of LIKE in which only `*` stands for any text."""

from __future__ import annotations

import pytest

from wakeboard.views.queries.run_conditions import contains_pattern, like_pattern
from wakeboard.views.rules.run_search import Value


@pytest.mark.parametrize(
    ("value", "like"),
    [
        (Value("send_mail"), r"send\_mail"),
        (Value("send_*", wild=True), r"send\_%"),
        (Value("100%"), r"100\%"),
        (Value("a*b"), "a*b"),
        (Value("a\\b"), r"a\\b"),
    ],
)
def test_only_the_star_stands_for_any_text(value: Value, like: str):
    assert like_pattern(value) == like
    assert contains_pattern(value) == f"%{like}%"
