"""Variables of the environment: those that workers are given, and those that code runs with for a while."""

import contextlib
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))  # of this package


@contextlib.contextmanager
def in_environment(variables):
    """os.environ with these variables too, until the end."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _path():
    """sys.path as workers get it, and what of it belongs to this interpreter, which another one has its own of."""
    path = [os.path.abspath(entry or os.getcwd()) for entry in sys.path]
    standard = os.path.dirname(os.__file__)
    packed = f"{os.path.dirname(standard)}/python{sys.version_info.major}{sys.version_info.minor}.zip"
    own = [entry for entry in path if entry.startswith((standard, packed)) or entry.endswith(("/site-packages", "/dist-packages"))]
    return {"path": path, "own": own, "interpreter": sys.executable}


def worker_variables(packed, script):
    """What workers need to find rayo where this process found it; their own path is the driver's. `script`: _beside.script()."""
    variables = {
        "PYTHONPATH": os.pathsep.join(filter(None, [os.path.dirname(HERE), os.environ.get("PYTHONPATH", "")])),
        "RAYO_PYTHON_PATH": json.dumps(_path()),
        "RAYO_PYTHON_VERSION": f"{sys.version_info.major}.{sys.version_info.minor}",  # pickled code is for one of them
        "RAYO_PYTHON_PACKAGES": json.dumps([entry[:2] for entry in packed]),
    }
    variables["RAYO_PYTHON_SCRIPT"] = script[0] if script else ""
    if "RAYO_BIN" not in os.environ and os.path.exists(os.path.join(HERE, "bin", "rayo")):
        variables["RAYO_BIN"] = os.path.join(HERE, "bin")
    return variables
