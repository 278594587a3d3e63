"""For tests: with this folder on PYTHONPATH, files that say `import ray` run on Rayo unchanged. Not installed anywhere."""

import importlib
import importlib.abc
import importlib.machinery
import sys

import rayo


class _Alias(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """ray.x.y is the module rayo.x.y."""

    def find_spec(self, name, path=None, target=None):
        if name.startswith("ray."):
            return importlib.machinery.ModuleSpec(name, self)
        return None

    def create_module(self, spec):
        module = importlib.import_module("rayo." + spec.name.removeprefix("ray."))
        self._own = module.__spec__
        # What it has imported is known under both names: importing it again would put the module where a name of its parent's is.
        for known in [known for known in sys.modules if known.startswith("rayo.")]:
            sys.modules.setdefault("ray." + known.removeprefix("rayo."), sys.modules[known])
        return module

    def exec_module(self, module):
        module.__spec__ = self._own  # import has put the alias's in its place


sys.meta_path.insert(0, _Alias())
sys.modules["ray"] = rayo
