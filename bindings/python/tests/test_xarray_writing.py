"""Datasets of xarray written to BP files: what opens again is what was written."""

import os
import pickle
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import pytest
import thalweg

xr = pytest.importorskip("xarray")
dask = pytest.importorskip("dask")
pd = pytest.importorskip("pandas")

import dask.array as da  # noqa: E402
import thalweg.xarray  # noqa: E402


def opened(path, **how):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return xr.open_dataset(path, engine="thalweg", **how)


def model():
    """A dataset with a bit of everything."""
    random = np.random.default_rng(5)
    return xr.Dataset(
        {
            "T": (("time", "y", "x"), random.random((3, 4, 5)), {"units": "K", "valid_range": [0.0, 1.0]}),
            "small": ("x", np.arange(5, dtype="i1")),
            "great": ("x", np.arange(5, dtype="u8") + 2**63),
            "mask": ("x", np.array([True, False, True, True, False])),
            "psi": ("x", np.arange(5) + 1j),
            "psi4": ("x", (np.arange(5) - 1j).astype("c8")),
            "gaps": ("x", np.array([1, np.nan, 3, -np.inf, np.inf], "f4")),
            "other_order": ("x", np.arange(5, dtype=">f8")),
            "long": ("x", np.arange(5, dtype=np.longdouble) / 3),
            "dt": ((), 3.5, {"long_name": "length of a step"}),
            "on": ((), True),
            "title": ((), "größer"),
            "no_title": ((), ""),
            "code": ((), b"abc"),
            "start": ((), np.datetime64("2020-01-01T00:00:00.123456789")),
            "names": (("y", "x"), np.array(["a", "bb", "", "größe"] * 5).reshape(4, 5)),
            "objects": ("x", np.array(["a", "bb", "", "größe", "x"], object)),
            "bytes": ("x", np.array([b"a", b"bb", b"", b"\xff\x01", b"x"])),
            "letters": ("x", np.array([b"a", b"b", b"c", b"d", b""])),
            "none": (("nothing", "x"), np.zeros((0, 5))),
            "no_names": ("nothing", np.array([], "U5")),
            "no_times": ("nothing", np.array([], "M8[ns]")),
            "age": ("x", pd.to_timedelta([1, 2, 3, 4, 5], "h").values),
            "seen": ("x", np.array(["2020-01-01", "NaT", "2020-01-03T12:00:00.000000001", "NaT", "2021"], "M8[ns]")),
        },
        coords={
            "time": ("time", pd.date_range("2000-01-01", periods=3), {"axis": "T"}),
            "x": np.linspace(0, 1, 5),
            "y": list("abcd"),
            "lat": (("y", "x"), random.random((4, 5)), {"units": "degrees_north"}),
            "height": 2.0,
            "label": ("x", list("vwxyz")),
            "lonely": ("nowhere", [1, 2]),
        },
        attrs={
            "title": "made up ü",
            "T": "the name of a variable",
            "number": 3,
            "numbers": [1, 2, 3],
            "texts": ["a", "b"],
            "one text": ["x"],
            "small": np.float32(0.1),
            "array": np.arange(3.0),
            "empty": "",
            "flag": True,
        },
    )


def test_a_dataset_opens_as_it_was_written(path):
    ds = model()
    ds.thalweg.to_bp(path)
    xr.testing.assert_identical(opened(path).load(), ds)
    xr.testing.assert_identical(opened(path, chunks={}).load(), ds)
    again = opened(path)
    for name, variable in ds.variables.items():
        kind = again[name].dtype.kind
        assert kind == ("O" if variable.dtype.kind == "U" else variable.dtype.kind), name
        if kind not in "OSM":
            assert again[name].dtype == variable.dtype.newbyteorder("="), name


def test_what_was_opened_is_written_again(path, tmp_path):
    ds = model()
    ds.thalweg.to_bp(path)
    copy = str(tmp_path / "copy.bp")
    opened(path).thalweg.to_bp(copy)
    xr.testing.assert_identical(opened(copy).load(), ds)


@pytest.mark.parametrize(
    "ds",
    [
        xr.Dataset(),
        xr.Dataset(attrs={"a": 1}),
        xr.Dataset(coords={"x": [1, 2, 3]}),
        xr.Dataset({"v": (("a", "b"), np.ones((2, 3)))}),
        xr.Dataset({"v": (("a", "b"), np.ones((3, 3))), "w": ("b", np.ones(3)), "u": ("a", np.ones(3))}),
        xr.Dataset({"v": ("step", np.arange(4)), "step_1": ("step", np.arange(4))}, coords={"step": [1, 2, 3, 4]}),
        xr.Dataset({"a/b/v": ("x", [1, 2], {"units": "m"}), "a": 3, "a/c": ("x", [3, 4])}, attrs={"k": 1}),
        xr.Dataset({"v": ("string3", ["abc", "de", "f"])}),
    ],
    ids=["empty", "attributes", "coordinates", "plain", "equal lengths", "step", "slashes", "string"],
)
def test_small_datasets_open_as_they_were_written(path, ds):
    ds.thalweg.to_bp(path)
    xr.testing.assert_identical(opened(path).load(), ds)


