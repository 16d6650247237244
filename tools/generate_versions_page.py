"""Prints docs/versions.md: its hand-written part, then each public Python name with its parameters."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import wakeboard
from wakeboard import testing

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "versions.md"
_PLAIN: Final = (str, int, float, type(None))
_COMPUTED: Final = "computed"
MARK: Final = "<!-- tools/generate_versions_page.py writes the rest. -->\n"


def names() -> Iterator[str]:
    """A line for each public name, and for each public attribute of a class."""
    for name in sorted(wakeboard.__all__):
        if not name.startswith("_"):
            yield from _lines(f"wakeboard.{name}", getattr(wakeboard, name))
    for name, value in sorted(vars(testing).items()):
        if not name.startswith("_") and getattr(value, "__module__", "") == testing.__name__:
            yield from _lines(f"wakeboard.testing.{name}", value)


def _lines(path: str, value: Any) -> Iterator[str]:
    parameters = _parameters(value)
    yield path + ("" if parameters is None else _in_words(parameters))
    if inspect.isclass(value):
        inherited = {name for each in value.__mro__ if each.__module__ == "builtins" for name in dir(each)}
        hidden = inherited | {each.name for each in parameters or ()}
        for name in sorted(_attributes(value) - hidden):
            found = _parameters(getattr(value, name, None))
            yield f"{path}.{name}" + ("" if found is None else _in_words(found))


def _attributes(value: type) -> set[str]:
    """The public attributes and fields of a class and of what it extends."""
    names = {name for each in value.__mro__ for name in {**vars(each), **vars(each).get("__annotations__", {})}}
    return {name for name in names if not name.startswith("_")}


def _parameters(value: Any) -> list[inspect.Parameter] | None:
    """What a function, a method or a class is called with; None for another value."""
    value = inspect.unwrap(getattr(value, "__func__", value))
    if not (inspect.isfunction(value) or inspect.isclass(value)):
        return None
    try:
        found = inspect.signature(value).parameters.values()
    except ValueError:  # a class of the standard library's
        return None
    return [each for each in found if each.name not in {"self", "cls"}]


def _in_words(parameters: list[inspect.Parameter]) -> str:
    """The parameters without their types. A default that is no plain value has no stable text."""
    bare = [each.replace(annotation=inspect.Parameter.empty) for each in parameters]
    shown = [
        each if each.default is each.empty or isinstance(each.default, _PLAIN) else each.replace(default=_COMPUTED)
        for each in bare
    ]
    return str(inspect.Signature(shown)).replace(repr(_COMPUTED), "...")


def page() -> str:
    """The text of the page."""
    head, mark, _ = PAGE.read_text("utf-8").partition(MARK)
    return "\n".join([f"{head}{mark}", "```text", *names(), "```", ""])


if __name__ == "__main__":
    sys.stdout.write(page())
