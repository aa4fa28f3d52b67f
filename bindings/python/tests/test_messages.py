"""The library's warnings reach Python's logging."""

import logging
import os
import subprocess
import sys
import time

import pytest
import thalweg

#: Seconds; a limit for hangs.
LIMIT = 120


def write_with(path, parameter):
    """Writes a step with an unknown parameter, which is a warning of its own."""
    with thalweg.Writer(path, parameters=f"{parameter}=1") as w, w.step() as s:
        s["n"] = 1


def about(caplog, parameter):
    """The records that name a parameter."""
    return [record for record in caplog.records if parameter in record.getMessage()]


def test_a_warning_is_a_record_of_the_logger_thalweg_once(path, caplog):
    caplog.set_level(logging.DEBUG, logger="thalweg")
    for _ in range(2):
        write_with(path, "parameter_of_nobody")
    # Messages come in order, from another thread: with the later one every earlier one is there.
    write_with(path, "parameter_behind_it")
    began = time.monotonic()
    while not about(caplog, "parameter_behind_it"):
        assert time.monotonic() - began < LIMIT, caplog.records
        time.sleep(0.01)
    (record,) = about(caplog, "parameter_of_nobody")
    assert (record.name, record.levelno, record.levelname) == ("thalweg", logging.WARNING, "WARNING")
    text = record.getMessage()
    assert text.startswith('group "data", method MPI: unknown parameter of method MPI "parameter_of_nobody"'), text
    assert text.endswith("; it is left out"), text


TEXT = "a file keeps the statistics it began with (variable T, file stats=on, asked stats=off)"

PROGRAM = """
import logging, sys
import numpy as np
import thalweg

def write(mode, statistics, steps):
    schema = thalweg.Schema("plate", statistics=statistics).array("T", "f8", count=3)
    with thalweg.Writer(sys.argv[1], schema, mode=mode) as w:
        for _ in range(steps):
            with w.step() as s:
                s["T"] = np.arange(3.0)

if sys.argv[2]:
    logging.basicConfig(format=sys.argv[2])
write("w", "full", 1)
write("a", "off", 2)
"""


@pytest.mark.parametrize(
    "log, form, lines",
    [
        (None, "", [TEXT]),
        (None, "%(name)s %(levelname)s %(message)s", ["thalweg WARNING " + TEXT]),
        ("info", "", [TEXT, TEXT]),
        ("off", "", []),
    ],
)
def test_a_program_prints_what_its_logging_prints(path, log, form, lines):
    variables = ("THALWEG_LOG", "THALWEG_LOG_FILE", "THALWEG_ERRORS")
    environment = {k: v for k, v in os.environ.items() if k not in variables}
    if log is not None:
        environment["THALWEG_LOG"] = log
    command = [sys.executable, "-c", PROGRAM, path, form]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=LIMIT, check=False)
    assert (done.returncode, done.stderr.splitlines()) == (0, lines)


def test_each_process_has_a_log_file_beside_its_logging(path, tmp_path):
    log = tmp_path / "log"
    environment = os.environ | {"THALWEG_LOG": "warn", "THALWEG_LOG_FILE": str(log)}
    command = [sys.executable, "-c", PROGRAM, path, ""]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=LIMIT, check=False)
    assert (done.returncode, done.stderr.splitlines()) == (0, [TEXT])
    (line,) = (tmp_path / "log.0").read_text().splitlines()
    assert line.endswith(f"Z warn {TEXT}")
    assert not log.exists()
