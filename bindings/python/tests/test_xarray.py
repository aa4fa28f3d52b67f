"""The xarray engine: lazy, in chunks along blocks, also on a dask cluster."""

import pickle
import warnings

import numpy as np
import pytest
import thalweg
from conftest import field

xr = pytest.importorskip("xarray")
pytest.importorskip("dask")

WHOLE = np.stack([field(n) for n in range(4)])


def open_it(run, **more):
    with pytest.warns(UserWarning, match="particles"):
        return xr.open_dataset(run, engine="thalweg", **more)


def test_a_file_opens_as_a_dataset(run):
    ds = open_it(run)
    assert ds["T"].dims == ("step", "y", "x")
    assert dict(ds.sizes) == {"step": 4, "y": 24, "x": 32, "dim_0": 6, "step_1": 2, "dim_0_5": 5}
    assert ds["T"].attrs == {"units": "K", "range": [0.5, 1.5]}
    assert ds.attrs == {"code": "heat"}
    np.testing.assert_array_equal(ds["T"].values, WHOLE)
    np.testing.assert_array_equal(ds["step"], range(4))
    np.testing.assert_array_equal(ds["odd"].sel(step_1=3), np.arange(5) * 3)
    assert list(ds["title"].values)[:1] == ["Schritt 0 ü"]
    np.testing.assert_array_equal(ds["time"], [0, 0.5, 1, 1.5])
    assert ds["psi"].dtype == np.complex128


def test_it_is_found_by_its_name_and_guessed(run):
    assert "thalweg" in xr.backends.list_engines()
    with pytest.warns(UserWarning, match="particles"):
        ds = xr.open_dataset(run)
    assert ds["T"].shape == (4, 24, 32)
    assert not xr.backends.list_engines()["thalweg"].guess_can_open(run + ".nc")


def test_nothing_is_read_before_it_is_asked_for(tmp_path):
    import shutil

    path = str(tmp_path / "run.bp")
    with thalweg.Writer(path, method="POSIX") as w, w.step() as s:
        s.write("T", field(), shape=(24, 32), offset=(0, 0))
    shutil.rmtree(path + ".dir")
    ds = xr.open_dataset(path, engine="thalweg")
    part = ds["T"][0, ::2, 3]
    assert part.shape == (12,)
    with pytest.raises(thalweg.NotFound):
        part.values


@pytest.mark.parametrize(
    "key",
    [
        {"step": -1},
        {"step": [0, 2], "y": [5, 1, 3], "x": [4, 4, 2]},
        {"step": slice(None, None, -2), "y": slice(3, 20, 6), "x": 7},
        {"y": [23], "x": slice(None, None, -5)},
        {"x": []},
    ],
    ids=str,
)
def test_selections_are_those_of_an_array_in_memory(run, key):
    ds = open_it(run)
    wanted = xr.DataArray(WHOLE, dims=("step", "y", "x")).isel(key)
    np.testing.assert_array_equal(ds["T"].isel(key).values, wanted.values)


def test_points_are_those_of_an_array_in_memory(run):
    ds = open_it(run)
    at = {"y": xr.DataArray([1, 5, 9], dims="p"), "x": xr.DataArray([0, 31, 7], dims="p")}
    wanted = xr.DataArray(WHOLE, dims=("step", "y", "x")).isel(at)
    np.testing.assert_array_equal(ds["T"].isel(at).values, wanted.values)


def test_one_step_has_no_step_dimension(run):
    ds = open_it(run, step=-1)
    assert ds["T"].dims == ("y", "x")
    assert ds.attrs["step"] == 3
    np.testing.assert_array_equal(ds["T"], WHOLE[3])
    np.testing.assert_array_equal(ds["odd"], np.arange(5) * 3)
    assert float(ds["time"]) == 1.5
    ds = open_it(run, step=2)
    assert "odd" not in ds


def test_what_was_written_once_has_no_step_dimension(path):
    with thalweg.Writer(path) as w:
        for n in range(3):
            with w.step() as s:
                if n == 0:
                    s.write("x", np.linspace(0, 1, 5), shape=(5,), offset=(0,), dims=("x",))
                s.write("v", np.full(5, n), shape=(5,), offset=(0,), dims=("x",))
    ds = xr.open_dataset(path, engine="thalweg")
    assert ds["v"].dims == ("step", "x")
    assert "x" in ds.coords
    assert float(ds["v"].sel(x=0.5)[2]) == 2


def test_names_of_dimensions_come_from_the_schema_or_the_caller(path):
    xml = """<adios-config host-language="C"><adios-group name="g">
      <var name="nx" type="integer"/><var name="ny" type="integer"/>
      <global-bounds dimensions="ny,nx" offsets="0,0"><var name="T" type="double" dimensions="ny,nx"/></global-bounds>
      <var name="s" type="double" dimensions="3"/></adios-group><method group="g" method="MPI"/></adios-config>"""
    with thalweg.Writer(path, xml) as w, w.step() as s:
        s.write("T", field(), shape=(24, 32), offset=(0, 0))
        s["s"] = [1.0, 2.0, 3.0]
    assert xr.open_dataset(path, engine="thalweg")["T"].dims == ("step", "dim_0", "dim_1")
    ds = xr.open_dataset(path, engine="thalweg", schema=xml)
    assert ds["T"].dims == ("step", "ny", "nx")
    ds = xr.open_dataset(path, engine="thalweg", dims={"T": ("lat", "lon")})
    assert ds["T"].dims == ("step", "lat", "lon")


