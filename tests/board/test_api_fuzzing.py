"""No request makes an endpoint of the API fail, or answer what its OpenAPI document does not say."""

from __future__ import annotations

import asyncio
import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as some

from tests.board.action_store import Store
from tests.board.asgi import Client
from tests.board.test_api import BEARER, misfits, prepared_parts
from wakeboard.board.api.openapi import document
from wakeboard.board.api.registry import ENDPOINTS
from wakeboard.board.problem_details import API, MEDIA_TYPE

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    from wakeboard.board.api.endpoints import Endpoint, Parameter

EXAMPLES = 10  # of each endpoint
REFUSED = {400, 403, 404, 405, 409, 413, 414, 415, 422}  # 405: /schedules/shop/pause is a schedule's name, too
DESCRIBED = document(ENDPOINTS, "")
WORDS = some.sampled_from(
    [
        *(
            "all",
            "queue:x",
            "status:dead,failed",
            "-status:dead",
            "payload.a:1",
            "since:2h",
            "until:2026-01-01",
            "id:1",
        ),
        *("uuid:0", "error:%", "worker:_*", "1", "-1", "1.5", "1e400", "9999999999999999999", "5.3", "60/minute"),
        *("2026-02-30", "2026-03-29T01:30", "shop/daily", "../x", "dead", "24", "[1]", "null"),
    ]
)
TEXTS = (
    WORDS | some.text(max_size=12) | some.sampled_from(["", " ", '"', "\\", "'", "\0", "\ud800", "\u202e", "x" * 900])
)
NUMBERS = some.integers() | some.sampled_from([0, 1, 2**31, 2**53 - 1, 2**53, 2**63 - 1, 2**63])
SCALARS = some.none() | some.booleans() | NUMBERS | some.floats(allow_nan=False) | TEXTS
JSON = some.recursive(
    SCALARS, lambda inner: some.lists(inner, max_size=3) | some.dictionaries(TEXTS, inner, max_size=3)
)


class Sent(NamedTuple):
    """What is sent to an endpoint. `part`: the number or the text in its path."""

    part: Any
    members: dict[str, Any]


def values(parameter: Parameter) -> SearchStrategy[Any]:
    """Values that the document allows."""
    match parameter.schema():
        case {"enum": names}:
            return some.sampled_from(names)
        case {"type": "integer", "minimum": least, "maximum": most}:
            return some.integers(least, most) | some.sampled_from([least, most])
        case {"type": "boolean"}:
            return some.booleans()
        case {"type": "string"}:
            return TEXTS
        case _:
            return JSON


def requests(endpoint: Endpoint, part: int) -> SearchStrategy[Sent]:
    """Most requests are what the document allows, and the others have a wrong value, a missing or an unknown name."""
    required = {each.name: values(each) for each in endpoint.parameters if each.required}
    optional = {each.name: values(each) for each in endpoint.parameters if not each.required}
    right = some.fixed_dictionaries(required, optional=optional)
    wild = some.dictionaries(some.sampled_from([*required, *optional, "unknown"]), JSON, max_size=3)
    parts = some.just(part) | NUMBERS | TEXTS.map(lambda text: re.sub(r"[^a-z0-9.]", "", text) or "1")
    altered = some.tuples(right, wild).map(lambda both: {**both[0], **both[1]})
    return some.builds(Sent, some.just(part) | parts, right | right | wild | altered)


def test_each_request_is_answered_as_the_openapi_document_says(database: str):
    store = Store(database)
    parts = prepared_parts(store)
    with asyncio.Runner() as runner:
        client = Client(database)
        for endpoint in ENDPOINTS:
            _check(endpoint, parts.get(endpoint.path.split("/")[1], 1), client, runner)
        runner.run(client.close())
    store.conn.close()


def _check(endpoint: Endpoint, part: int, client: Client, runner: asyncio.Runner) -> None:
    responses = DESCRIBED["paths"][endpoint.shown_path][endpoint.method.lower()]["responses"]["200"]["content"]

    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
    )
    @given(requests(endpoint, part))
    def check(sent: Sent) -> None:
        path = API + re.sub(r"\{\w+:\w+\}", str(sent.part), endpoint.path)
        if endpoint.method == "GET":
            query = {name: str(value).encode("utf-8", "replace") for name, value in sent.members.items()}
            answer = runner.run(client.send("GET", f"{path}?{urlencode(query)}"))
        else:
            answer = runner.run(client.send("POST", path, json.dumps(sent.members).encode(), BEARER))
        shown = (endpoint.path, sent, answer)
        kind = answer.header("content-type").partition(";")[0]
        if answer.status == 200:
            assert kind in responses, shown
            if kind == "application/json":
                schema = responses[kind]["schema"]
                assert not list(misfits(json.loads(answer.text), schema, DESCRIBED["components"]["schemas"])), shown
        else:
            assert (answer.status in REFUSED, kind) == (True, MEDIA_TYPE), shown
            problem = json.loads(answer.text)
            assert (problem["status"], bool(problem["detail"])) == (answer.status, True), shown

    check()
