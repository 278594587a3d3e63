"""Whether this Python can run rayo at all; old ones have to be able to read this file."""

import importlib.machinery
import os
import sys

_OLDEST = (3, 11)


def _check_worker():
    """A worker (`python3 -m rayo._worker`) of another minor version than its driver's: pickled code is for one."""
    wanted, here = os.environ.get("RAYO_PYTHON_VERSION"), "%d.%d" % sys.version_info[:2]
    if sys.argv[:1] == ["-m"] and "RAYO_WORKER" in os.environ and wanted and wanted != here:
        sys.exit("python_mismatch: the driver runs Python %s, and this node's %s is Python %s" % (wanted, sys.executable, here))


def check():
    """ImportError that says what is missing, where Python's own would say only that there is no module."""
    _check_worker()
    here = "Python %d.%d (%s)" % (sys.version_info[0], sys.version_info[1], os.path.realpath(sys.executable))
    if sys.version_info[:2] < _OLDEST:
        raise ImportError("rayo needs Python %d.%d or newer, and this is %s" % (_OLDEST + (here,)))
    folder = os.path.dirname(os.path.abspath(__file__))
    built = sorted(name.split(".")[1] for name in os.listdir(folder) if name.startswith("_native."))
    if not any(os.path.exists(os.path.join(folder, "_native" + suffix)) for suffix in importlib.machinery.EXTENSION_SUFFIXES):
        raise ImportError("rayo's native part in %s is built for %s, and this is %s: run that interpreter, or build rayo with this one"
                          % (folder, " and ".join(built) or "no Python", here))
