"""For each two moves that touch one run: made at once they come to what they come to in turn, or one passes by."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.store.interleaving import MOVES, NEVER_WAIT, PASS_BY, SETUP, Scene, side_by_side

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import ThreadPoolExecutor

    from tests.store.sql_clients import SqlClient

pytestmark = pytest.mark.every_postgres


@pytest.fixture
def scene(player: Callable[[int], SqlClient], meanwhile: ThreadPoolExecutor) -> Scene:
    return Scene(player, meanwhile)


def touched(scene: Scene, move: str) -> list[str]:
    """The statuses in which the move does something to the run."""
    return [
        status
        for status in SETUP
        if scene.in_turn(status, move).after != scene.in_turn(status).after or (move == "renew" and "running" in status)
    ]


@pytest.mark.parametrize("move", MOVES)
def test_a_move_in_an_open_transaction_and_any_other_end_as_if_made_in_turn(scene: Scene, move: str) -> None:
    statuses = touched(scene, move)
    assert statuses
    for status in statuses:
        for other in MOVES:
            story = f"a run that is {status}: {move}, and meanwhile {other}"
            made = scene.at_once(status, move, other, commit=True)
            then, before, alone = (
                scene.in_turn(status, move, other),
                scene.in_turn(status, other, move),
                scene.in_turn(status, move),
            )
            assert not (made.waited and other in NEVER_WAIT), story
            assert made.first == alone.first, story
            if made.waited:
                assert (made.second, made.after) == (then.second, then.after), story
            else:
                assert made.after in {then.after, before.after, alone.after}, story
            if not side_by_side(move, other) and made.after != alone.after:
                assert made.waited, f"{story}: it did not wait, and did something"


@pytest.mark.parametrize("move", MOVES)
def test_a_move_that_is_rolled_back_leaves_the_other_as_if_it_had_been_alone(scene: Scene, move: str) -> None:
    for status in touched(scene, move):
        for other in MOVES:
            story = f"a run that is {status}: {move}, rolled back, and meanwhile {other}"
            made = scene.at_once(status, move, other, commit=False)
            alone, untouched = scene.in_turn(status, other), scene.in_turn(status)
            assert not (made.waited and other in NEVER_WAIT), story
            if other in PASS_BY and not made.waited:
                assert made.after in {alone.after, untouched.after}, story
            else:
                assert (made.second, made.after) == (alone.first, alone.after), story
