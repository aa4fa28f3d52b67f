"""A run whose steps a staging server holds, followed through that server."""

import re
import subprocess
import sys

from conftest import ROOT

WRITER = """
import numpy as np, sys, thalweg
values = np.arange(1 << 20, dtype="f8").reshape(1024, 1024)
with thalweg.Writer(sys.argv[1], method="STAGING", parameters=f"partition={sys.argv[2]};promise=held") as w:
    for n in range(21):
        with w.step() as s:
            for rows in (slice(0, 300), slice(300, 1024)):
                s.write("u", values[rows] + n, shape=values.shape, offset=(rows.start, 0))
"""


def sent(call, configuration):
    """Bytes that the server has sent to clients."""
    return int(re.search(r"bytes received, (\d+) sent", call("status", str(configuration)))[1])


def test_the_guides_program_gets_what_it_asks_for_and_no_more(staging, tmp_path):
    configuration, environment, through_the_mount, call = staging
    file = tmp_path / "run7" / "gs.bp"
    subprocess.run([sys.executable, "-c", WRITER, file, configuration], env=environment, check=True)
    page = (ROOT / "docs" / "guide" / "staging.md").read_text()
    programs = re.findall(r"^```python\n(.*?)^```", page, re.M | re.S)
    program, with_digits = (program.replace("/lustre/run7", str(file.parent)) for program in programs)
    assert str(file) in program
    program = f"import thalweg\n{program}    print(step.number, coarse.shape, coarse.sum())\n"
    before = sent(call, configuration)
    told = subprocess.run(
        [sys.executable, "-c", program], env=through_the_mount, check=True, capture_output=True, text=True
    ).stdout
    elements = 128 * 128
    first = sum(1024 * y + x for y in range(0, 1024, 8) for x in range(0, 1024, 8))
    assert told.splitlines() == [f"{n} (128, 128) {float(first + n * elements)}" for n in (0, 10, 20)]
    assert sent(call, configuration) - before < 3 * 8 * elements + (64 << 10)
    before = sent(call, configuration)
    program = f"import thalweg\n{with_digits}    print(step.number, rough.shape, rough.max())\n"
    told = subprocess.run(
        [sys.executable, "-c", program], env=through_the_mount, check=True, capture_output=True, text=True
    ).stdout
    assert [line.split(" ", 1)[0] for line in told.splitlines()] == [str(n) for n in range(21)]
    # Of the largest number, 2^20 + 19, the first 12 digits of the fraction stay.
    assert told.splitlines()[-1] == "20 (1024, 1024) 1048576.0"
    assert sent(call, configuration) - before < 21 * (3 << 20) + (1 << 20)
