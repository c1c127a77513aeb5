"""Small-world graphs: the random graphs of Watts and Strogatz.

Source: Watts and Strogatz, Collective dynamics of small-world networks, Nature 393, 1998, in the
form of Xie et al., 2019, arXiv:1904.01569, section 3.3.
"""

from __future__ import annotations

from penstock.frontends.seeded_random import SeededRandom


def small_world(
    nodes: int, neighbours: int, probability: float, random: SeededRandom
) -> tuple[tuple[int, int], ...]:
    """Edges (a, b), with a < b, of a random graph of `nodes` nodes, in ascending order.

    In a ring, every node is connected to `neighbours` / 2 nodes on either side.  Then, for each
    distance, every node in turn moves the edge to the node at that distance, with `probability`,
    to another node, to which it has no edge."""
    ring = [(v, (v + k) % nodes) for k in range(1, neighbours // 2 + 1) for v in range(nodes)]
    edges = {frozenset(edge) for edge in ring}
    for v, neighbour in ring:
        chosen = float(random.uniform(1, 0.0, 1.0)[0]) < probability
        free = [u for u in range(nodes) if u != v and frozenset((u, v)) not in edges]
        if chosen and free:
            edges.remove(frozenset((v, neighbour)))
            edges.add(frozenset((v, free[int(random.uniform(1, 0.0, len(free))[0])])))
    return tuple(sorted((min(edge), max(edge)) for edge in edges))
