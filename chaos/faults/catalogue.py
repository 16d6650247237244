"""Every kind of fault, in the order of the report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from chaos.faults import in_handlers, on_network, on_postgres, on_releases, on_workers

if TYPE_CHECKING:
    from chaos.faults.fault import Fault

FAULTS: Final[tuple[type[Fault], ...]] = (
    on_workers.WorkerKilled,
    on_network.KilledWhileClaiming,
    on_network.KilledWhileCompleting,
    on_workers.WorkerFrozen,
    on_workers.WorkerFrozenBriefly,
    on_workers.WorkerTerminated,
    on_workers.MaintenanceKilled,
    on_workers.ClockWrong,
    on_postgres.PostgresKilled,
    on_postgres.PostgresRestarted,
    on_postgres.PostgresStoppedImmediately,
    on_postgres.SessionKilled,
    on_postgres.SessionTerminated,
    on_postgres.EverySessionTerminated,
    on_postgres.StatementCancelled,
    on_postgres.RowsLocked,
    on_postgres.TransactionLeftOpen,
    on_postgres.DiskFull,
    on_postgres.WalDiskFull,
    on_network.CutMidStatement,
    on_network.ClaimReplyLost,
    on_network.OutcomeReplyLost,
    on_network.EnqueueReplyLost,
    on_network.EffectReplyLost,
    on_network.OtherReplyLost,
    on_network.RepliesDelayed,
    on_network.WorkerCutOff,
    on_network.PoolerRestarted,
    in_handlers.HandlerBlocks,
    in_handlers.HandlerNeverStops,
    in_handlers.HandlerHangsInTransaction,
    in_handlers.HandlerForks,
    in_handlers.HandlerTakesAllMemory,
    in_handlers.HandlerReturnsTooMuch,
    in_handlers.HandlerKills,
    on_releases.MigratedAgain,
    on_releases.OtherRelease,
)
BY_NAME: Final = {fault.name: fault for fault in FAULTS}
