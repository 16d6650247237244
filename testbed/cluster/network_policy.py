"""NetworkPolicies as rules of nftables: from what the API server holds to the text of one table.

No network plugin of Debian's enforces policies. Here every packet between pods, and from a pod to the node, is routed
in the node's own network, after Services have been resolved: so a table in there can decide. Connections that exist
stay; what the node itself sends, such as probes, is not filtered, and neither is what a pod sends to itself. All of
the `networking.k8s.io/v1` API is there but IPv6.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

TABLE = "inet network-policies"
ON_THE_WAY = {"Pending", "Running"}  # phases in which a pod has its address
ANY = ""  # no condition


class Pod(NamedTuple):
    """What policies know of a pod. `ports` are its named ones: name and protocol to number."""

    namespace: str
    labels: dict[str, str]
    address: str
    ports: dict[tuple[str, str], int]


class Cluster(NamedTuple):
    """Pods, and the labels of each namespace."""

    pods: list[Pod]
    namespaces: dict[str, dict[str, str]]


class Direction(NamedTuple):
    """Of traffic, seen from the pod that a policy selects."""

    name: str
    key: str
    peers: str
    mine: str
    theirs: str


INGRESS = Direction("Ingress", "ingress", "from", "daddr", "saddr")
EGRESS = Direction("Egress", "egress", "to", "saddr", "daddr")


def table(namespaces: Iterable[Any], pods: Iterable[Any], policies: Iterable[Any], *outside: Pod) -> str:
    """What `nft -f -` takes to enforce exactly these policies. `outside` are what policies may name as if pods."""
    cluster = Cluster(
        [*(_pod(pod) for pod in pods if _has_address(pod)), *outside],
        {namespace["metadata"]["name"]: namespace["metadata"].get("labels", {}) for namespace in namespaces},
    )
    policies = list(policies)
    chains: dict[str, str] = {}
    jumps: dict[Direction, list[str]] = {INGRESS: [], EGRESS: []}
    for direction, lines in jumps.items():
        for pod in cluster.pods:
            mine = [policy for policy in policies if _is_about(policy, pod, direction)]
            if mine and pod not in outside:
                name = f"{direction.key}-{pod.address.replace('.', '-')}"
                itself = f"ip {direction.theirs} {pod.address}"
                allowed = [itself, *(line for policy in mine for line in _allowed(policy, pod, direction, cluster))]
                chains[name] = "; ".join([*(f"{line} return" for line in dict.fromkeys(allowed)), "counter drop"])
                lines.append(f"ip {direction.mine} {pod.address} jump {name}")
    return _text(chains, jumps[EGRESS], jumps[INGRESS])


def selects(selector: dict[str, Any], labels: dict[str, str]) -> bool:
    """Whether a label selector of Kubernetes takes in what has these labels; an empty one takes in all."""
    return all(labels.get(key) == value for key, value in selector.get("matchLabels", {}).items()) and all(
        _holds(expression, labels) for expression in selector.get("matchExpressions", [])
    )


def _holds(expression: dict[str, Any], labels: dict[str, str]) -> bool:
    value, values = labels.get(expression["key"]), expression.get("values", [])
    match expression["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case unknown:
            raise ValueError(f"A selector has no operator {unknown!r}.")


def _has_address(pod: Any) -> bool:
    status = pod.get("status", {})
    return bool(status.get("podIP")) and not pod["spec"].get("hostNetwork") and status["phase"] in ON_THE_WAY


def _pod(pod: Any) -> Pod:
    ports = {
        (port["name"], port.get("protocol", "TCP")): port["containerPort"]
        for container in pod["spec"]["containers"]
        for port in container.get("ports", [])
        if "name" in port
    }
    return Pod(pod["metadata"]["namespace"], pod["metadata"].get("labels", {}), pod["status"]["podIP"], ports)


def _is_about(policy: Any, pod: Pod, direction: Direction) -> bool:
    spec = policy["spec"]
    directions = spec.get("policyTypes") or ["Ingress", *(["Egress"] if "egress" in spec else [])]
    return (
        direction.name in directions
        and policy["metadata"]["namespace"] == pod.namespace
        and selects(spec.get("podSelector", {}), pod.labels)
    )


def _allowed(policy: Any, pod: Pod, direction: Direction, cluster: Cluster) -> Iterator[str]:
    """The conditions of nftables under which this policy lets a packet of the pod through."""
    rules: list[Any] = policy["spec"].get(direction.key) or []
    for rule in rules:
        for peer, address in _peers(rule.get(direction.peers), pod.namespace, direction, cluster):
            for port in rule.get("ports") or [None]:
                where = [pod] if direction is INGRESS else [peer] if peer else cluster.pods
                for condition in _port(port, where, direction):
                    yield " ".join(part for part in (address, condition) if part)


def _peers(
    peers: list[Any] | None, namespace: str, direction: Direction, cluster: Cluster
) -> Iterator[tuple[Pod | None, str]]:
    """Each peer with the condition that it is the other end. None means that the peer need not be a pod."""
    if not peers:
        yield None, ANY
    for peer in peers or []:
        if block := peer.get("ipBlock"):
            but = f" ip {direction.theirs} != {{ {', '.join(block['except'])} }}" if block.get("except") else ""
            yield None, f"ip {direction.theirs} {block['cidr']}{but}"
            continue
        for pod in cluster.pods:
            near = "namespaceSelector" not in peer and pod.namespace == namespace
            far = "namespaceSelector" in peer and selects(
                peer["namespaceSelector"], cluster.namespaces.get(pod.namespace, {})
            )
            if (near or far) and selects(peer.get("podSelector", {}), pod.labels):
                yield pod, f"ip {direction.theirs} {pod.address}"


def _port(port: Any, where: Iterable[Pod], direction: Direction) -> Iterator[str]:
    """The conditions for a port of a rule. A name means what each pod that the packet goes to means by it."""
    if port is None:
        yield ANY
        return
    protocol, number = port.get("protocol", "TCP"), port.get("port")
    if number is None:
        yield f"meta l4proto {protocol.lower()}"
    elif isinstance(number, int):
        last = f"-{port['endPort']}" if "endPort" in port else ""
        yield f"{protocol.lower()} dport {number}{last}"
    else:
        for pod in where:
            if found := pod.ports.get((number, protocol)):
                to = f"ip daddr {pod.address} " if direction is EGRESS else ""
                yield f"{to}{protocol.lower()} dport {found}"


def _text(chains: dict[str, str], from_pods: list[str], to_pods: list[str]) -> str:
    """It replaces the table that was there, all at once."""
    known = "ct state established,related accept"
    on_the_way = "; ".join([known, *from_pods, *to_pods])
    to_the_node = "; ".join([known, *from_pods])
    return "\n".join(
        [
            f"table {TABLE}",
            f"delete table {TABLE}",
            f"table {TABLE} {{",
            *(f"  chain {name} {{ {rules}; }}" for name, rules in chains.items()),
            f"  chain on-the-way {{ type filter hook forward priority 10; policy accept; {on_the_way}; }}",
            f"  chain to-the-node {{ type filter hook input priority 10; policy accept; {to_the_node}; }}",
            "}",
            "",
        ]
    )
