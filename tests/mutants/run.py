#!/usr/bin/env python3
"""Shows that the tests find small wrong changes of the classes that decide (mutants.toml).

usage: run.py [NAME...]     those whose name or file contains one of NAME; without: all
       run.py --check       only that each change still has its place in the sources (a second; part of ./dev test)

Works in a copy of the tree (build/mutants) with a release build of its own, so the sources are never wrong; what is unchanged comes from
the compiler cache. The tests of the unchanged copy pass first. A change that no test finds is a missing test: exit 1.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import time
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
TREE = ROOT / "build" / "mutants"
BUILD = TREE / "build" / "release"  # as deep as the release build is: the compiler cache knows files by their relative paths
TEST_WITHIN = 180  # seconds; a test that hangs has found the change too


def misplaced(mutants):
    """A line for each change whose `old` does not stand exactly once in its file."""
    for mutant in mutants:
        file = ROOT / mutant["file"]
        times = file.read_text().count(mutant["old"]) if file.exists() else 0
        if times != 1:
            yield f"{mutant['name']}: its text stands {times} times in {mutant['file']}"


def copy_tree(mutants):
    """What git tracks and what is new and not ignored, with its times, so that a second run builds little; the files that an earlier,
    interrupted run may have left wrong objects of are new."""
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, check=True)
    for old in TREE.iterdir() if TREE.exists() else []:
        if old != BUILD.parent:
            shutil.rmtree(old) if old.is_dir() else old.unlink()
    for name in listed.stdout.decode().split("\0"):
        source = ROOT / name
        if name and source.is_file():
            target = TREE / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
    for mutant in mutants:
        touch(TREE / mutant["file"])


def build(target):
    env = {**os.environ, "CCACHE_BASEDIR": str(TREE), "CCACHE_NOHASHDIR": "1", "CCACHE_PCH_EXTSUM": "1",
           "CCACHE_SLOPPINESS": "pch_defines,time_macros,include_file_mtime,include_file_ctime"}
    if not (BUILD / "build.ninja").exists():
        subprocess.run(["cmake", "--preset", "release"], cwd=TREE, check=True, stdout=subprocess.DEVNULL)
    jobs = os.environ.get("RAYO_JOBS", str(os.cpu_count()))
    return subprocess.run(["ninja", "-C", BUILD, "-j", jobs, target], env=env, capture_output=True, text=True)


def test(target):
    """The names of the cases that fail; none: all pass."""
    try:
        result = subprocess.run([BUILD / "bin" / target, "--gtest_brief=1"], capture_output=True, text=True, errors="replace", timeout=TEST_WITHIN)
    except subprocess.TimeoutExpired:
        return [f"(no end within {TEST_WITHIN} s)"]
    failed = sorted({line.split()[3].rstrip(",") for line in result.stdout.splitlines() if line.startswith("[  FAILED  ]") and len(line.split()) > 3})
    ended = f"a crash, signal {-result.returncode}" if result.returncode < 0 else f"exit code {result.returncode}"
    return failed if failed or result.returncode == 0 else [ended]


def touch(path):
    os.utime(path, (time.time(), time.time()))  # newer than what was built from it


def try_one(mutant):
    """(found, what the line says)"""
    path = TREE / mutant["file"]
    right = path.read_text()
    begin = time.monotonic()
    try:
        path.write_text(right.replace(mutant["old"], mutant["new"]))
        touch(path)
        built = build(mutant["test"])
        if built.returncode != 0:
            return False, "does not compile: write the change so that it does\n" + built.stdout[-2000:]
        failed = test(mutant["test"])
    finally:
        path.write_text(right)
        touch(path)
    if not failed:
        return False, f"SURVIVED {mutant['test']}: {mutant['loses']}, and no test tells"
    return True, f"found by {failed[0]}" + (f" and {len(failed) - 1} more" if len(failed) > 1 else "") + f" ({time.monotonic() - begin:.0f} s)"


def main(arguments):
    mutants = tomllib.loads((ROOT / "tests" / "mutants" / "mutants.toml").read_text())["mutant"]
    wrong = list(misplaced(mutants))
    print("\n".join(wrong) or f"{len(mutants)} changes have their place")
    if wrong or arguments == ["--check"]:
        return 1 if wrong else 0
    chosen = [m for m in mutants if not arguments or any(word in m["name"] or word in m["file"] for word in arguments)]
    copy_tree(mutants)
    for target in sorted({m["test"] for m in chosen}):
        built = build(target)
        failed = test(target) if built.returncode == 0 else [built.stdout[-2000:]]
        if failed:
            print(f"{target} fails without any change: {', '.join(failed)}")
            return 1
    survivors = 0
    for mutant in chosen:
        found, told = try_one(mutant)
        survivors += not found
        print(f"{mutant['name']}: {told}", flush=True)
    print(f"mutants: {len(chosen) - survivors} found, {survivors} not")
    return 1 if survivors or not chosen else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
