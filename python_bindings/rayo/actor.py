"""rayo.actor: names of Ray's module of the same name."""

from rayo._actor import ActorClass, ActorClassInheritanceException, ActorHandle, ActorMethod
from rayo._worker import exit_actor

ActorProxy = ActorHandle  # for annotations: ActorProxy[Counter]

__all__ = ["ActorClass", "ActorClassInheritanceException", "ActorHandle", "ActorMethod", "ActorProxy", "exit_actor"]
