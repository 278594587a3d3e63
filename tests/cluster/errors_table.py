"""docs/errors.md as data: what is promised for an input, by the id of its row.

    expect("port_taken", result)                 # of a command: exit code and both lines
    expect("infeasible", code, text)             # of anything else: what is seen
"""
import re

from conftest import ROOT


def rows(title):
    """[id, input, code, text, try] of each row of one table."""
    table = (ROOT / "docs" / "errors.md").read_text().split(f"## {title}\n", 1)[1].split("\n## ", 1)[0]
    found = []
    for line in table.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
        if len(cells) == 5 and re.fullmatch(r"[a-z_0-9]+", cells[0]) and cells[0] != "id":
            found.append(cells)
    return found


def fits(pattern, text):
    """`...` stands for anything."""
    pattern = pattern.strip("`")
    return re.fullmatch(".*".join(re.escape(part) for part in pattern.split("...")), text, re.DOTALL)


def expect(row_id, seen, text=None, next_step=None):
    row = {row[0]: row for title in ("Rows", "Elsewhere") for row in rows(title)}[row_id]
    code = seen if text is not None else seen.code
    if text is None:
        text, next_step = seen.error
    assert str(code) in row[2].split(", "), f"{row_id}: {row[2]}\n{seen!r}"
    assert fits(row[3], text), f"{row_id}: {row[3]}\n{text}"
    assert next_step is None or fits(row[4], next_step), f"{row_id}: {row[4]}\n{next_step}"
