"""The page of figures: each command writes its own section."""

from __future__ import annotations

from bench.page import HEADING, section_of, with_section


def test_a_section_is_found_again() -> None:
    page = with_section("", "make bench", "## Figures\n\n1, 2, 3\n")

    assert page.startswith(HEADING)
    assert section_of(page, "make bench") == "## Figures\n\n1, 2, 3"
    assert section_of(page, "make bench-competitors") == ""


def test_a_command_leaves_the_other_section_alone() -> None:
    page = with_section("", "make bench-competitors", "theirs")
    page = with_section(page, "make bench", "ours")
    page = with_section(page, "make bench", "ours, again")

    assert section_of(page, "make bench-competitors") == "theirs"
    assert section_of(page, "make bench") == "ours, again"


def test_writing_the_same_twice_is_writing_it_once() -> None:
    page = with_section(with_section("", "make bench", "ours"), "make bench-competitors", "theirs")

    assert with_section(page, "make bench", "ours") == page


def test_the_sections_have_one_order_whichever_was_written_first() -> None:
    one = with_section(with_section("", "make bench", "ours"), "make bench-competitors", "theirs")
    other = with_section(with_section("", "make bench-competitors", "theirs"), "make bench", "ours")

    assert one == other
