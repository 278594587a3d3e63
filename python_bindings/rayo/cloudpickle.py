"""rayo.cloudpickle: cloudpickle under the name that Ray's scripts import it by. Refs and handles stay out of what it makes:
they are pickled inside values that Rayo carries."""

from pickle import load, loads

from cloudpickle import CloudPickler, Pickler, dump, dumps, register_pickle_by_value, unregister_pickle_by_value

__all__ = ["CloudPickler", "Pickler", "dump", "dumps", "load", "loads", "register_pickle_by_value", "unregister_pickle_by_value"]
