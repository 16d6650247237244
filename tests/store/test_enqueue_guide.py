"""docs/enqueue.md does what it says: its Python runs, its tables have the parameters of the code, its links lead on."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import psycopg
import pytest

import wakeboard
from wakeboard import errors

if TYPE_CHECKING:
    from collections.abc import Callable

GUIDE = Path(__file__).parents[2] / "docs" / "enqueue.md"
TEXT = GUIDE.read_text("utf-8")


@pytest.fixture
def guide() -> dict[str, Any]:
    """What the guide's Python has defined, run from its beginning to its end in one module."""
    names: dict[str, Any] = {}
    for block in re.findall(r"^```python\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE):
        exec(compile(block, GUIDE.name, "exec", dont_inherit=True), names)
    return names


def section(title: str) -> str:
    return TEXT.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def table(title: str) -> dict[str, str]:
    """The first two columns of the rows whose first one is a name."""
    rows = re.findall(r"^\| `(\w+)` \|([^|]*)\|", section(title), re.MULTILINE)
    return {name: second.strip().strip("`") for name, second in rows}


def parameters(function: Callable[..., Any]) -> dict[str, str]:
    found = list(inspect.signature(function).parameters.values())[1:]  # without conn
    empty = inspect.Parameter.empty
    return {each.name: "" if each.default is empty else repr(each.default).replace("'", '"') for each in found}


def test_the_tables_have_every_parameter_with_its_default() -> None:
    listed = table("enqueue")
    assert all(listed.pop(name) for name in wakeboard.Enqueued._fields)
    assert listed == parameters(wakeboard.enqueue)
    assert table("enqueue_many") == parameters(wakeboard.enqueue_many)


def test_the_fields_of_jobs_and_answers_are_those_of_the_code() -> None:
    names = [field.name for field in fields(wakeboard.Job)]
    assert f"fields {', '.join(f'`{name}`' for name in names[:-1])} and `{names[-1]}`" in TEXT
    defaults = parameters(wakeboard.enqueue)
    assert {repr(field.default).replace("'", '"') for field in fields(wakeboard.Job)[1:]} <= set(defaults.values())


def test_the_errors_exist_and_have_one_base() -> None:
    names = re.findall(r"^\| `(\w+)` \|", section("Errors"), re.MULTILINE)
    assert len(names) == 7
    assert all(issubclass(getattr(errors, name), wakeboard.WakeboardError) for name in names)


def test_the_links_lead_to_files_and_headings() -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", TEXT):
        path, _, anchor = target.partition("#")
        page = (GUIDE.parent / path if path else GUIDE).read_text("utf-8")
        headings = re.findall(r"^#+ (.+)$", page, re.MULTILINE)
        assert not anchor or anchor in {re.sub(r"[^\w -]", "", each.lower()).replace(" ", "-") for each in headings}


def test_the_run_exists_with_the_order(database: str, guide: dict[str, Any]) -> None:
    with psycopg.connect(database, autocommit=True) as conn:
        conn.execute("create table orders (id integer primary key)")
        assert guide["place_order"](database, 42).created
        with pytest.raises(psycopg.errors.UniqueViolation):
            guide["place_order"](database, 42)
        ids = anyio.run(guide["place_orders"], database, [43, 44])
        assert conn.execute("select array_agg(id order by id) from wakeboard.job_runs").fetchone() == ([1, *ids],)


def test_equal_requests_are_one_run(database: str, guide: dict[str, Any]) -> None:
    with psycopg.connect(database, autocommit=True) as conn:
        assert [guide["sync_soon"](conn, customer) for customer in (7, 7, 8)] == [True, False, True]
        assert [guide["send_campaign"](conn, 1, to) for to in ([1, 2], [2, 3, 3], [])] == [2, 1, 0]


def test_an_error_in_a_savepoint_leaves_the_rest_of_the_transaction(database: str, guide: dict[str, Any]) -> None:
    with psycopg.connect(database) as conn:
        answers = [guide["charge"](conn, 1, cents) for cents in (100, 100, 200)]
        assert answers == ["will be charged", "an earlier call: queued", "was charged with another amount"]
        assert conn.execute("select count(*) from wakeboard.job_runs").fetchone() == (1,)


def test_enqueueing_works_in_pipeline_mode(database: str) -> None:
    with psycopg.connect(database) as conn, conn.pipeline():
        first = wakeboard.enqueue(conn, "ping")
        (second,) = wakeboard.enqueue_many(conn, [wakeboard.Job("ping", after=[first])])
        assert (first.created, second.created) == (True, True)