def test_an_array_is_written_with_its_name(path):
    array = xr.DataArray(np.arange(6.0).reshape(2, 3), dims=("y", "x"), name="v", coords={"x": [1, 2, 3]})
    thalweg.from_xarray(array, path)
    xr.testing.assert_identical(opened(path)["v"].load(), array)
    with pytest.raises(thalweg.InvalidArgument, match="no name"):
        array.rename(None).thalweg.to_bp(path, mode="w")


def test_times_of_other_calendars_are_written(path):
    pytest.importorskip("cftime")
    time = xr.date_range("2000-02-27", periods=4, calendar="noleap", use_cftime=True)
    ds = xr.Dataset({"v": ("time", np.arange(4))}, coords={"time": time})
    ds.thalweg.to_bp(path)
    xr.testing.assert_identical(opened(path).load(), ds)
    assert thalweg.open(path)["time"].attrs["calendar"] == "noleap"


def of_iris():
    return pytest.importorskip("iris_sample_data").path


@pytest.mark.parametrize("way", ["from memory", "lazily", "in chunks"])
def test_real_data_open_as_they_were_written(path, way):
    pytest.importorskip("netCDF4")
    found = []
    for folder, _, files in os.walk(of_iris()):
        for name in sorted(files):
            if name.endswith(".nc"):
                # netCDF4 closes a file that nobody holds from whichever thread collects it, beside another one's call of HDF5.
                with xr.open_dataset(os.path.join(folder, name), chunks={} if way == "in chunks" else None) as ds:
                    if way == "from memory":
                        ds.load()
                    ds.thalweg.to_bp(path, mode="w")
                    xr.testing.assert_identical(opened(path).load(), ds.load())
                found.append(name)
    assert len(found) >= 13


# Encodings.


def test_values_are_packed_and_compressed_as_asked(path):
    ds = xr.Dataset(
        {"T": ("x", np.array([280.0, 281.5, np.nan])), "big": (("y", "x"), np.zeros((1000, 3)))},
        coords={"t": ("x", pd.date_range("2000", periods=3))},
    )
    ds.thalweg.to_bp(
        path,
        encoding={
            "T": {"dtype": "i2", "scale_factor": 0.5, "add_offset": 273.0, "_FillValue": -1},
            "big": {"transform": "zlib:5"},
            "t": {"units": "hours since 1999-12-31", "dtype": "i4"},
        },
    )
    f = thalweg.open(path)
    assert f["T"].dtype == np.int16 and list(f["T"][0]) == [14, 17, -1]
    assert f["t"].dtype == np.int32 and list(f["t"][0]) == [24, 48, 72]
    assert f["big"].transform == "zlib" and f["big"].blocks()[0].bytes < 1000
    xr.testing.assert_identical(opened(path).load(), ds)
    opened(path).thalweg.to_bp(path + "2")
    again = thalweg.open(path + "2")
    assert (again["T"].dtype, again["big"].transform) == (np.int16, "zlib")
    for wrong in ({"T": {"zlib": True}}, {"nothing": {}}, {"T": {"transform": "none such"}}, {"T": {"transform": 5}}):
        with pytest.raises(thalweg.Error, match='"T"|"nothing"'):
            ds.thalweg.to_bp(path, mode="w", encoding=wrong)
    xr.testing.assert_identical(opened(path).load(), ds)


# What is refused.

