"""Ray's module of the same name. The scheduler has no groups yet: nothing belongs to one, and making one is refused."""

_MISSING = (
    "placement groups are not there yet. For nodes apart from each other: scheduling_strategy='SPREAD'; "
    "for one certain node: NodeAffinitySchedulingStrategy; for nodes of one kind: label_selector"
)


def placement_group(bundles, strategy="PACK", name="", lifetime=None, bundle_label_selector=None, topology_strategy=None):
    """Raises NotImplementedError, which names what there is instead."""
    raise NotImplementedError(_MISSING)


def remove_placement_group(placement_group):
    """Raises NotImplementedError: there is none."""
    raise NotImplementedError(_MISSING)


def get_placement_group(placement_group_name):
    """Raises ValueError: there is none of any name."""
    raise ValueError(f"no placement group {placement_group_name!r}: {_MISSING}")


def get_current_placement_group():
    """None: no task or actor runs in a group."""
    return None


def placement_group_table(placement_group=None):
    """{}: there are none."""
    return {}
