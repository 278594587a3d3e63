"""Whether arguments fit a function, told where the call is made and not where it would run."""

import inspect


class Signature:
    """The parameters of a function; `bound`: without its first, self."""

    def __init__(self, function, bound=False):
        self._name = getattr(function, "__qualname__", type(function).__name__).rpartition("<locals>.")[2]
        self._signature = None
        self._least, self._most = 0, float("inf")  # arguments by position alone that fit in any case
        try:
            signature = inspect.signature(function)
        except (ValueError, TypeError):  # a builtin that does not say
            return
        parameters = list(signature.parameters.values())
        if bound and parameters and parameters[0].kind in (_ANY, _BY_POSITION):
            parameters = parameters[1:]
        self._signature = signature.replace(parameters=parameters)
        by_position = [p for p in parameters if p.kind in (_ANY, _BY_POSITION)]
        self._least = sum(p.default is p.empty for p in by_position)
        if not any(p.kind is p.VAR_POSITIONAL for p in parameters):
            self._most = len(by_position)
        if any(p.kind is p.KEYWORD_ONLY and p.default is p.empty for p in parameters):
            self._most = -1  # never without keywords

    def check(self, args, kwargs):
        """TypeError, in Python's words, where they do not fit."""
        if (not kwargs and self._least <= len(args) <= self._most) or self._signature is None:
            return
        try:
            self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{self._name}: {error}") from None


_ANY = inspect.Parameter.POSITIONAL_OR_KEYWORD
_BY_POSITION = inspect.Parameter.POSITIONAL_ONLY
