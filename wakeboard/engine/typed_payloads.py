"""Payloads with a type: `wakeboard.Run[SendReport]`, where SendReport is a pydantic model, a dataclass or a TypedDict.

The payload of a run is JSON. `plain_payload` makes it of an instance, and `with_validation` makes an instance of it
before the handler is called. pydantic does both; it is imported only for payloads with a type.
"""

from __future__ import annotations

import inspect
from dataclasses import is_dataclass
from functools import lru_cache, wraps
from typing import TYPE_CHECKING, Any, Final, get_args, get_origin

from wakeboard.engine.run import Run
from wakeboard.errors import BrokenHandlers, InvalidPayload, InvalidValue

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic import TypeAdapter, ValidationError

_JSON: Final = frozenset({dict, list, tuple, str, int, type(None)})  # almost all payloads
_MOST_PROBLEMS: Final = 5  # in one message


def plain_payload(payload: Any) -> Any:
    """The JSON values of an instance of a pydantic model or a dataclass; anything else as it is.

    Raises InvalidValue if a field holds a value of another type.
    """
    given: object = payload
    kind, name = type(given), type(given).__name__
    if kind in _JSON or not (is_dataclass(kind) or hasattr(kind, "__pydantic_serializer__")):
        return payload
    try:
        return _adapter(kind).dump_python(payload, mode="json", by_alias=True, round_trip=True, warnings="error")
    except ValueError as exc:  # PydanticSerializationError
        raise InvalidValue(f"payload is no valid {name}: {' '.join(str(exc).split())}") from None


def with_validation(function: Callable[[Any], Any], name: str, *, is_async: bool) -> Callable[[Any], Any]:
    """The function of a handler with a check of the payload before it, if its parameter is annotated `Run[…]`.

    Raises BrokenHandlers, with the `name`, for a type that cannot be found, or of which pydantic makes no instances.
    """
    wanted = _payload_type(function, name)
    if wanted is None:
        return function
    try:
        adapter = _adapter(wanted)
    except Exception as exc:
        reason = str(exc).split("\n", maxsplit=1)[0]
        raise BrokenHandlers(f"{name} has a payload type that pydantic refuses: {reason}") from exc

    @wraps(function)
    async def checked_async(run: Run) -> Any:
        _parse(run, adapter)
        return await function(run)

    @wraps(function)
    def checked(run: Run) -> Any:
        _parse(run, adapter)
        return function(run)

    return checked_async if is_async else checked


def _parse(run: Run, adapter: TypeAdapter[Any]) -> None:
    """Replace the payload by the instance that pydantic makes of it. Raises InvalidPayload."""
    from pydantic import ValidationError

    try:
        run.parse_payload(adapter.validate_json)
    except ValidationError as exc:
        raise InvalidPayload(_problems(exc)) from None  # its text contains values of the payload


def _problems(exc: ValidationError) -> str:
    found = exc.errors(include_url=False, include_context=False, include_input=False)
    lines = [f"{_path(each['loc'])}: {each['msg']}" for each in found[:_MOST_PROBLEMS]]
    more = [f"and {len(found) - _MOST_PROBLEMS} more"] if len(found) > _MOST_PROBLEMS else []
    return f"the payload is no {exc.title}: {'; '.join(lines + more)}"


def _path(parts: tuple[int | str, ...]) -> str:
    return "payload" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)


@lru_cache(maxsize=512)
def _adapter(kind: Any) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def _payload_type(function: Callable[[Any], Any], name: str) -> Any:
    """The type in the annotation `Run[…]` of the handler's parameter. None: it has none."""
    annotation = _annotation(function)
    if isinstance(annotation, str):
        try:
            annotation = eval(annotation, _globals_of(function))  # noqa: S307 - of the handler's own source
        except Exception as exc:
            if "[" not in annotation:
                return None  # `Run` may be imported for type checkers only
            raise BrokenHandlers(
                f"{name} has a parameter of the type {annotation}, which cannot be found: {exc}."
                " Define and import its names in the module of the handler, not under `if TYPE_CHECKING`."
            ) from exc
    if get_origin(annotation) is not Run:
        return None
    (wanted,) = get_args(annotation)
    return None if wanted is Any else wanted


def _annotation(function: Callable[[Any], Any]) -> Any:
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (NameError, TypeError, ValueError):  # of a builtin
        return None
    return parameters[0].annotation if parameters else None


def _globals_of(function: Any) -> dict[str, Any]:
    function = inspect.unwrap(getattr(function, "func", function))
    found = function if hasattr(function, "__globals__") else type(function).__call__
    return getattr(found, "__globals__", {})
