"""`thalweg convert` to CSV and Parquet: variables as columns, read by pandas and Arrow."""

import json

import numpy as np
import pytest
import thalweg
from test_convert import convert  # noqa: F401  (a fixture)

pd = pytest.importorskip("pandas")


def table(path):
    if path.suffix == ".csv":
        return pd.read_csv(path, keep_default_na=True)
    return pytest.importorskip("pyarrow.parquet").read_table(path).to_pandas()


@pytest.mark.parametrize("name", ["x.csv", "x.parquet"])
def test_single_values_are_a_row_for_each_step_and_the_rest_is_named(run, convert, tmp_path, name):  # noqa: F811
    told, remarks = convert(run, name)
    assert (told["variables"], told["steps"]) == (3, 4)
    assert "--only" in remarks["odd"] and "axes" in remarks["T"]
    found = table(tmp_path / name)
    assert list(found) == ["step", "time", "count", "title"]
    assert list(found["step"]) == [0, 1, 2, 3]
    assert list(found["time"]) == [0.0, 0.5, 1.0, 1.5]
    assert list(found["count"]) == [0, 1, 2, 3]
    assert list(found["title"]) == [f"Schritt {n} ü" for n in range(4)]
    assert ("attributes" in remarks) == (name == "x.csv")


@pytest.mark.parametrize("name", ["x.csv", "x.parquet"])
def test_arrays_are_a_row_for_each_element_beside_single_values(run, convert, tmp_path, name):  # noqa: F811
    convert(run, name, "--only", "odd,time")
    found = table(tmp_path / name)
    assert list(found) == ["step", "dim_0", "time", "odd"] or list(found)[2:] == ["time", "odd"]
    assert len(found) == 4 * 5
    assert list(found["time"]) == [0.5 * n for n in range(4) for _ in range(5)]
    for n in range(4):
        odd = found["odd"][5 * n : 5 * n + 5]
        # It was not written in every step.
        assert odd.isna().all() if n % 2 == 0 else list(odd) == list(np.arange(5) * n)
    convert(run, name, "--only", "psi", "--steps", "1:3", "--force")
    found = table(tmp_path / name)
    np.testing.assert_array_equal(found["psi.re"] + 1j * found["psi.im"], [k + 1j * n for n in (1, 2) for k in range(6)])
    assert sorted(set(found["step"])) == [1, 2]
    convert(run, name, "--only", "T", "--region", "T[3, :]", "--force")
    found = table(tmp_path / name)
    np.testing.assert_array_equal(found["T"], thalweg.open(run)["T"][:, 3, :].ravel())


@pytest.mark.parametrize("name", ["x.csv", "x.parquet"])
def test_numbers_of_every_type_are_in_tables_what_they_are(convert, tmp_path, name):  # noqa: F811
    kinds = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8"]
    rng = np.random.default_rng(2)
    wanted = {}
    for kind in kinds:
        if kind[0] == "f":
            wanted[kind] = np.concatenate([rng.standard_normal(20).astype(kind) * 1e30, [np.nan, np.inf, -np.inf, -0.0]]).astype(kind)
        else:
            limits = np.iinfo(kind)
            wanted[kind] = np.concatenate([rng.integers(limits.min, limits.max, 22, dtype=kind, endpoint=True), [limits.min, limits.max]]).astype(kind)
    with thalweg.Writer(tmp_path / "a.bp") as w:
        w.attribute("units", "m/s", of="f8")
        w.attribute("code", "heat")
        for n in range(24):
            with w.step() as s:
                for kind in kinds:
                    s[kind] = wanted[kind][n]
    convert("a.bp", name)
    found = table(tmp_path / name)
    for kind in kinds:
        values = found[kind].to_numpy()
        np.testing.assert_array_equal(values.astype(kind), wanted[kind], err_msg=kind)
        if name.endswith("parquet"):
            assert values.dtype == kind
    if name.endswith("parquet"):
        parquet = pytest.importorskip("pyarrow.parquet")
        said = json.loads(parquet.read_schema(tmp_path / name).metadata[b"attributes"])
        assert said[""]["code"] == "heat" and said["f8"]["units"] == "m/s"


@pytest.mark.parametrize("name", ["x.csv", "x.parquet"])
def test_little_memory_is_enough_for_tables_of_many_steps(convert, tmp_path, name):  # noqa: F811
    values = np.random.default_rng(3).random((40, 20_000))
    with thalweg.Writer(tmp_path / "a.bp") as w:
        for row in values:
            with w.step() as s:
                for first in range(0, 20_000, 5_000):
                    s.write("v", row[first : first + 5_000], shape=(20_000,), offset=(first,))
    convert("a.bp", name, "--memory", "1MiB")
    found = table(tmp_path / name)
    np.testing.assert_array_equal(found["v"], values.ravel())
    np.testing.assert_array_equal(found["step"], np.repeat(np.arange(40), 20_000))
    if name.endswith("parquet"):
        parquet = pytest.importorskip("pyarrow.parquet")
        assert parquet.ParquetFile(tmp_path / name).num_row_groups > 5


@pytest.mark.parametrize("name", ["x.csv", "x.parquet"])
def test_columns_have_names_of_their_own(convert, tmp_path, name):  # noqa: F811
    with thalweg.Writer(tmp_path / "a.bp") as w:
        for n in range(3):
            with w.step() as s:
                s["step"] = 100 * n
                s.write("x", np.arange(4.0), dims=("x",))
    convert("a.bp", name, "--only", "step,x")
    found = table(tmp_path / name)
    assert list(found)[:2] == ["step_", "x_"] and set(found) == {"step_", "x_", "step", "x"}
    assert list(found["step_"]) == [n for n in range(3) for _ in range(4)]
    assert list(found["step"]) == [100 * n for n in range(3) for _ in range(4)]
    assert list(found["x_"]) == [0, 1, 2, 3] * 3


def test_what_tables_cannot_do_is_refused(run, convert, tmp_path):  # noqa: F811
    assert "written and not read" in convert("x.csv", "x.bp", expect=2)
    assert "--chunks" in convert(run, "x.csv", "--chunks", "T=4x4", expect=2)
    assert "zstd and none" in convert(run, "x.parquet", "--transform", "time=zlib:3", expect=3)
    assert not (tmp_path / "x.parquet").exists()
    convert(run, "x.parquet", "--transform", "*=none")
    assert "--force replaces it" in convert(run, "x.parquet", expect=3)


def test_texts_with_commas_quotes_and_lines_are_one_cell(convert, tmp_path):  # noqa: F811
    texts = ["plain", "a,b", 'he said "no"', "two\nlines", " spaces ", "ü€"]
    with thalweg.Writer(tmp_path / "a.bp") as w:
        for text in texts:
            with w.step() as s:
                s["text"] = text
    convert("a.bp", "x.csv")
    assert list(pd.read_csv(tmp_path / "x.csv")["text"]) == texts