def test_dask_chunks_follow_blocks(path):
    rows, n = 512, 1024
    with thalweg.Writer(path) as w:
        for step in range(2):
            with w.step() as s:
                for i in range(4):
                    s.write("T", np.full((rows, n), i + 10.0 * step), shape=(4 * rows, n), offset=(i * rows, 0))
    ds = xr.open_dataset(path, engine="thalweg", chunks={})
    assert ds["T"].chunks == ((1, 1), (512, 512, 512, 512), (1024,))
    np.testing.assert_array_equal(ds["T"].mean(("dim_0", "dim_1")).compute(), [1.5, 11.5])
    assert float(ds["T"][1, 3 * rows - 1 : 3 * rows + 1, 5].sum().compute()) == 25.0


def test_small_blocks_and_steps_are_put_together(run):
    ds = open_it(run, chunks={})
    assert ds["T"].chunks == ((4,), (24,), (32,))
    np.testing.assert_array_equal(ds["T"].mean("step").compute(), WHOLE.mean(0))


def test_chunks_of_several_steps_hold_a_mebibyte(path):
    data = np.arange(100_000.0)
    with thalweg.Writer(path) as w:
        for n in range(5):
            with w.step() as s:
                s.write("small", data[:50_000] + n, shape=(50_000,), offset=(0,))
                s.write("large", data.repeat(2) + n, shape=(200_000,), offset=(0,))
    ds = xr.open_dataset(path, engine="thalweg", chunks={})
    assert ds["small"].chunks == ((2, 2, 1), (50_000,))
    assert ds["large"].chunks == ((1, 1, 1, 1, 1), (200_000,))
    np.testing.assert_array_equal(ds["small"][:, 7].compute(), 7 + np.arange(5))
    np.testing.assert_array_equal(ds["small"].mean("step").compute(), data[:50_000] + 2)


def test_chunks_that_a_program_asks_for_are_taken_without_a_warning(path):
    with thalweg.Writer(path) as w:
        for n in range(5):
            with w.step() as s:
                s.write("v", np.full(3, n), shape=(3,), offset=(0,))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ds = xr.open_dataset(path, engine="thalweg", chunks={"step": 2})
    assert ds["v"].chunks == ((2, 2, 1), (3,))


def test_datasets_can_be_sent_to_other_processes(run):
    ds = open_it(run, chunks={})
    again = pickle.loads(pickle.dumps(ds))
    np.testing.assert_array_equal(again["T"].values, WHOLE)
    lazy = pickle.loads(pickle.dumps(open_it(run)))
    np.testing.assert_array_equal(lazy["T"].isel(y=[3, 1]).values, WHOLE[:, [3, 1]])


def test_analysis_scales_out_on_a_dask_cluster(run):
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=2, processes=True, dashboard_address=None, silence_logs=50
        ) as cluster,
        distributed.Client(cluster),
    ):
        ds = open_it(run, chunks={"step": 1})
        np.testing.assert_allclose(ds["T"].std("step").compute(), WHOLE.std(0))
        np.testing.assert_array_equal(ds["T"].isel(x=[5, 1]).compute(), WHOLE[:, :, [5, 1]])


def test_a_dataset_written_and_opened_again_is_equal(tmp_path):
    path = str(tmp_path / "out.bp")
    random = np.random.default_rng(3)
    ds = xr.Dataset(
        {
            "a": (("time", "y", "x"), random.random((3, 4, 5)), {"units": "m"}),
            "b": (("time", "y"), random.integers(0, 9, (3, 4)), {"units": "1"}),
        },
        attrs={"title": "made up"},
    )
    with thalweg.Writer(path) as w:
        for name, v in ds.items():
            w.attribute("units", v.attrs["units"], of=name)
        w.attribute("title", ds.attrs["title"])
        for n in range(ds.sizes["time"]):
            with w.step() as s:
                for name, v in ds.isel(time=n).items():
                    s.write(name, v.values, shape=v.shape, offset=(0,) * v.ndim, dims=v.dims)
    again = xr.open_dataset(path, engine="thalweg").rename(step="time").drop_vars("time").load()
    xr.testing.assert_identical(again, ds)


