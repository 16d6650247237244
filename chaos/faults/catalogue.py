"""Every kind of fault, in the order of the report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from chaos.faults import in_handlers, on_postgres, on_releases, on_workers
from chaos.faults import on_network as on_lines

if TYPE_CHECKING:
    from chaos.faults.fault import Fault

KINDS: Final[tuple[type[Fault], ...]] = (
    on_workers.WorkerKilled,
    on_lines.KilledWhileClaiming,
    on_lines.KilledWhileCompleting,
    on_workers.WorkerFrozen,
    on_workers.WorkerStumbles,
    on_workers.WorkerSentAway,
    on_workers.DutiesKilled,
    on_workers.ClockMoved,
    on_postgres.PostgresKilled,
    on_postgres.PostgresRestarted,
    on_postgres.PostgresStoppedAtOnce,
    on_postgres.SessionKilled,
    on_postgres.SessionTerminated,
    on_postgres.EverySessionTerminated,
    on_postgres.StatementCancelled,
    on_postgres.RowsLocked,
    on_postgres.DecisionsLeftOpen,
    on_postgres.DiskFull,
    on_postgres.LogDiskFull,
    on_lines.CutMidStatement,
    on_lines.ClaimAnswerLost,
    on_lines.OutcomeAnswerLost,
    on_lines.EnqueueAnswerLost,
    on_lines.EffectAnswerLost,
    on_lines.OtherAnswerLost,
    on_lines.AnswersHeldBack,
    on_lines.WorkerCutOff,
    on_lines.PoolerRestarted,
    in_handlers.HandlerBlocks,
    in_handlers.HandlerNeverStops,
    in_handlers.HandlerHangsBehindOnce,
    in_handlers.HandlerForks,
    in_handlers.HandlerTakesAllMemory,
    in_handlers.HandlerSaysTooMuch,
    in_handlers.HandlerKills,
    on_releases.MigratedAgain,
    on_releases.OtherRelease,
)
BY_NAME: Final = {kind.name: kind for kind in KINDS}
