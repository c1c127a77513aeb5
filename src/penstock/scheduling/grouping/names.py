"""Names of orders and strategies, which appear in help texts.

They are in a module without imports, so that printing a help text does not import the algorithms.
"""

from __future__ import annotations

ORDER_NAMES = ("asap", "alap", "dfs", "reverse", "bfs", "file")
"""The keys of `orders.ORDERS`."""
INNER_ORDER_NAMES = ("trace_back", "dfs", "bfs", "circular", "best")
"""The keys of `inside.ORDERS_INSIDE`."""
STRATEGY_NAMES = ("layer", "greedy", "paper", "best")
"""The keys of `strategies.STRATEGIES`."""