def cf_dataset():
    """As a climate model writes it: packed numbers, fill values, times, coordinates named by an attribute."""
    fill = np.int16(-999)
    packed = np.array([[1, 2, fill], [4, fill, 6]], "i2")
    return {
        "time": (("time",), np.array([0.0, 36.0]), {"units": "hours since 2020-02-28", "calendar": "standard"}),
        "x": (("x",), np.array([10.0, 20.0, 30.0]), {"units": "m"}),
        "T": (
            ("time", "x"),
            packed,
            {"_FillValue": fill, "scale_factor": 0.5, "add_offset": 100.0, "units": "K", "coordinates": "lat"},
        ),
        "p": (("time", "x"), np.array([[1e20, 2, 3], [4, 5, 1e20]], "f4"), {"missing_value": np.float32(1e20)}),
        "q": (
            ("time", "x"),
            packed,
            {"_FillValue": fill, "scale_factor": np.float32(0.1), "add_offset": np.float32(1)},
        ),
        "u": (("x",), np.array([-1, 2, 3], "i1"), {"_Unsigned": "true"}),
        "flag": (("x",), np.array([1, 0, 1], "i1"), {"dtype": "bool"}),
        "lat": (("x",), np.array([50.0, 51.0, 52.0]), {"units": "degrees_north"}),
        "age": (("x",), np.array([1, 2, 3], "i8"), {"units": "days"}),
        "noleap": (("time",), np.array([58, 59], "i4"), {"units": "days since 2020-01-01", "calendar": "noleap"}),
    }


def write_both(folder):
    """The same data as a BP file of one step and as a netCDF file."""
    netcdf = pytest.importorskip("netCDF4")
    bp, nc = str(folder / "cf.bp"), str(folder / "cf.nc")
    with thalweg.Writer(bp) as w, netcdf.Dataset(nc, "w") as other:
        w.attribute("title", "made up")
        other.title = "made up"
        other.createDimension("time", 2)
        other.createDimension("x", 3)
        with w.step() as s:
            for name, (dims, values, attrs) in cf_dataset().items():
                v = other.createVariable(name, values.dtype, dims, fill_value=attrs.get("_FillValue"))
                v.set_auto_maskandscale(False)
                v[...] = values
                s.write(name, values, shape=values.shape, offset=(0,) * values.ndim, dims=dims)
                for key, value in attrs.items():
                    w.attribute(key, value, of=name)
                    if key != "_FillValue":
                        v.setncattr(key, value)
    return bp, nc


@pytest.mark.parametrize("engine", ["netcdf4", "h5netcdf"])
@pytest.mark.parametrize(
    "how",
    [
        {},
        {"decode_cf": False},
        {"mask_and_scale": False},
        {"mask_and_scale": {"T": True, "p": False}},
        {"decode_times": False},
        {"decode_timedelta": True},
        {"decode_timedelta": False},
        {"decode_coords": False},
        {"decode_coords": "all"},
        {"drop_variables": ["noleap", "q"]},
        {"decode_times": "cftime"},
        {"concat_characters": False},
        {"chunks": {}},
    ],
    ids=str,
)
def test_values_are_decoded_as_by_xarrays_own_engines(tmp_path, how, engine):
    pytest.importorskip("cftime")
    pytest.importorskip(engine.replace("netcdf4", "netCDF4"))
    bp, nc = write_both(tmp_path)
    how = dict(how)
    if how.get("decode_times") == "cftime":
        how["decode_times"] = xr.coders.CFDatetimeCoder(use_cftime=True)
    ours = xr.open_dataset(bp, engine="thalweg", step=0, **how).load()
    wanted = xr.open_dataset(nc, engine=engine, **how).load()
    assert ours.attrs.pop("step") == 0
    xr.testing.assert_identical(ours, wanted)
    for name in wanted.variables:
        assert ours[name].dtype == wanted[name].dtype, name
        for key in ("units", "calendar", "_FillValue", "scale_factor", "dtype"):
            a, b = ours[name].encoding.get(key), wanted[name].encoding.get(key)
            assert type(a) is type(b), (name, key, a, b)
            np.testing.assert_array_equal(a, b)


def test_coordinates_of_a_one_step_file_can_be_selected_by(tmp_path):
    bp, _ = write_both(tmp_path)
    ds = xr.open_dataset(bp, engine="thalweg")
    assert ds["x"].dims == ("x",) and ds["T"].dims == ("step", "time", "x")
    assert float(ds["T"].sel(x=10, time="2020-02-29T12").isel(step=0)) == 102.0
    assert "lat" in ds.coords


def test_steps_decode_along_the_step_axis(path):
    with thalweg.Writer(path) as w:
        w.attribute("units", "days since 2000-01-01", of="t")
        w.attribute("_FillValue", -1.0, of="v")
        for n in range(3):
            with w.step() as s:
                s["t"] = n
                s.write("v", np.array([n, -1.0]), shape=(2,), offset=(0,), dims=("x",))
    ds = xr.open_dataset(path, engine="thalweg")
    assert list(ds["t"].values) == [np.datetime64(f"2000-01-0{n}", "ns") for n in (1, 2, 3)]
    np.testing.assert_array_equal(ds["v"], [[n, np.nan] for n in range(3)])
    assert xr.open_dataset(path, engine="thalweg", decode_times=False)["t"].dtype == np.int64
