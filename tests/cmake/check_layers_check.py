#!/usr/bin/env python3
"""If this fails, a wrong include gets in unseen: gRPC into workers, Abseil into public headers, roles into each other.

usage: check_layers_check.py ROOT     Adds one wrong include at a time to a copy of a tree and wants cmake/check_layers.py to refuse it.
"""
import pathlib
import subprocess
import sys
import tempfile

GOOD = {
    "runtime/base/a.h": '#include <string>\n#include "runtime/base/b.h"\n',
    "runtime/worker/a.h": '#include "runtime/rpc/ring.h"\n#include "object_store/arena.h"\n',
    "runtime/include/rayo/a.h": "#include <vector>\n#include <boost/pfr/core.hpp>\n#include <rayo/id.h>\n",
    "runtime/raylet/a.h": '#include <boost/asio.hpp>\n#include "scheduler/policy.h"\n',
}
WRONG = [
    ("runtime/base/wrong.h", '#include "scheduler/policy.h"'),
    ("scheduler/wrong.cc", '#include "runtime/rpc/ring.h"'),
    ("runtime/rpc/wrong.h", '#include "object_store/arena.h"'),
    ("runtime/head/wrong.h", '#include "runtime/raylet/leases.h"'),
    ("runtime/raylet/wrong.h", '#include "runtime/worker/process.h"'),
    ("runtime/worker/wrong.h", '#include "runtime/head/store.h"'),
    ("runtime/worker/wrong.cc", '#include "runtime/api/current.h"'),
    ("runtime/worker/wrong.cc", '#include <boost/fiber/all.hpp>'),
    ("runtime/api/wrong.cc", '#include <grpcpp/grpcpp.h>'),
    ("runtime/api/wrong.cc", '#include "runtime/rpc/grpc/server.h"'),
    ("runtime/rpc/wrong.cc", '#include <boost/asio.hpp>'),
    ("runtime/include/rayo/wrong.h", '#include <absl/status/status.h>'),
    ("runtime/include/rayo/wrong.h", '#include <boost/json.hpp>'),
    ("runtime/include/rayo/wrong.h", '#include "runtime/base/ids.h"'),
    ("gpu/wrong.cc", '#include "runtime/raylet/leases.h"'),
]


def refused(script, root):
    ended = subprocess.run([sys.executable, script, root], capture_output=True, text=True, check=False)
    return ended.returncode != 0, ended.stderr


def main(root):
    script = pathlib.Path(root) / "cmake/check_layers.py"
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        tree = pathlib.Path(folder)
        for path, text in GOOD.items():
            (tree / path).parent.mkdir(parents=True, exist_ok=True)
            (tree / path).write_text(text, encoding="utf-8")
        no, why = refused(script, tree)
        if no:
            print(f"a good tree was refused: {why}", file=sys.stderr)
            failures += 1
        for path, include in WRONG:
            file = tree / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(include + "\n", encoding="utf-8")
            no, why = refused(script, tree)
            if not no or path not in why:
                print(f"not refused: {include} in {path}", file=sys.stderr)
                failures += 1
            file.unlink()
    print(f"{len(WRONG)} wrong includes, {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
