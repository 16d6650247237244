"""The example of docs/plan.md prints what the page shows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.cli.conftest import Cli
    from tests.plan.conftest import Repository

GUIDE = Path(__file__).parents[2] / "docs" / "plan.md"


def test_the_example_of_the_guide_prints_what_it_shows(bare_cli: Cli, repository: Repository):
    text = GUIDE.read_text("utf-8")
    before, after, *_ = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    shown = re.search(r"```console\n\$ wakeboard (.*?)\n(.*?)```", text, re.DOTALL)
    assert shown is not None
    file = repository.folder / "schedules" / "shop.yaml"
    file.parent.mkdir()
    file.write_text(before)
    repository.commit()
    file.write_text(after)

    assert bare_cli(*shown[1].split()).out == shown[2]
