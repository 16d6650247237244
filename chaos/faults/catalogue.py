"""Every kind of fault, in the order of the report: the classes with a name in the modules of this package."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from chaos.faults import in_handlers, on_network, on_patroni, on_postgres, on_releases, on_workers

if TYPE_CHECKING:
    from chaos.faults.fault import Fault

FAULTS: Final[tuple[type[Fault], ...]] = tuple(
    kind
    for module in (on_workers, on_postgres, on_patroni, on_network, in_handlers, on_releases)
    for kind in vars(module).values()
    if isinstance(kind, type) and "name" in vars(kind)
)
BY_NAME: Final = {fault.name: fault for fault in FAULTS}


def faults_of(*, failover: bool) -> list[type[Fault]]:
    """Those of a campaign with one server, or with a Patroni cluster."""
    elsewhere = {"alone", "disk"} if failover else {"patroni", "network"}
    return [fault for fault in FAULTS if fault.needs not in elsewhere]
