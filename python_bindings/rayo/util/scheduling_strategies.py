"""Where a task or actor is to run: options(scheduling_strategy=...)."""


class In:
    """A label's value is one of these."""

    def __init__(self, *values):
        self.values = values


class NotIn:
    """A label's value is none of these."""

    def __init__(self, *values):
        self.values = values


class Exists:
    """A label is there, whatever its value."""

    values = ()


class DoesNotExist:
    """A label is not there."""

    values = ()


class NodeLabelSchedulingStrategy:
    """On a node whose labels satisfy all of `hard`: {"zone": In("a", "b"), "disk": NotIn("slow"), "ssd": Exists()}."""

    def __init__(self, hard, *, soft=None):
        if soft:
            raise ValueError("soft conditions on labels are not there: name what a node must have in `hard`")
        self.hard = dict(hard)


class PlacementGroupSchedulingStrategy:
    """In a bundle of a placement group: refused, as there are no groups yet (util.placement_group)."""

    def __init__(self, placement_group, placement_group_bundle_index=-1, placement_group_capture_child_tasks=None):
        from rayo.util.placement_group import _MISSING

        raise NotImplementedError(_MISSING)


class NodeAffinitySchedulingStrategy:
    """On the node with that id; with `soft`, on another one where that node cannot hold it."""

    def __init__(self, node_id, soft):
        self.node_id = node_id
        self.soft = soft

    def __repr__(self):
        return f"NodeAffinitySchedulingStrategy({self.node_id!r}, soft={self.soft})"
