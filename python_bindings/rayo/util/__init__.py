"""rayo.util: an actor pool, a queue, and strategies of placement."""

from rayo.util.actor_pool import ActorPool

__all__ = ["ActorPool"]
