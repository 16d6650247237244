"""Prints the rules of wakeboard/text/mask_rules.py as Go or TypeScript, for the workers of clients/."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Final

from wakeboard.text.mask_rules import MASK_RULES

if TYPE_CHECKING:
    from wakeboard.text.mask_rules import MaskRule

SOURCE: Final = "wakeboard/text/mask_rules.py"

GO: Final = f"""\
// Code generated from {SOURCE} by make fix. DO NOT EDIT.

package worker

import "regexp"

var maskRules = []maskRule{{
%s}}
"""
TYPESCRIPT: Final = f"""\
/** Generated from {SOURCE} by make fix: do not edit. */

import type {{ MaskRule }} from "./redact.js";

export const MASK_RULES: MaskRule[] = [
%s];
"""


def go_rule(rule: MaskRule) -> str:
    """A composite literal."""
    flags = "(?i)" if rule.ignore_case else ""
    conditions = [
        ", ".join(f'"{part}": regexp.MustCompile(`(?i)^(?:{pattern})$`)' for part, pattern in condition.items())
        for condition in rule.unless
    ]
    words = ", ".join(map(json.dumps, rule.words))
    return "".join(
        [
            "\t{\n",
            f"\t\twords:   []string{{{words}}},\n",
            f"\t\tpattern: regexp.MustCompile(`{flags}{rule.pattern}`),\n",
            "\t\tunless: []map[string]*regexp.Regexp{\n" if conditions else "",
            *(f"\t\t\t{{{condition}}},\n" for condition in conditions),
            "\t\t},\n" if conditions else "",
            "\t},\n",
        ]
    )


def typescript_rule(rule: MaskRule) -> str:
    """An object literal."""
    flags = "dgi" if rule.ignore_case else "dg"
    conditions = [
        ", ".join(f"{part}: /^(?:{_escaped(pattern)})$/i" for part, pattern in condition.items())
        for condition in rule.unless
    ]
    return "".join(
        [
            "  {\n",
            f"    words: {json.dumps(rule.words)},\n",
            f"    pattern: /{_escaped(rule.pattern)}/{flags},\n",
            "    unless: [" if not conditions else "    unless: [\n",
            *(f"      {{ {condition} }},\n" for condition in conditions),
            "],\n" if not conditions else "    ],\n",
            "  },\n",
        ]
    )


def _escaped(pattern: str) -> str:
    return pattern.replace("/", r"\/")


def main() -> int:
    """Prints the rules in the language that the first argument names."""
    template, shown = {"go": (GO, go_rule), "typescript": (TYPESCRIPT, typescript_rule)}[sys.argv[1]]
    sys.stdout.write(template % "".join(map(shown, MASK_RULES)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
