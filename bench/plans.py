"""Measures `wakeboard plan`: two folders of many schedules, of which every schedule differs, only files, or none."""

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
CASES: Final = {  # the name of the other folder
    "no file differs": "same",
    "every file differs, and no schedule": "files",
    "every schedule differs": "schedules",
    "every schedule gets H": "hashed",
}
WHY: Final = {
    "every schedule differs": "10,000 schedules are described, each with the ticks that move",
    "every schedule gets H": "as above, and each expression is compiled for its name",
}
DOCUMENT: Final = """\
apiVersion: wakeboard.dev/v1alpha1
kind: JobSchedule
metadata: {{name: report-{number}, namespace: team-{team}}}
spec: {{jobType: report, schedule: "{time} * * *", timeZone: Europe/Lisbon, payload: {{customer: {number}}}}}
"""


def measure_plans(_server: BenchmarkServer, plan: Plan) -> Table:
    """Each case in turn, with the start of the program. It needs no database."""
    costs: dict[str, list[Cost]] = {case: [] for case in CASES}
    with tempfile.TemporaryDirectory(prefix="wakeboard-bench-") as name:
        folder = Path(name)
        _write(folder / "same", plan.planned)
        _write(folder / "files", plan.planned, end="# another text\n")
        _write(folder / "schedules", plan.planned, moved=1)
        _write(folder / "hashed", plan.planned, hashed=True)
        for _ in range(plan.repetitions):
            for case, other in CASES.items():
                costs[case].append(_cost(folder, other))
    figures = {case: [each.cpu_s for each in found] for case, found in costs.items()}
    return Table(
        title="Plan",
        note=f"{plan.repetitions} times each, in turn: `wakeboard plan` of {plan.planned:,} schedules in {FILES} files,"
        " in seconds, with the start of the program.",
        head=("case", "CPU s", "wall s"),
        rows=[(case, spread(figures[case]), spread([each.wall_s for each in found])) for case, found in costs.items()],
        thresholds=[
            at_most(f"plan of {plan.planned:,} schedules, {case}: CPU s", MOST_S, found, WHY.get(case, ""))
            for case, found in figures.items()
        ],
    )


def _write(folder: Path, schedules: int, *, moved: int = 0, hashed: bool = False, end: str = "") -> None:
    """Writes the schedules, each `moved` by so many minutes, or `hashed` by its name."""
    folder.mkdir()
    for file in range(FILES):
        documents = [
            DOCUMENT.format(
                number=each, team=file % 20, time="H H" if hashed else f"{(each + moved) % 60} {each // 60 % 24}"
            )
            for each in range(file, schedules, FILES)
        ]
        (folder / f"{file}.yaml").write_text("---\n".join(documents) + end)


def _cost(folder: Path, other: str) -> Cost:
    program = str(Path(sys.executable).with_name("wakeboard"))
    words = [program, "plan", str(folder / "same"), str(folder / other), "--from", "2027-03-01"]
    process = MeasuredProcess(words, {}, folder)
    cost = process.ended(WITHIN_S)
    if cost.exit_code:
        raise RuntimeError(f"wakeboard plan ended with {cost.exit_code}: {process.output()}")
    return cost
