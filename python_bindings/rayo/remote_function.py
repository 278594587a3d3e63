"""rayo.remote_function: names of Ray's module of the same name."""

from rayo._remote import RemoteFunction

__all__ = ["RemoteFunction"]
