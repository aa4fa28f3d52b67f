"""What the guide shows does what it says."""

import os
import re

import pytest
from conftest import ROOT

GUIDE = ROOT / "docs" / "guide"


@pytest.mark.parametrize("page", ["python", "coming-from-adios2", "coming-from-hdf5", "windows", "converting"])
def test_the_programs_of_the_guide_run(page, tmp_path, monkeypatch, capsys, prefix):
    text = (GUIDE / f"{page}.md").read_text()
    programs = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
    assert programs
    if "mpi4py" in text or "xarray" in text:
        pytest.importorskip("mpi4py")
        pytest.importorskip("xarray")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(prefix / "bin"), prepend=os.pathsep)
    if page == "converting" and not (prefix / "bin" / "thalweg-convert").exists():
        pytest.skip("thalweg-convert: HDF5 is missing")
    monkeypatch.setenv("THALWEG_CACHE", str(ROOT / "build" / "python-shims"))
    names = {}
    for program in programs:
        exec(compile(program, f"{page}.md", "exec"), names)
    if page == "python":
        said = capsys.readouterr().out
        assert 'no variable of that name ("temperature") in run.bp' in said
        assert len(re.findall(r"^[0-3] ", said, re.M)) == 4
