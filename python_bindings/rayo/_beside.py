"""The modules beside the driver's script. On its own machine they are found where they are, by its sys.path; to workers of
other machines they travel: the driver stores them as it joins, and a worker that misses a module looks there last.
"""

import hashlib
import importlib.machinery
import os
import sys
import threading

from rayo import _remote

_KEY = "modules beside the script"
# What stands there may be a home directory: more than this does not travel.
_MOST_MODULES, _MOST_BYTES = 1000, 16 << 20

_kept = None  # the driver's ref of them: it lives until its session ends


def script():
    """(the driver's script, the folder of the modules beside it); None where no script of the user runs."""
    main = sys.modules.get("__main__")
    path = getattr(main, "__file__", None)
    if path is None:
        return None
    path = folder = os.path.abspath(path)
    spec = getattr(main, "__spec__", None)  # of `python3 -m package.module`
    for _ in range(1 + (spec.name.count(".") if spec else 0)):
        folder = os.path.dirname(folder)
    standard = os.path.dirname(os.__file__)
    if folder.startswith(standard) or folder.endswith(("/site-packages", "/dist-packages", "/bin")):
        return None  # a program that is installed: pytest, a notebook's kernel
    return path, folder


def publish(folder):
    """In the driver, once it has joined: before any worker can ask for them."""
    global _kept
    try:
        names = _modules_in(folder)
        if len(names) < 2:  # the script itself
            return
        from rayo import _packages

        packed = _packages.packed_files(names)
    except OSError:  # not all of it may be read: as if it were not there
        return
    _kept = _remote.store_large(_KEY, packed)


def _modules_in(folder):
    """[(file, its name there)] of modules and packages; [] where they are too many."""
    names = []
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if entry.name.endswith(".py") and entry.is_file():
            names.append((entry.path, entry.name))
        elif entry.is_dir() and os.path.isfile(os.path.join(entry.path, "__init__.py")):
            from rayo import _packages

            names += [named for named in _packages.files_below(entry.path, entry.name) if named[0].endswith(".py")]
        if len(names) > _MOST_MODULES:
            return []
    return names if sum(os.path.getsize(path) for path, _ in names) <= _MOST_BYTES else []


class Finder:
    """In a worker of another machine, the last one of sys.meta_path."""

    def __init__(self):
        self._lock = threading.RLock()
        self._asked = False  # what fetching them imports is not looked for here
        self._path = []

    def find_spec(self, name, path=None, target=None):
        if path is not None:  # inside of a package, which has been found
            return None
        with self._lock:
            if not self._asked:
                self._asked = True
                self._path = self._fetch()
        return importlib.machinery.PathFinder.find_spec(name, self._path)

    @staticmethod
    def _fetch():
        content = _remote.load_large(_KEY)
        if content is None:
            return []
        from rayo import _packages

        return [_packages.place_of(hashlib.sha256(content).hexdigest()[:32], lambda: content)]
