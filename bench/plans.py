"""Measures `wakeboard plan`: two folders of many schedules, of which every file differs, or none."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.processes import MeasuredProcess
from bench.tables import Table, at_most, spread

if TYPE_CHECKING:
    from bench.database import BenchmarkServer
    from bench.plan import Plan
    from bench.processes import Cost

FILES: Final = 100
WITHIN_S: Final = 600.0
MOST_S: Final = 3.0
CASES: Final = {"every file differs": 1, "no file differs": 0}  # by how many minutes each schedule moves
DOCUMENT: Final = """\
apiVersion: wakeboard.dev/v1alpha1
kind: JobSchedule
metadata: {{name: report-{number}, namespace: team-{team}}}
spec: {{jobType: report, schedule: "{minute} {hour} * * *", timeZone: Europe/Lisbon, payload: {{customer: {number}}}}}
"""


def measure_plans(_server: BenchmarkServer, plan: Plan) -> Table:
    """Each case in turn, with the start of the program. It needs no database."""
    costs: dict[str, list[Cost]] = {case: [] for case in CASES}
    with tempfile.TemporaryDirectory(prefix="wakeboard-bench-") as name:
        folder = Path(name)
        for moved in {0, *CASES.values()}:
            _write(folder / str(moved), plan.planned, moved)
        for _ in range(plan.repetitions):
            for case, moved in CASES.items():
                costs[case].append(_cost(folder, moved))
    figures = {case: [each.cpu_s for each in found] for case, found in costs.items()}
    return Table(
        title="Plan",
        note=f"{plan.repetitions} times each, in turn: `wakeboard plan` of {plan.planned:,} schedules in {FILES} files,"
        " in seconds, with the start of the program.",
        head=("case", "CPU s", "wall s"),
        rows=[(case, spread(figures[case]), spread([each.wall_s for each in found])) for case, found in costs.items()],
        thresholds=[
            at_most(f"plan of {plan.planned:,} schedules, {case}: CPU s", MOST_S, found)
            for case, found in figures.items()
        ],
    )


def _write(folder: Path, schedules: int, moved: int) -> None:
    folder.mkdir()
    for file in range(FILES):
        documents = [
            DOCUMENT.format(number=each, team=file % 20, minute=(each + moved) % 60, hour=each // 60 % 24)
            for each in range(file, schedules, FILES)
        ]
        (folder / f"{file}.yaml").write_text("---\n".join(documents))


def _cost(folder: Path, moved: int) -> Cost:
    program = str(Path(sys.executable).with_name("wakeboard"))
    words = [program, "plan", str(folder / "0"), str(folder / str(moved)), "--from", "2027-03-01"]
    process = MeasuredProcess(words, {}, folder)
    cost = process.ended(WITHIN_S)
    if cost.exit_code:
        raise RuntimeError(f"wakeboard plan ended with {cost.exit_code}: {process.output()}")
    return cost
