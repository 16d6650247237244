"""The rules by which texts are masked are read alike by the engines of all workers."""

from __future__ import annotations

import re

import pytest

from wakeboard.text.mask_rules import MASK_RULES

PATTERNS = {
    pattern
    for rule in MASK_RULES
    for pattern in [rule.pattern, *(each for condition in rule.unless for each in condition.values())]
}
ESCAPE = re.compile(r"\\(x[0-9a-f]{2}|[\W_bnrsSwt])")
CLASS = re.compile(r"\[[^\]]*\]")
NOT_COMMON = re.compile(r"\\|\(\?[^:]|[.^$`]|[*+?}]\+|\{\d{4,}|,\d{4,}\}")


@pytest.mark.parametrize("pattern", sorted(PATTERNS))
def test_patterns_use_only_what_all_engines_have(pattern: str) -> None:
    assert "`" not in pattern
    assert not NOT_COMMON.search(CLASS.sub("c", ESCAPE.sub("e", pattern))), pattern


@pytest.mark.parametrize(
    "pattern", ["a(?=b)", "(?i)a", "a*+", "a{1,1024}", "a.b", "^a", r"a\Z", r"\d(a)\1", "(?P<a>b)"]
)
def test_other_patterns_are_found(pattern: str) -> None:
    assert NOT_COMMON.search(CLASS.sub("c", ESCAPE.sub("e", pattern)))
