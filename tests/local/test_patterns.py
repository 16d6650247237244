"""Each pattern of examples/patterns runs as it is, with fewer items, while its workers are killed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.local.up_process import ROOT

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="`wakeboard up` is tested on Linux")

PATTERNS = ROOT / "examples" / "patterns"
SETTINGS = {
    "ai-generation": {"AI_ARTICLES": "4", "AI_TOKENS_PER_MINUTE": "60000"},
    "email-batch": {"EMAIL_RECIPIENTS": "120"},
    "nightly-pipeline": {"PIPELINE_DAYS": "6"},
    "social-post": {"SOCIAL_POSTS": "40"},
    "stripe-webhook": {"STRIPE_SUBSCRIPTIONS": "30", "WEBHOOK_ANSWER_MS": "250"},
}
MAX_HANDLER_LINES = 120
TIMEOUT_S = 100


@pytest.mark.parametrize("name", sorted(SETTINGS))
def test_no_effect_is_lost_or_doubled_while_workers_are_killed(name: str, database: str) -> None:
    command = [sys.executable, str(PATTERNS / "check.py"), name, "--dsn", database]
    command += ["--kills", "1", "--timeout", str(TIMEOUT_S)]
    found = subprocess.run(command, env={**os.environ, **SETTINGS[name]}, check=False, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout + found.stderr


def test_every_pattern_is_tested_and_has_a_page() -> None:
    names = {path.parent.name for path in PATTERNS.glob("*/handlers.py")}
    assert names == set(SETTINGS) == {path.stem for path in (ROOT / "docs" / "patterns").glob("*-*.md")}


@pytest.mark.parametrize("name", sorted(SETTINGS))
def test_the_handlers_of_a_pattern_are_short(name: str) -> None:
    assert len(Path(PATTERNS, name, "handlers.py").read_text("utf-8").splitlines()) <= MAX_HANDLER_LINES
