"""The command `rayo` of an installed wheel: the program that the package carries."""

import os
import sys

from rayo import _environment


def path(name="rayo"):
    """Where the program is: as RAYO_BIN says, beside this file, or on PATH."""
    given = os.environ.get("RAYO_BIN", "")
    for place in (given, os.path.join(given, name), os.path.join(_environment.HERE, "bin", name)):
        if os.path.isfile(place):
            return place
    return name


def main():
    program = path()
    os.execvp(program, [program, *sys.argv[1:]])
