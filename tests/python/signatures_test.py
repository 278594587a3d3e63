"""Names and parameters against Ray's, whose are facts in ray_signatures.json (made by bench/peers/ray_signatures.py). If one
fails, a script that is written for Ray meets an argument or a name that docs/python.md does not tell of.

    PYTHONPATH=build/release/python /usr/bin/python3 tests/python/signatures_test.py           # the rows for docs/python.md
    PYTHONPATH=build/release/python /usr/bin/python3 tests/python/signatures_test.py --renew   # ask Ray (PyPI) again
"""

import importlib
import inspect
import json
import pathlib
import re
import subprocess
import sys

_HERE = pathlib.Path(__file__).resolve().parent
_ROOT = _HERE.parents[1]
_FACTS = _HERE / "ray_signatures.json"
_DOCUMENT = _ROOT / "docs" / "python.md"

sys.path.insert(0, str(_ROOT / "bench" / "peers"))
from signature_parameters import parameters  # noqa: E402

_MISSING = object()
# Classes that nobody imports by their module's name.
_PLACES = {"remote_function.RemoteFunction": "RemoteFunction", "runtime_context.RuntimeContext": "_cluster.RuntimeContext"}


def _find(name):
    """Rayo's member of that name: a function, a property, or _MISSING."""
    found = importlib.import_module("rayo")
    owner, _, member = name.rpartition(".")
    for part in [*filter(None, _PLACES.get(owner, owner).split(".")), member]:
        try:
            if inspect.isclass(found):
                found = inspect.getattr_static(found, part) if part != "__init__" else found.__init__
            else:
                found = getattr(found, part)
        except AttributeError:
            try:
                found = importlib.import_module(f"{found.__name__}.{part}")
            except (AttributeError, ImportError):
                return _MISSING
    return found.__func__ if isinstance(found, (staticmethod, classmethod)) else found


def _options(kind):
    from rayo import _actor, _remote

    return {"task": {*_remote._TASK_OPTIONS, "num_returns"}, "actor": set(_actor._ACTOR_OPTIONS)}[kind]


def _difference(name, theirs):
    """What a caller of Ray's function meets here; None: nothing."""
    option = re.fullmatch(r"(task|actor) option (\w+)", name)
    if option:
        return None if option[2].startswith("_") or option[2] in _options(option[1]) else "not there"
    ours = _find(name)
    if ours is _MISSING:
        return "not there"
    if theirs is None or isinstance(ours, property):
        return None
    mine = parameters(ours)
    if mine is None or mine == theirs:  # (None: of the native part, whose signature nobody can ask for)
        return None
    lacks = [p for p in theirs if p not in mine and p != "*" and "**kwargs" not in mine]
    more = [p for p in mine if p not in theirs and p != "*"]
    if not lacks and not more:
        return None
    return "; ".join(filter(None, [lacks and "without " + ", ".join(lacks), more and "with " + ", ".join(more)]))


def _differences():
    facts = json.loads(_FACTS.read_text())["names"]
    return {name: told for name, theirs in facts.items() if (told := _difference(name, theirs)) is not None}


def _documented():
    """{name: difference} of the rows of docs/python.md, where a row may name several: `a`, `b`."""
    rows = {}
    for line in _DOCUMENT.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) == 3 and cells[0].startswith("`ray."):
            for name in re.findall(r"`([^`]+)`", cells[0]):
                rows[name.removeprefix("ray.")] = cells[1]
    return rows


def test_every_difference_from_rays_signatures_is_documented():
    real, told = _differences(), _documented()
    assert {name: text for name, text in real.items() if told.get(name) != text} == {}, "add these rows to docs/python.md"
    assert sorted(set(told) - set(real)) == [], "these are not different (any more): take the rows out"


def main():
    if "--renew" in sys.argv:
        python = subprocess.run([_ROOT / "bench/peers/ray.sh"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
        made = subprocess.run([python, _ROOT / "bench/peers/ray_signatures.py"], check=True, stdout=subprocess.PIPE)
        _FACTS.write_bytes(made.stdout)
    rows = {}
    for name, text in _differences().items():
        rows.setdefault(text, []).append(name)
    for text, names in rows.items():
        print(f"| {', '.join(f'`ray.{name}`' for name in names)} | {text} | |")


if __name__ == "__main__":
    main()
