#!/usr/bin/env python3
"""Refuses an include that points up the layer table or between roles (docs/architecture.md, "Layers").

usage: check_layers.py ROOT     exit 1 and a line for each wrong include
"""
import os
import re
import sys

ROWS = [  # longest prefix wins
    ("runtime/base/", 0), ("runtime/include/", 0),
    ("scheduler/", 1),
    ("runtime/rpc/", 2), ("runtime/proto/", 2),
    ("object_store/", 3), ("gpu/", 3),
    ("runtime/head/", 4), ("runtime/raylet/", 4), ("runtime/worker/", 4),
    ("runtime/api/", 5),
    ("runtime/cli/", 6),
    ("examples/", 7), ("python_bindings/", 7), ("bench/", 7), ("tests/", 7),
]
ROLES = ("runtime/head/", "runtime/raylet/", "runtime/worker/")
# What a worker or driver links: no gRPC, no fibers, nothing of the daemons.
LEAN = ("runtime/base/", "runtime/include/", "runtime/rpc/", "runtime/worker/", "runtime/api/")
HEAVY_FOLDERS = ("runtime/base/loop/", "runtime/rpc/grpc/")
HEAVY_SYSTEM = re.compile(r"<(grpc|grpcpp|boost/(asio|fiber|beast))[/.]")
INCLUDE = re.compile(r'^\s*#\s*include\s+(?:"([^"]+)"|(<[^>]+>))')


def row(path):
    for prefix, number in ROWS:
        if path.startswith(prefix):
            return number
    return None


def problems(path, text):
    mine = row(path)
    role = next((r for r in ROLES if path.startswith(r)), None)
    lean = path.startswith(LEAN) and not path.startswith(HEAVY_FOLDERS)
    for number, line in enumerate(text.splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        target, system = match.groups()
        if system:
            target = "runtime/include/" + system[1:-1] if system.startswith("<rayo/") else None
            if path.startswith("runtime/include/") and re.match(r"<(absl|boost/(?!pfr)|fmt|spdlog|google)", system):
                yield number, f"{system}: public headers reach only the standard library and Boost.PFR"
            if lean and HEAVY_SYSTEM.match(system):
                yield number, f"{system}: a worker or driver holds no gRPC and no fibers"
        if target is None or row(target) is None:
            continue
        if row(target) > mine:
            yield number, f"{target} stands in row {row(target)}, this file in row {mine}"
        if role and any(target.startswith(r) for r in ROLES if r != role):
            yield number, f"{target}: head, raylet and worker meet only in runtime/proto"
        if lean and target.startswith(HEAVY_FOLDERS):
            yield number, f"{target}: a worker or driver holds no gRPC and no fibers"
        if path.startswith("runtime/include/") and not target.startswith("runtime/include/"):
            yield number, f"{target}: public headers include only themselves"


def main(root):
    bad = 0
    for top in sorted({prefix.split("/")[0] for prefix, _ in ROWS}):
        for folder, _, files in os.walk(os.path.join(root, top)):
            for name in sorted(files):
                if not name.endswith((".h", ".cc", ".cu", ".cuh", ".inc")):
                    continue
                full = os.path.join(folder, name)
                path = os.path.relpath(full, root)
                if row(path) is None:
                    continue
                with open(full, encoding="utf-8") as source:
                    for number, why in problems(path, source.read()):
                        print(f"{path}:{number}: error: wrong include: {why}", file=sys.stderr)
                        bad += 1
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
