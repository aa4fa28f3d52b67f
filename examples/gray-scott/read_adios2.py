"""Reads a plane of the last step with adios2 and compares it with what `thalweg dump --npy` saved.

read_adios2.py FILE.bp VARIABLE PLANE SLICE.npy
"""

import sys

import adios2
import numpy as np


def main():
    path, name, plane, saved = sys.argv[1], sys.argv[2], int(sys.argv[3]), np.load(sys.argv[4])
    with adios2.FileReader(path) as file:
        facts = file.available_variables()[name]
        steps, shape = int(facts["AvailableStepsCount"]), [int(n) for n in facts["Shape"].split(",")]
        values = file.read(name, [plane, 0, 0], [1, *shape[1:]], step_selection=[steps - 1, 1])
        units = file.read_attribute_string(f"/{name}/units")
    if not np.array_equal(values.ravel(), saved.ravel()):
        sys.exit(f"{path}: adios2 reads other values of {name} than thalweg dump wrote to {sys.argv[4]}")
    print(f"{path}: adios2 {adios2.__version__} sees {steps} steps of {name} {shape}, units {units}; its plane {plane} is equal")


if __name__ == "__main__":
    main()
