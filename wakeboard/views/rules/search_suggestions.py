"""Completes the word of a search for runs that a user is typing: qualifiers, and the values that are known of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from wakeboard.views.rules.run_search import QUALIFIERS, STATUSES, TRIGGERS, quoted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MOST_SUGGESTIONS: Final = 12


def suggestions(word: str, known: Mapping[str, Sequence[str]]) -> list[str]:
    """How the word that a user is typing may go on, each a whole word. `known`: the values of qualifiers."""
    sign = "-" if word.startswith("-") else ""
    body = word.removeprefix("-")
    name, colon, rest = body.partition(":")
    if not colon:
        names = [f"{qualifier}:" for qualifier in QUALIFIERS if qualifier != "payload"]
        names += ["payload."] if not body.startswith("payload.") else []
        names += [f"payload.{quoted(key)}:" for key in known.get("payload", ()) if body.startswith("payload.")]
        return [sign + name for name in names if name.startswith(body.lower())][:MOST_SUGGESTIONS]
    choices = {"status": STATUSES, "trigger": TRIGGERS, "since": ("15m", "1h", "24h", "7d")}.get(name) or known.get(
        name, ()
    )
    given, comma, typed = rest.rpartition(",")
    typed = typed.strip('"').lower()
    starting = [choice for choice in choices if choice.lower().startswith(typed)]
    inside = [choice for choice in choices if typed in choice.lower() and choice not in starting]
    before = f"{sign}{name}:{given}{comma}"
    return [
        before + (choice if name == "schedule" and choice.endswith("/*") else quoted(choice))
        for choice in [*starting, *inside]
    ][:MOST_SUGGESTIONS]