def surrogate():
    """Text that UTF-8 cannot say: xarray itself refuses to make it where pandas holds text in pyarrow's columns."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the option will go
        pd.set_option("future.infer_string", False)
        try:
            return xr.Dataset({"v": ("x", np.array(["a\ud800"], object))})
        finally:
            pd.reset_option("future.infer_string")


_ONE = ("x", [1])
REFUSED = {
    "float16": xr.Dataset({"v": ("x", np.ones(2, "f2"))}),
    "mixed objects": xr.Dataset({"v": ("x", np.array([1, "a"], object))}),
    "missing text": xr.Dataset({"v": ("x", np.array(["a", None], object))}),
    "dictionaries": xr.Dataset({"v": ("x", np.array([{}], object))}),
    "zero character": xr.Dataset({"v": ("x", np.array(["a\0"], object))}),
    "surrogate": surrogate(),
    "categories": xr.Dataset({"v": ("x", pd.Categorical(["a", "b"]))}),
    "records": xr.Dataset({"v": ("x", np.zeros(2, [("a", "i4")]))}),
    "coordinate with a space": xr.Dataset({"u": _ONE}, coords={"v w": _ONE}),
    "slash": xr.Dataset({"/v": _ONE}),
    "comma": xr.Dataset({"v,w": _ONE}),
    "comma in an attribute": xr.Dataset({"v": ("x", [1], {"a,b": 1})}),
    "number as name": xr.Dataset({1: _ONE}),
    "attribute None": xr.Dataset({"v": ("x", [1], {"a": None})}),
    "attribute without values": xr.Dataset({"v": ("x", [1], {"a": []})}),
    "attribute of two axes": xr.Dataset({"v": ("x", [1], {"a": np.ones((2, 2))})}),
    "attribute of float16": xr.Dataset({"v": ("x", [1], {"a": np.float16(1)})}),
    "attribute dict": xr.Dataset({"v": ("x", [1], {"a": {}})}),
    "attribute mixed": xr.Dataset({"v": ("x", [1], {"a": [1, "b"]})}),
    "attribute with a slash": xr.Dataset({"v": ("x", [1], {"a/b": 1})}),
    "attribute of the library": xr.Dataset({"v": ("x", [1], {"_ARRAY_DIMENSIONS": ["x"]})}),
    "attribute of the dataset": xr.Dataset({"v": _ONE}, attrs={"v": None}),
    "chunks of unknown size": xr.Dataset({"v": ("x", da.ones(4, chunks=2))}),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_a_file_cannot_hold_is_refused_before_anything_is_written(path, case):
    ds = REFUSED[case]
    if case == "chunks of unknown size":
        ones = ds["v"].data
        ds["v"] = xr.Variable("x", ones)
        ds["v"].variable._data = ones[ones > 0]
    xr.Dataset({"old": 1}).thalweg.to_bp(path)
    with pytest.raises((thalweg.WrongType, thalweg.InvalidArgument, thalweg.Config), match='"v|names of variables'):
        ds.thalweg.to_bp(path, mode="w")
    assert list(opened(path)) == ["old"]


def test_a_multiindex_is_refused_with_its_name(path):
    index = pd.MultiIndex.from_product([[1, 2], [3, 4]], names=("p", "q"))
    with pytest.raises(thalweg.WrongType, match='"places".*reset_index'):
        xr.Dataset(coords=xr.Coordinates.from_pandas_multiindex(index, "places")).thalweg.to_bp(path)
    assert not os.path.exists(path)


def test_modes_are_those_of_to_zarr(path):
    ds = xr.Dataset({"v": ("x", [1, 2])})
    ds.thalweg.to_bp(path)
    with pytest.raises(FileExistsError, match="exists"):
        ds.thalweg.to_bp(path)
    with pytest.raises(thalweg.AlreadyExists):
        ds.thalweg.to_bp(path, mode="w-")
    (ds + 1).thalweg.to_bp(path, mode="w")
    np.testing.assert_array_equal(opened(path)["v"], [2, 3])
    for wrong in (
        {"mode": "r"},
        {"mode": "w", "append_dim": "x"},
        {"mode": "w", "region": {"x": slice(0, 1)}},
        {"append_dim": "x", "region": {"x": slice(0, 1)}},
    ):
        with pytest.raises(thalweg.InvalidArgument):
            ds.thalweg.to_bp(path, **wrong)
    with pytest.raises(thalweg.Config, match="NONE_SUCH"):
        ds.thalweg.to_bp(path, mode="w", method="NONE_SUCH")
    with pytest.raises(thalweg.InvalidArgument, match="not int"):
        thalweg.from_xarray(3, path)
    np.testing.assert_array_equal(opened(path)["v"], [2, 3])


# Adding to a file.


def at(times, n=3, **more):
    """A dataset at some hours."""
    hours = np.asarray(times, float)
    return xr.Dataset(
        {
            "T": (("y", "time", "x"), np.arange(2)[:, None, None] + hours[:, None] + np.arange(n) / 10, {"units": "K"}),
            "event": ("time", [f"at {h:g}" for h in hours]),
            "mask": (("x",), np.arange(n) > 1),
            "dt": 0.5,
        },
        coords={
            "time": ("time", np.datetime64("2000-01-01", "ns") + (hours * 3600e9).astype("m8[ns]")),
            "x": np.arange(n) * 1.5,
        },
        attrs=more,
    )


def test_data_are_appended_along_a_dimension(path):
    at([0, 1]).thalweg.to_bp(path)
    at([2]).thalweg.to_bp(path, append_dim="time")
    at([3, 4, 5]).thalweg.to_bp(path, append_dim="time", mode="a")
    whole = at([0, 1, 2, 3, 4, 5])
    for how in ({}, {"chunks": {}}, {"chunks": {"time": 4}}):
        xr.testing.assert_identical(opened(path, **how).load(), whole)
    ds = opened(path)
    for key in (
        {"time": 3},
        {"time": -1, "x": 1},
        {"time": slice(1, 5), "y": 1},
        {"time": slice(None, None, -2)},
        {"time": [5, 0, 0, 3], "x": [2, 0]},
        {"time": []},
        {"time": slice(2, 2)},
        {"time": slice(0, 2)},
        {"time": xr.DataArray([4, 1], dims="p"), "x": xr.DataArray([0, 2], dims="p")},
    ):
        xr.testing.assert_identical(ds.isel(key).load(), whole.isel(key))
    # What did not change is there once.
    assert [thalweg.open(path)[n].steps for n in ("x", "mask", "dt", "T")] == [(0,), (0,), (0,), (0, 1, 2)]
    part = opened(path, step=1)
    assert part.attrs["step"] == 1
    xr.testing.assert_identical(part.drop_attrs(deep=False).load(), at([2]))


def test_steps_of_one_length_are_read_together(path):
    for n in range(5):
        at([2 * n, 2 * n + 1]).thalweg.to_bp(path, append_dim="time")
    whole = at(range(10))
    ds = opened(path)
    for key in (
        {},
        {"time": slice(2, 8)},
        {"time": slice(4, 6), "x": 1},
        {"time": slice(3, 8)},
        {"y": 0, "x": [2, 1]},
        {"x": []},
        {"y": []},
    ):
        xr.testing.assert_identical(ds.isel(key).load(), whole.isel(key))
    assert opened(path, chunks={})["T"].chunks == ((2,), (10,), (3,))


def test_appended_values_have_the_files_encoding(path):
    at([0, 1]).thalweg.to_bp(path, encoding={"T": {"dtype": "i2", "scale_factor": 0.1, "_FillValue": -1}})
    units = thalweg.open(path)["time"].attrs["units"]
    at([2]).thalweg.to_bp(path, append_dim="time")
    f = thalweg.open(path)
    assert (f["T"].dtype, f["time"].attrs["units"]) == (np.int16, units)
    np.testing.assert_allclose(opened(path)["T"], at([0, 1, 2])["T"])
    xr.testing.assert_identical(opened(path)["time"].load(), at([0, 1, 2])["time"])
    before = os.path.getsize(path)
    # Units of hours do not hold half a minute.
    with pytest.raises(thalweg.Error, match='"time"'), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        at([3 + 1 / 120]).assign(event=("time", ["?"])).thalweg.to_bp(path, append_dim="time")
    with pytest.raises(thalweg.InvalidArgument, match='encoding= of "T"'):
        at([3]).thalweg.to_bp(path, append_dim="time", encoding={"T": {"dtype": "f4"}})
    assert os.path.getsize(path) == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda ds: ds.drop_vars("T"), '"T" of the file has the dimension'),
        (lambda ds: ds.assign(T=ds["T"].astype("f4")), '"T" is double in the file, real in the data'),
        (lambda ds: ds.assign(T=ds["T"].transpose("time", "y", "x")), '"T" has the dimensions'),
        (lambda ds: ds.isel(x=slice(2)), "2 elements along 'x'"),
        (lambda ds: ds.assign(new=ds["T"] + 1), '"new" is not in the file'),
        (lambda ds: ds.assign(event=("time", ["much too long"])), '"event" has texts of 13 bytes'),
        (lambda ds: ds.assign(event=("time", [3])), '"event"'),
        (lambda ds: ds.isel(time=0, drop=True), '"T" has the dimensions'),
        (lambda ds: ds[["x"]], '"T" of the file has the dimension'),
    ],
)
def test_what_does_not_fit_is_not_appended(path, change, message):
    at([0, 1]).thalweg.to_bp(path)
    with pytest.raises(thalweg.Error, match=message):
        change(at([2])).thalweg.to_bp(path, append_dim="time")
    xr.testing.assert_identical(opened(path).load(), at([0, 1]))
    assert len(thalweg.open(path).steps) == 1


def test_further_variables_are_added_and_others_replaced(path):
    ds = at([0, 1], title="old")
    ds.thalweg.to_bp(path)
    more = xr.Dataset(
        {"new": ("x", [7, 8, 9]), "dt": ((), 0.25, {"units": "s", "list": ["a", "b"]})}, attrs={"title": "new"}
    )
    more.thalweg.to_bp(path, mode="a")
    wanted = ds.assign(new=more["new"], dt=more["dt"]).assign_attrs(title="new")
    xr.testing.assert_identical(opened(path).load(), wanted)
    more["dt"].attrs["units"] = "min"
    more.thalweg.to_bp(path, mode="a")
    xr.testing.assert_identical(opened(path)["dt"].load(), more["dt"])
    assert thalweg.open(path)["dt"].steps == (0, 1)
    at([2]).assign(dt=0.25).thalweg.to_bp(path, append_dim="time")
    assert opened(path).sizes["time"] == 3 and float(opened(path)["dt"]) == 0.25
    with pytest.raises(thalweg.Unsupported, match='"T" was appended along'):
        at([0]).thalweg.to_bp(path, mode="a")
    with pytest.raises(thalweg.InvalidArgument, match="4 elements along 'x'"):
        xr.Dataset({"newer": ("x", [1, 2, 3, 4])}).thalweg.to_bp(path, mode="a")


def test_a_simulations_file_gets_further_variables(run):
    xr.Dataset({"mean": ("y", np.arange(24.0))}).thalweg.to_bp(run, mode="a")
    with pytest.warns(UserWarning, match="particles"):
        ds = xr.open_dataset(run, engine="thalweg")
    assert ds["mean"].dims == ("y",) and ds["T"].dims == ("step", "y", "x")
    with pytest.raises(thalweg.Unsupported, match='"T" of the file was not written from xarray'):
        xr.Dataset({"T": (("y", "x"), np.zeros((24, 32)))}).thalweg.to_bp(run, mode="a")


def test_series_of_a_simulations_steps_have_its_dimension(run):
    with pytest.warns(UserWarning, match="particles"):
        ds = xr.open_dataset(run, engine="thalweg")
    ds["T"].max(("x", "y")).rename("greatest").thalweg.to_bp(run, mode="a")
    with pytest.warns(UserWarning, match="particles"):
        again = xr.open_dataset(run, engine="thalweg")
    assert again["T"].dims == ("step", "y", "x") and again["greatest"].dims == ("step",)
    np.testing.assert_array_equal(again["greatest"], ds["T"].max(("x", "y")))


def test_a_file_is_not_replaced_while_it_is_read(path):
    at([0, 1]).thalweg.to_bp(path)
    for how in ({}, {"chunks": {}}):
        with pytest.raises(thalweg.InvalidArgument, match=r"\.load\(\) first"):
            opened(path, **how).thalweg.to_bp(path, mode="w")
    opened(path).load().thalweg.to_bp(path, mode="w")
    xr.testing.assert_identical(opened(path).load(), at([0, 1]))


@pytest.mark.parametrize("name", ["a b", "ä", "1", "a.b", "a=b", "x+1", "nx", "__adios__", "a/b/c", "_x", "'", '"'])
def test_names_of_any_kind_are_held(path, name):
    ds = xr.Dataset(
        {name: ((name + "d",), [1.5, 2], {name.replace("/", "|"): 3})}, attrs={name.replace("/", "|"): "of the dataset"}
    )
    ds.thalweg.to_bp(path)
    xr.testing.assert_identical(opened(path).load(), ds)
    ds.thalweg.to_bp(path, append_dim=name + "d")
    xr.testing.assert_identical(opened(path).load(), xr.concat([ds, ds], name + "d"))


@pytest.mark.parametrize("method", ["MPI", "POSIX", "MPI_AGGREGATE"])
def test_every_method_writes(path, method):
    """In pieces of a step, as there are more bytes in small chunks than the writer buffers."""
    values = np.arange(10_000_000.0)
    ds = xr.Dataset({"v": ("x", da.from_array(values, chunks=100_000))}, attrs={"a": 1})
    ds.thalweg.to_bp(path, method=method)
    assert thalweg.open(path).status.subfiles == (method != "MPI")
    xr.testing.assert_identical(opened(path).load(), ds.compute())
    ds.thalweg.to_bp(path, method=method, append_dim="x")
    np.testing.assert_array_equal(opened(path)["v"][::1000], np.tile(values[::1000], 2))


def test_a_region_is_replaced(path):
    ds = at([0, 1, 2, 3])
    ds.thalweg.to_bp(path)
    part = (ds[["T"]] * 10).isel(time=slice(1, 3), x=slice(1, None)).drop_vars(["time", "x"])
    part.thalweg.to_bp(path, region={"time": slice(1, 3), "x": slice(1, 3)})
    wanted = ds.copy(deep=True)
    wanted["T"][:, 1:3, 1:] *= 10
    xr.testing.assert_identical(opened(path).load(), wanted)
    again = ds[["T"]].isel(time=slice(0, 2)).drop_vars(["time", "x"]).chunk(x=1)
    again.thalweg.to_bp(path, region={"time": slice(0, 2)}, mode="r+")
    wanted["T"][:, :2] = ds["T"][:, :2]
    xr.testing.assert_identical(opened(path).load(), wanted)
    at([4, 5]).thalweg.to_bp(path, append_dim="time")
    (at([5])[["T"]] * 0).drop_vars(["time", "x"]).thalweg.to_bp(path, region={"time": slice(5, 6)})
    assert float(opened(path)["T"][:, 5].sum()) == 0
    xr.testing.assert_identical(opened(path)["T"][:, :4].load(), wanted["T"])
    for what, region in (
        (part, {"time": slice(0, 3), "x": slice(1, 3)}),
        (part, {"time": slice(0, 2), "x": slice(1, 3)}),
        (part, {"time": slice(1, 5, 2), "x": slice(1, 3)}),
        (part, {"time": "auto"}),
        (ds[["dt"]], {"time": slice(0, 1)}),
        (ds[["T"]].rename(T="new").drop_vars(["time", "x"]), {"time": slice(0, 4)}),
    ):
        with pytest.raises(thalweg.Error):
            what.thalweg.to_bp(path, region=region)
    with pytest.raises(FileNotFoundError):
        part.thalweg.to_bp(path + "2", region={"x": slice(0, 1)})


# dask.


def test_chunks_of_dask_become_blocks(path):
    values = np.arange(60.0).reshape(6, 10)
    ds = xr.Dataset({"v": (("y", "x"), da.from_array(values, chunks=(4, 3))), "s": ((), da.ones(4).sum())})
    ds.thalweg.to_bp(path)
    f = thalweg.open(path)
    assert f["v"].chunks == ((4, 2), (3, 3, 3, 1)) and f["v"].block_count == 8
    np.testing.assert_array_equal(f["v"][0], values)
    assert f["s"].value == 4


@pytest.mark.parametrize("scheduler", ["threads", "synchronous", "processes"])
def test_every_scheduler_computes(path, scheduler):
    base = da.random.default_rng(1).random((40, 50), chunks=(10, 25))
    ds = xr.Dataset({"v": (("y", "x"), base), "w": (("y", "x"), base - base.mean(0))})
    with dask.config.set(scheduler=scheduler):
        ds.thalweg.to_bp(path)
    xr.testing.assert_allclose(opened(path).load(), ds.compute(scheduler="synchronous"))


def test_a_cluster_computes(path):
    distributed = pytest.importorskip("distributed")
    base = da.random.default_rng(1).random((40, 50), chunks=(10, 25))
    ds = xr.Dataset({"v": (("y", "x"), base), "w": (("y", "x"), base - base.mean(0)), "same": (("y", "x"), base)})
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
        ) as cluster,
        distributed.Client(cluster),
    ):
        ds.thalweg.to_bp(path)
    xr.testing.assert_allclose(opened(path).load(), ds.compute(scheduler="synchronous"))


@pytest.mark.parametrize("on", ["threads", "a cluster"])
def test_what_several_chunks_need_is_computed_once(path, tmp_path, monkeypatch, on):
    monkeypatch.setattr("thalweg.xarray_output._BUFFERED", 1000)
    made = tmp_path / "made"
    made.mkdir()

    def block(block_info=None):
        tempfile.mkstemp(dir=made)
        return np.ones((10, 10))

    base = da.map_blocks(block, chunks=((10,) * 4, (10,)), dtype=float, meta=np.zeros((0, 0)))
    ds = xr.Dataset({"v": (("y", "x"), base), "w": (("y", "x"), base - base.mean(0)), "same": (("y", "x"), base)})
    if on == "threads":
        ds.thalweg.to_bp(path)
    else:
        distributed = pytest.importorskip("distributed")
        with (
            distributed.LocalCluster(
                n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None, silence_logs=50
            ) as cluster,
            distributed.Client(cluster),
        ):
            ds.thalweg.to_bp(path)
    assert len(list(made.iterdir())) == 4
    again = opened(path)
    assert float(again["v"].sum()) == float(again["same"].sum()) == 400 and float(again["w"].sum()) == 0


def test_a_failure_of_a_chunk_ends_the_write(path):
    def block(block_info=None):
        raise ZeroDivisionError("in a chunk")

    base = da.map_blocks(block, chunks=((10,) * 4,), dtype=float, meta=np.zeros(0))
    with pytest.raises(ZeroDivisionError, match="in a chunk"):
        xr.Dataset({"v": ("x", base)}).thalweg.to_bp(path)
    xr.Dataset({"v": ("x", [1])}).thalweg.to_bp(path, mode="w")
    assert list(opened(path)["v"].values) == [1]


LARGE = """
import sys
import dask, dask.array as da, numpy as np, xarray as xr
import thalweg, thalweg.xarray

