"""Handlers whose payloads have types."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import assert_type

from pydantic import BaseModel, Field
from typing_extensions import TypedDict

import wakeboard


class SendReport(BaseModel):
    customer: int
    week: date
    pages: list[int] = Field(default=[], alias="pageNumbers")


@dataclass
class Charge:
    cents: int
    due: date


class Sync(TypedDict):
    customer: int


@wakeboard.handler("typed/model")
async def send_report(run: wakeboard.Run[SendReport]) -> list[object]:
    assert_type(run.payload, SendReport)
    return [run.payload.customer, run.payload.week.year, run.payload.pages]


@wakeboard.handler("typed/dataclass")
def charge(run: wakeboard.Run[Charge]) -> list[int]:
    assert_type(run.payload, Charge)
    return [run.payload.cents, run.payload.due.year]


@wakeboard.handler("typed/dict")
async def sync(run: wakeboard.Run[Sync]) -> int:
    assert_type(run.payload, Sync)
    return run.payload["customer"]
