"""Reads the payload argument of enqueue, replay and run-now: JSON, a file or standard input."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from wakeboard.errors import InvalidValue
from wakeboard.rules.canonical_json import check_payload

PAYLOAD_EXAMPLE = """write for example '{"segment": "active"}'"""


def read_payload(text: str) -> Any:
    """The payload of JSON, of `@FILE`, or of `-` for standard input. Raises InvalidValue with a valid example."""
    if text == "-":
        return parse_payload(sys.stdin.buffer.read())
    if text.startswith("@"):
        return parse_payload(_content(text[1:]))
    return parse_payload(text)


def _content(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except (OSError, ValueError) as exc:
        problem = getattr(exc, "strerror", None) or str(exc)
        raise InvalidValue(f"the payload's file {path!r} cannot be read: {problem}.") from None


def parse_payload(text: str | bytes) -> Any:
    """Parses the payload. Raises InvalidValue with a valid example."""
    try:
        text = text.decode() if isinstance(text, bytes) else text
        payload = json.loads(text)
    except UnicodeDecodeError:
        raise InvalidValue(f"the payload is not UTF-8; {PAYLOAD_EXAMPLE}.") from None
    except json.JSONDecodeError as exc:
        problem = f"{exc.msg.removesuffix(' at')} at line {exc.lineno}, column {exc.colno}"
        raise InvalidValue(f"the payload is not JSON ({problem}); {PAYLOAD_EXAMPLE}.") from None
    except RecursionError:
        raise InvalidValue(f"the payload is nested too deeply; {PAYLOAD_EXAMPLE}.") from None
    except ValueError:  # Python parses no integer of more than 4,300 digits
        raise InvalidValue(f"the payload has a number with too many digits; quote it; {PAYLOAD_EXAMPLE}.") from None
    check_payload(payload)
    return payload  # pyright: ignore[reportUnknownVariableType]
