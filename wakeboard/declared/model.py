"""The base of what users declare in YAML: its models refuse what a user did not mean to write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from pydantic import BaseModel, ConfigDict, model_validator
from pydantic.alias_generators import to_camel


class Declared(BaseModel):
    """A part of a document: camelCase, strict types, no unknown fields, null means absent."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, alias_generator=to_camel)

    @model_validator(mode="before")
    @classmethod
    def _null_is_absent(cls, written: object) -> object:
        if not isinstance(written, Mapping):
            return written
        return {key: value for key, value in cast("Mapping[str, object]", written).items() if value is not None}
