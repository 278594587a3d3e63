"""Where a task or actor is to run: options(scheduling_strategy=...)."""


class NodeAffinitySchedulingStrategy:
    """On the node with that id; with `soft`, on another one where that node cannot hold it."""

    def __init__(self, node_id, soft):
        self.node_id = node_id
        self.soft = soft

    def __repr__(self):
        return f"NodeAffinitySchedulingStrategy({self.node_id!r}, soft={self.soft})"