def peak():
    # In MiB. `getrusage` would count the parent's memory too.
    return next(int(line.split()[1]) >> 10 for line in open("/proc/self/status") if line.startswith("VmHWM"))

path, chunk, transform = sys.argv[1], int(sys.argv[2]), sys.argv[3]
few = xr.Dataset({"v": (("y", "x"), da.full((4, 1000), 1.5, chunks=(2, 1000)))})
few.thalweg.to_bp(path, mode="w", encoding={"v": {"transform": transform}} if transform else None)
xr.open_dataset(path, engine="thalweg").thalweg.to_bp(path + "2", mode="w")
before = peak()
rows = 512 * 1024 * 1024 // 8000
base = da.arange(rows, chunks=chunk, dtype=float)[:, None] + da.zeros(1000, chunks=1000)
ds = xr.Dataset({"v": (("y", "x"), base)})
with dask.config.set(scheduler="threads", num_workers=2):
    ds.thalweg.to_bp(path, mode="w", encoding={"v": {"transform": transform}} if transform else None)
written = peak()
assert written - before < 200, f"dask: {before} MiB, then {written} MiB"
again = xr.open_dataset(path, engine="thalweg")
again.thalweg.to_bp(path + "2", mode="w")
assert peak() - before < 200, f"lazily: {before} MiB, then {written}, {peak()} MiB"
last = xr.open_dataset(path + "2", engine="thalweg")["v"]
assert last.shape == (rows, 1000)
np.testing.assert_array_equal(last[:: rows // 50, 7], np.arange(rows)[:: rows // 50])
assert len(thalweg.open(path).steps) == 1
print(before, written, peak())
"""


@pytest.mark.parametrize(("chunk", "transform"), [(2000, ""), (20, ""), (2000, "zlib:1")])
def test_memory_is_bounded(path, chunk, transform):
    """512 MiB of large, small and compressed chunks are written in less memory, and so is what is read from this file."""
    done = subprocess.run([sys.executable, "-c", LARGE, path, str(chunk), transform], capture_output=True, text=True)
    print(done.stdout)
    assert done.returncode == 0, done.stderr


# Trees.


def tree():
    return xr.DataTree.from_dict(
        {
            "/": xr.Dataset({"top": ("x", [1, 2])}, coords={"x": [10.0, 20.0]}, attrs={"title": "a tree"}),
            "/a": xr.Dataset({"v": (("x", "y"), np.arange(6.0).reshape(2, 3), {"units": "m"})}, attrs={"k": [1, 2]}),
            "/a/deep": xr.Dataset({"w": ("z", list("abc"))}, coords={"z": [1, 2, 3]}),
            "/b": xr.Dataset({"v": ("z", np.arange(5))}, coords={"z": [5, 4, 3, 2, 1]}),
            "/step_1": xr.Dataset({"v": 3}),
            "/empty/leaf": xr.Dataset(),
        }
    )


def test_a_tree_opens_as_it_was_written(path):
    tree().thalweg.to_bp(path)
    for how in ({"engine": "thalweg"}, {}):
        again = xr.open_datatree(path, **how).load()
        xr.testing.assert_identical(again, tree())
    xr.testing.assert_identical(
        xr.open_datatree(path, group="a").load()["deep"].to_dataset(), tree()["a/deep"].to_dataset(inherit=False)
    )
    xr.testing.assert_identical(opened(path, group="/b").load(), tree()["b"].to_dataset(inherit=False))
    assert set(xr.open_groups(path)) == {"/", "/a", "/a/deep", "/b", "/step_1", "/empty", "/empty/leaf"}
    with pytest.raises(thalweg.NotFound, match="nowhere"):
        xr.open_dataset(path, engine="thalweg", group="nowhere")


def test_a_part_of_a_tree_is_written_as_a_tree(path):
    part = tree()["a"]
    thalweg.from_xarray(part, path, encoding={"/": {"v": {"dtype": "f4"}}})
    assert thalweg.open(path)["v"].dtype == np.float32
    again = xr.open_datatree(path, engine="thalweg").load()
    xr.testing.assert_equal(again["deep"].to_dataset(), part["deep"].to_dataset(inherit=False))


def test_groups_of_a_tree_are_appended_to(path):
    def part(hours):
        return xr.DataTree.from_dict({"/run": at(hours), "/": xr.Dataset({"fixed": 1})})

    part([0, 1]).thalweg.to_bp(path)
    part([2]).thalweg.to_bp(path, append_dim="time")
    xr.testing.assert_identical(xr.open_datatree(path, engine="thalweg").load(), part([0, 1, 2]))


# The engine, for files of simulations.


def test_groups_in_names_are_a_tree(path):
    with thalweg.Writer(path) as w:
        for n in range(3):
            with w.step() as s:
                s.write("x", np.arange(4.0) + n, shape=(4,), offset=(0,))
                s.write("fields/v", np.arange(4.0) + n, shape=(4,), offset=(0,), dims=("x",))
                if n > 0:
                    s.write("step_1/v", np.zeros(5), shape=(5,), offset=(0,), dims=("k",))
                    s.write("late", np.zeros(5), shape=(5,), offset=(0,), dims=("k",))
        w.attribute("fields/title", "of a group")
        with w.step() as s:
            s.write("x", np.arange(4.0) + 3, shape=(4,), offset=(0,))
            s.write("fields/v", np.arange(4.0) + 3, shape=(4,), offset=(0,), dims=("x",))
    tree = xr.open_datatree(path, engine="thalweg")
    assert set(tree.children) == {"fields", "step_1"}
    assert tree["fields"].attrs == {"title": "of a group"}
    assert tree["fields/v"].dims == ("step", "x")
    # The second dimension of steps does not get the name of a group.
    assert tree["late"].dims == ("step_2", "k") and list(tree["step_2"].values) == [1, 2]
    np.testing.assert_array_equal(tree["fields/v"].sel(step=2), np.arange(4.0) + 2)


def test_coordinates_that_do_not_change_have_no_step_dimension(path):
    with thalweg.Writer(path) as w:
        w.attribute("coordinates", "lat lon", of="T")
        for n in range(4):
            with w.step() as s:
                s.write("x", np.linspace(0, 1, 5), shape=(5,), offset=(0,), dims=("x",))
                s.write("moving", np.arange(3.0)[:: 1 if n < 3 else -1], shape=(3,), offset=(0,), dims=("moving",))
                s.write("lat", np.full((5,), np.nan), shape=(5,), offset=(0,), dims=("x",))
                s.write("lon", np.full((5,), float(n)), shape=(5,), offset=(0,), dims=("x",))
                s.write("same", np.zeros(5), shape=(5,), offset=(0,), dims=("x",))
                s.write("T", np.full((5,), n), shape=(5,), offset=(0,), dims=("x",))
    ds = xr.open_dataset(path, engine="thalweg")
    dims = {name: v.dims for name, v in ds.variables.items()}
    assert dims["x"] == ("x",) and dims["lat"] == ("x",)
    # Values, not statistics, are compared: the last step of `moving` has the same values in another order.
    assert dims["moving"] == ("step", "moving")
    # What is no coordinate is shown with all of its steps.
    assert dims["lon"] == dims["same"] == dims["T"] == ("step", "x")
    assert float(ds["T"].sel(x=0.5)[2]) == 2


def test_coordinates_of_the_first_step_belong_to_later_steps(path):
    with thalweg.Writer(path) as w:
        for n in range(3):
            with w.step() as s:
                if n == 0:
                    s.write("x", np.linspace(0, 1, 5), shape=(5,), offset=(0,), dims=("x",))
                s.write("v", np.full(5, n), shape=(5,), offset=(0,), dims=("x",))
    ds = xr.open_dataset(path, engine="thalweg", step=-1)
    assert int(ds["v"].sel(x=0.5)) == 2


def test_the_file_names_the_dimension_of_its_steps(path):
    with thalweg.Writer(path) as w:
        for name in ("v", "time"):
            w.attribute("_STEP_DIMENSION", "time", of=name)
        w.attribute("units", "days since 2000-01-01", of="time")
        for n in range(3):
            with w.step() as s:
                s["time"] = n
                s.write("v", np.full(2, n), shape=(2,), offset=(0,), dims=("x",))
    ds = xr.open_dataset(path, engine="thalweg")
    assert ds["v"].dims == ("time", "x")
    assert list(ds["time"].dt.day.values) == [1, 2, 3]
    assert "step" not in ds.dims


def test_appended_datasets_can_be_sent_to_other_processes(path):
    at([0, 1]).thalweg.to_bp(path)
    at([2]).thalweg.to_bp(path, append_dim="time")
    again = pickle.loads(pickle.dumps(opened(path, chunks={})))
    xr.testing.assert_identical(again.load(), at([0, 1, 2]))


def test_the_accessor_comes_with_the_engine_or_its_module(path):
    program = """
import sys, xarray, thalweg
assert not hasattr(xarray.Dataset, "thalweg")
thalweg.from_xarray(xarray.Dataset({"v": 1}), sys.argv[1])
xarray.open_dataset(sys.argv[1], engine="thalweg")
assert hasattr(xarray.Dataset, "thalweg")
"""
    for first, text in (("", program), ("import thalweg.xarray, xarray; xarray.Dataset.thalweg", "")):
        subprocess.run([sys.executable, "-c", first + text, path], check=True)
    assert "xarray" not in subprocess.check_output(
        [sys.executable, "-c", "import sys, thalweg; print([m for m in sys.modules if m == 'xarray'])"], text=True
    )
