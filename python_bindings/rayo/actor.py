"""rayo.actor: names of Ray's module of the same name."""

from rayo._actor import ActorClass, ActorHandle, ActorMethod
from rayo._worker import exit_actor

__all__ = ["ActorClass", "ActorHandle", "ActorMethod", "exit_actor"]
