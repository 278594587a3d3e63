"""What two APIs are compared by: Ray's in ray_signatures.py, Rayo's in tests/python/signatures_test.py."""

import inspect


def parameters(function):
    """The names of a function's parameters as ray_signatures.py tells them; None: it has no signature."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return None
    found, by_keyword = [], False
    for parameter in signature.parameters.values():
        if parameter.name == "self" or parameter.name.startswith("_"):
            continue
        if parameter.kind is parameter.VAR_POSITIONAL:
            found.append("*" + parameter.name)
            by_keyword = True
        elif parameter.kind is parameter.VAR_KEYWORD:
            found.append("**" + parameter.name)
        else:
            if parameter.kind is parameter.KEYWORD_ONLY and not by_keyword:
                found.append("*")
                by_keyword = True
            found.append(parameter.name + ("=" if parameter.default is not parameter.empty else ""))
    return found
