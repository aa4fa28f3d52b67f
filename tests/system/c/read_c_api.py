"""Reads with adios2 what the C programs beside this file wrote, and exits 1 where a value differs.

read_c_api.py heat FILE STEPS | more FILE RANKS
"""

import sys

import adios2
import numpy as np

ROWS, NX = 12, 600


def equal(what, read, wanted):
    if not np.array_equal(np.asarray(read).ravel(), np.asarray(wanted).ravel()):
        sys.exit(f"{what}: adios2 reads {np.asarray(read).ravel()[:12]}, written was {np.asarray(wanted).ravel()[:12]}")


def heat(path, steps):
    with adios2.FileReader(path) as file:
        facts = file.available_variables()
        equal("steps", [int(facts["t"]["AvailableStepsCount"])], [steps])
        for step in range(steps):
            row, column = np.mgrid[0:ROWS, 0:NX]
            one = [step, 1]
            equal("t", file.read("t", [0, 0], [ROWS, NX], step_selection=one), 10000.0 * step + 100.0 * row + column)
            if "kept" in facts:
                equal("kept", file.read("kept", [0, 0], [ROWS, NX], step_selection=one), step - 100.0 * row - column)
            equal("time", file.read("time", step_selection=one), [0.5 * step])
            equal("large", file.read("large", step_selection=one), [1 << 40])
            equal("mark", file.read("/local/mark", block_id=0, step_selection=one), [0, 200])
            if (note := file.read("note", step_selection=one)) not in (f"step {step}", [f"step {step}"]):
                sys.exit(f"note: {note}")
        equal("minimum of t", [float(facts["t"]["Min"])], [0.0])
        equal("maximum of t", [float(facts["t"]["Max"])], [10000.0 * (steps - 1) + 100.0 * (ROWS - 1) + NX - 1])
        if (units := file.read_attribute_string("/t/units")) not in ("K", ["K"]):
            sys.exit(f"units: {units}")


def more(path, ranks):
    with adios2.FileReader(path) as file:
        equal("lent", file.read("lent"), np.arange(1000.0 * ranks))
        for level in (1, 2):
            equal("level", file.read(f"/level{level}/level"), [level])
            for rank in range(ranks):
                equal("cells", file.read(f"/level{level}/cells", block_id=rank), [level, 10 * level + rank])
        equal("triple", file.read_attribute("triple"), [3, -2, 1])
        names = file.read_attribute_string("names")
        if list(names) != ["first", "second one"]:
            sys.exit(f"names: {names}")


if __name__ == "__main__":
    {"heat": heat, "more": more}[sys.argv[1]](sys.argv[2], int(sys.argv[3]))
