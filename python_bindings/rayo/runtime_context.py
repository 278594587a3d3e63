"""rayo.runtime_context: names of Ray's module of the same name."""

from rayo._cluster import RuntimeContext, get_runtime_context

__all__ = ["RuntimeContext", "get_runtime_context"]
