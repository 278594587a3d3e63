#!/usr/bin/env python3
"""Adds up the XML results of gtest, ctest and pytest and prints the closing line.

usage: count_results.py FOLDER [FAILED_STAGE...]     exit 1 if anything failed or a stage did
"""
import pathlib
import sys
import xml.etree.ElementTree as ElementTree


def cases(file):
    """(name, outcome) of each test case of one XML file."""
    for case in ElementTree.parse(file).iter("testcase"):
        name = f"{case.get('classname')}.{case.get('name')}"
        if case.find("failure") is not None or case.find("error") is not None or case.get("status") == "fail":
            yield name, "failed"
        elif case.find("skipped") is not None or case.get("status") in ("notrun", "disabled") or case.get("result") == "skipped":
            yield name, "skipped"
        else:
            yield name, "passed"


def main(folder, failed_stages):
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for file in sorted(pathlib.Path(folder).rglob("*.xml")):
        is_ctest = file.name.endswith(".ctest.xml")
        for name, outcome in cases(file):
            # A gtest program is one ctest entry: its cases are counted from its own file, the entry only where it failed
            # (it may have crashed before it wrote one).
            if is_ctest and name.split(".")[-2:-1] == ["unit"] and outcome == "passed":
                continue
            counts[outcome] += 1
            if outcome == "failed":
                print(f"failed: {file.name}: {name}")
    for stage in failed_stages:
        print(f"failed stage: {stage}")
    if failed_stages and counts["failed"] == 0:
        counts["failed"] = len(failed_stages)
    print(f"rayo: {counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
