"""Mounts in Python programs."""

import os
import subprocess
import sys

GOES_ELSEWHERE = """
import os
import thalweg
os.chdir("/")
with thalweg.Writer("/moved/x.bp") as w, w.step() as step:
    step["n"] = 3
with thalweg.open("/moved/x.bp") as f:
    print(f["n"][0])
"""


def test_a_relative_mount_table_holds_wherever_the_program_goes(tmp_path):
    (tmp_path / "store").mkdir()
    table = f'[[mount]]\npath = "/moved"\nlayout = "direct"\nstore = "posix:{tmp_path}/store"\n'
    (tmp_path / "mounts.toml").write_text(table)
    done = subprocess.run(
        [sys.executable, "-c", GOES_ELSEWHERE],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"THALWEG_MOUNTS": "mounts.toml"},
    )
    assert (done.returncode, done.stdout) == (0, "3\n"), done.stderr
    assert (tmp_path / "store" / "x.bp").exists()
