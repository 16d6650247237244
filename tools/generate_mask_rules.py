"""Prints the rules of text/mask_rules.py and the words of text/secret_keys.py as Go or TypeScript, for clients/."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Final

from wakeboard.text.mask_rules import MASK_RULES
from wakeboard.text.secret_keys import SECRET_ENDINGS, SECRET_PARTS, SECRET_WORDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wakeboard.text.mask_rules import MaskRule

SOURCE: Final = "wakeboard/text/mask_rules.py and secret_keys.py"
WORDS: Final = {
    "secretWords": sorted(SECRET_WORDS),
    "secretParts": sorted(SECRET_PARTS),
    "secretEndings": sorted(SECRET_ENDINGS),
}  # of keys

GO: Final = f"""\
// Code generated from {SOURCE} by make fix. DO NOT EDIT.

package worker

import "regexp"

var maskRules = []maskRule{{
%s}}

// The words, parts and endings of keys whose values are secret.
var (
%s)
"""
TYPESCRIPT: Final = f"""\
/** Generated from {SOURCE} by make fix: do not edit. */

import type {{ MaskRule }} from "./redact.js";

export const MASK_RULES: MaskRule[] = [
%s];

/** The words, parts and endings of keys whose values are secret. */
%s"""


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


def go_words(name: str, words: Sequence[str]) -> str:
    """A variable of a block, which gofmt aligns."""
    return f"\t{name:<{max(map(len, WORDS))}} = []string{{{', '.join(map(json.dumps, words))}}}\n"


def typescript_words(name: str, words: Sequence[str]) -> str:
    """A constant."""
    return f"export const {name} = {json.dumps(words)};\n"


def _escaped(pattern: str) -> str:
    return pattern.replace("/", r"\/")


def main() -> int:
    """Prints the rules in the language that the first argument names."""
    template, shown, shown_words = {
        "go": (GO, go_rule, go_words),
        "typescript": (TYPESCRIPT, typescript_rule, typescript_words),
    }[sys.argv[1]]
    words = "".join(shown_words(name, listed) for name, listed in WORDS.items())
    sys.stdout.write(template % ("".join(map(shown, MASK_RULES)), words))
    return 0


if __name__ == "__main__":
    sys.exit(main())
