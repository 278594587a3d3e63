#!/usr/bin/env python3
"""Runs the benchmarks of build/release/bin and prints one table.

usage: bench/run.py [--strict] [NAME...]     those *_bench whose name contains a NAME; default: all

Writes build/release/bench.json (bench/harness.h has its shape). Exit 1: a program failed, or with --strict a row is beyond its
budget by more than 30 %.
"""
import json
import os
import pathlib
import subprocess
import sys

SLACK = 0.30
LIMIT_S = 900  # of one program
PEERS = pathlib.Path(__file__).resolve().parent / "peers"
BIN = pathlib.Path(__file__).resolve().parent.parent / "build" / "release" / "bin"


def judged(row):
    return row["value"] if row["ratio"] is None else row["ratio"]


def far_off(row):
    if row["better"] == "lower":
        return judged(row) > row["budget"] * (1 + SLACK)
    return judged(row) < row["budget"] * (1 - SLACK)


def line(row):
    value = f"{row['value']:,.4g} {row['unit']}" if row["value"] < 1e4 else f"{row['value']:,.0f} {row['unit']}"
    if row["ratio"] is None:
        against = ""
        budget = f"{row['budget']:g} {row['unit']}"
    else:
        against = f"{row['ratio']:.2f} x {row['reference']['name']}"
        budget = f"{row['budget']:g} x"
    sign = "<=" if row["better"] == "lower" else ">="
    verdict = "holds" if row["holds"] else ("FAR OFF" if far_off(row) else "over")
    return f"{row['name']:<44}{value:>22}  {against:<46} {sign} {budget:<12} {verdict}"


def environment(program):
    """What llm_bench measures against is built when it is first asked for, which takes minutes."""
    if program.name != "llm_bench" or "RAYO_BENCH_LLAMA_SERVER" in os.environ:
        return os.environ
    built = subprocess.run([PEERS / "llama_server.sh"], stdout=subprocess.PIPE, text=True)
    return {**os.environ, "RAYO_BENCH_LLAMA_SERVER": built.stdout.strip()}


def run(program, failed):
    """The program's rows; what went wrong is appended to `failed`, and costs only the rows that it concerns."""
    print(f"-- {program.name}", file=sys.stderr, flush=True)
    try:
        done = subprocess.run([program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=LIMIT_S, env=environment(program))
        if done.returncode != 0:
            last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
            failed.append(f"{program.name} ended with {done.returncode}: {last}")
        return json.loads(done.stdout) if done.stdout.strip() else []
    except subprocess.TimeoutExpired:
        failed.append(f"{program.name} was not done in {LIMIT_S} s")
    except json.JSONDecodeError as error:
        failed.append(f"{program.name} printed no list of rows: {error}")
    return []


def main(arguments):
    strict = "--strict" in arguments
    names = [a for a in arguments if not a.startswith("--")]
    programs = [p for p in sorted(BIN.glob("*_bench")) if not names or any(n in p.name for n in names)]
    if not programs:
        print(f"rayo: no benchmark fits {names or 'build/release/bin'}: nothing was run\ntry: ./dev build", file=sys.stderr)
        return 2
    rows, failed = [], []
    for program in programs:
        rows += run(program, failed)
    for row in rows:
        print(line(row))
    (BIN.parent / "bench.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    for text in failed:
        print(f"rayo: a benchmark failed: {text}", file=sys.stderr)
    return 1 if failed or (strict and any(far_off(row) for row in rows)) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
