"""docs/python_examples.md names a test for what each page of Ray teaches. If this fails, it names one that is not there, and a
reader who looks for an example finds none."""

import pathlib
import re

_ROOT = pathlib.Path(__file__).resolve().parents[2]


def _named():
    """[(file, what it says of its tests)] of the table's second column: `file.py`: a test; another one. Remarks follow a full stop."""
    for line in (_ROOT / "docs" / "python_examples.md").read_text().splitlines():
        cells = line.split(" | ")
        if len(cells) < 2 or not line.startswith("| "):
            continue
        file = None
        for part in re.split(r"; ", cells[1].split(". ")[0].rstrip(" |")):
            if found := re.match(r"`([\w/]+_test\.py)`(?:: (.*))?", part):
                file, part = found[1], found[2]
            if file and part and not part.startswith("missing"):
                yield file, part


def _tests(file):
    path = _ROOT / file if "/" in file else _ROOT / "tests" / "python" / file
    text = path.read_text()
    return set(re.findall(r"^def (test_\w+)", text, re.M)), set(re.findall(r"^# ---- (.*) ----$", text, re.M))


def test_every_test_that_the_table_names_is_there():
    named = list(_named())
    missing = []
    for file, told in named:
        tests, sections = _tests(file)
        under = re.fullmatch(r'the tests under "(.*)"', told)
        name = "test_" + re.sub(r"\W+", "_", told.replace("'", "")).strip("_").lower()
        if under and under[1] in sections or name in {test.lower() for test in tests}:
            continue
        missing.append(f"{file}: {told}")
    assert missing == [] and len(named) > 60
