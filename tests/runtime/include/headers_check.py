#!/usr/bin/env python3
"""If this fails, a user's program meets our macros or libraries, or must include our headers in a certain order.

usage: headers_check.py COMPILER ROOT     Each header of <rayo/...> alone: compiles without a warning, defines no macro, and reaches
                                          nothing but itself, the standard library and Boost.PFR. Exit 1 and a line for each breach.
"""
import os
import re
import subprocess
import sys

MARKER = re.compile(r'^# \d+ "([^"]+)"')
# Where the compiler's own and the C library's headers lie.
SYSTEM = re.compile(r"^/usr/(include/(c\+\+|[a-z0-9_]+-linux-gnu|linux|asm|asm-generic|bits|sys)/|include/[a-z0-9_-]+\.h$|lib/gcc/|lib/llvm)")
ALLOWED_BOOST = re.compile(r"/boost/pfr(/|\.hpp$)")


def headers(folder):
    for place, _, files in os.walk(os.path.join(folder, "rayo")):
        if os.path.basename(place) == "with":  # opt-in headers for other libraries
            continue
        for name in sorted(files):
            if name.endswith(".h"):
                yield os.path.relpath(os.path.join(place, name), folder)


def breaches(compiler, folder, header):
    source = f"#include <{header}>\n"
    base = [compiler, "-std=c++20", "-x", "c++", "-I", folder, "-"]
    alone = subprocess.run(base + ["-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror"], input=source,
                           capture_output=True, text=True, check=False)
    if alone.returncode != 0:
        yield f"does not compile alone:\n{alone.stderr}"
        return
    whole = subprocess.run(base + ["-E", "-dD"], input=source, capture_output=True, text=True, check=True).stdout
    file = ""
    reached = set()
    for line in whole.splitlines():
        marker = MARKER.match(line)
        if marker:
            file = os.path.normpath(marker.group(1))
            reached.add(file)
        elif line.startswith("#define") and file.startswith(os.path.join(folder, "rayo")):
            yield f"{file} defines a macro: {line}"
    for path in sorted(reached):
        ours = path.startswith(os.path.join(folder, "rayo"))
        if not path.startswith("/") or ours or SYSTEM.match(path) or ALLOWED_BOOST.search(path):
            continue
        yield f"reaches {path}: nothing but the standard library and Boost.PFR"


def main(compiler, root):
    folder = os.path.normpath(os.path.join(root, "runtime/include"))
    bad = 0
    checked = 0
    for header in headers(folder):
        checked += 1
        for breach in breaches(compiler, folder, header):
            print(f"<{header}>: {breach}", file=sys.stderr)
            bad += 1
    print(f"{checked} headers, {bad} breaches")
    return 1 if bad or checked == 0 else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
