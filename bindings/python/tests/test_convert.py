"""`thalweg convert`: HDF5 and netCDF-4 files of other programs as BP files, and back."""

import json
import os
import shutil
import subprocess

import numpy as np
import pytest
import thalweg

h5py = pytest.importorskip("h5py")
xr = pytest.importorskip("xarray")


@pytest.fixture
def convert(prefix, tmp_path):
    """Runs the command; returns what it prints as JSON, and its remarks by name."""
    if not (prefix / "bin" / "thalweg-convert").exists():
        pytest.skip("thalweg-convert: HDF5 is missing")

    def call(*words, expect=0):
        command = [prefix / "bin" / "thalweg", "convert", *map(str, words), "--json"]
        ran = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
        assert ran.returncode == expect, ran.stderr
        if expect > 1:
            return ran.stderr
        told = json.loads(ran.stdout)
        remarks = {left["name"]: left["why"] for left in told.pop("not_as_it_was")}
        return told, remarks

    return call


@pytest.fixture
def differences(prefix, tmp_path):
    """Compares two files; returns the lines."""

    def call(*words):
        command = [prefix / "bin" / "thalweg", "diff", *map(str, words)]
        ran = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
        assert ran.returncode < 2, ran.stderr
        lines = ran.stdout.splitlines()
        assert (ran.returncode == 0) == (len(lines) == 1)
        return lines

    return call


@pytest.mark.filterwarnings("ignore:.*Zarr V3 specification")
def test_datasets_of_netcdf_open_as_they_are_in_every_format(convert, differences, tmp_path):
    netcdf = pytest.importorskip("netCDF4")
    pytest.importorskip("zarr")
    found = 0
    for folder, _, files in os.walk(pytest.importorskip("iris_sample_data").path):
        for name in sorted(n for n in files if n.endswith(".nc")):
            source = os.path.join(folder, name)
            with netcdf.Dataset(source) as dataset:
                is_classic = dataset.disk_format != "HDF5"
            if is_classic:
                assert "nccopy -k nc4" in convert(source, "x.bp", "--force", expect=3)
                continue
            wanted = xr.open_dataset(source).load()
            assert convert(source, "x.bp", "--force")[1] == {}, name
            xr.testing.assert_identical(xr.open_dataset(tmp_path / "x.bp", engine="thalweg").load(), wanted)
            assert len(differences(source, "x.bp")) == 1, name
            assert convert("x.bp", "x.nc", "--force")[1] == {}, name
            for engine in ("netcdf4", "h5netcdf"):
                with xr.open_dataset(tmp_path / "x.nc", engine=engine) as back:
                    xr.testing.assert_identical(back.load(), wanted)
            assert convert("x.bp", "x.zarr", "--force")[1] == {}, name
            assert len(differences("x.bp", "x.zarr")) == 1, name
            xr.testing.assert_identical(xr.open_zarr(tmp_path / "x.zarr", consolidated=False).load(), wanted)
            assert convert("x.zarr", "y.bp", "--force")[1] == {}, name
            xr.testing.assert_identical(xr.open_dataset(tmp_path / "y.bp", engine="thalweg").load(), wanted)
            found += 1
    assert found >= 13


NUMBERS = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8", "c8", "c16", ">i2", ">u8", ">f8", ">c16"]


def test_numbers_of_every_type_stay_what_they_are(convert, tmp_path):
    wanted = {}
    with h5py.File(tmp_path / "x.h5", "w") as f:
        for name in NUMBERS:
            values = (np.arange(60).reshape(3, 4, 5) * (1 - 2j if "c" in name else 1)).astype(name)
            f[f"plain/{name}"] = wanted[f"plain/{name}"] = values
            f.create_dataset(f"chunks/{name}", data=values, chunks=(2, 3, 2), compression="gzip", shuffle=True, fletcher32=True)
            wanted[f"chunks/{name}"] = values
            f[f"one/{name}"] = wanted[f"one/{name}"] = values[1, 1, 1]
            f[f"none/{name}"] = wanted[f"none/{name}"] = values[:0]
        f.create_dataset("filled", (4, 3), "i4", fillvalue=7, chunks=(2, 3))[:2] = 1
    told, remarks = convert("x.h5", "x.bp")
    assert (told["variables"], told["steps"], remarks) == (4 * len(NUMBERS) + 1, 1, {})
    f = thalweg.open(tmp_path / "x.bp")
    for name, values in wanted.items():
        got = f[name][0]
        assert np.asarray(got).dtype == values.dtype.newbyteorder("="), name
        np.testing.assert_array_equal(got, values, err_msg=name)
    np.testing.assert_array_equal(f["filled"][0], [[1] * 3] * 2 + [[7] * 3] * 2)
    convert("x.bp", "y.h5")
    with h5py.File(tmp_path / "y.h5") as back:
        for name, values in wanted.items():
            np.testing.assert_array_equal(back[name][()], values, err_msg=name)


def test_texts_stay_texts(convert, tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as f:
        f["one"] = "eins ü"
        f["fixed"] = np.bytes_("zwei")
        f["letters"] = np.array([b"a", b"", b"c"], "S1")
        f["words"] = np.array([[b"ab", b"c"], [b"", b"wort"]], "S4")
        f.create_dataset("long", data=["kurz", "ein längerer", ""], dtype=h5py.string_dtype())
        f.create_dataset("nothing", (0,), dtype=h5py.string_dtype())
        f.create_dataset("spaces", data=np.array([b"ab", b"c"], h5py.string_dtype(length=4)))
    convert("x.h5", "x.bp")
    f = thalweg.open(tmp_path / "x.bp")
    assert (f["one"][0], f["fixed"][0]) == ("eins ü", "zwei")
    assert f["letters"][0].tolist() == [b"a", b"", b"c"]
    joined = {name: f[name][0].view(f"S{f[name][0].shape[-1]}")[..., 0] for name in ("words", "long", "spaces")}
    assert joined["words"].tolist() == [[b"ab", b"c"], [b"", b"wort"]]
    assert joined["long"].tolist() == ["kurz".encode(), "ein längerer".encode(), b""]
    assert joined["spaces"].tolist() == [b"ab", b"c"]
    assert f["nothing"][0].shape == (0, 1)
    ds = xr.open_dataset(tmp_path / "x.bp", engine="thalweg")
    assert ds["long"].values.tolist() == ["kurz", "ein längerer", ""]
    convert("x.bp", "y.nc")
    with xr.open_dataset(tmp_path / "y.nc") as back:
        assert back["long"].values.tolist() == ["kurz", "ein längerer", ""]
        assert back["one"].item() == "eins ü"


def test_what_a_bp_file_cannot_hold_is_named_and_the_rest_is_there(convert, tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as f:
        f["good"] = np.arange(5)
        f["half"] = np.arange(3, dtype="f2") / 4
        f["wide"] = np.arange(3, dtype="longdouble") / 4
        f["record"] = np.zeros(2, [("a", "i4"), ("b", "f8")])
        f["bytes"] = np.array([b"abc"], "V3")
        f.create_dataset("ragged", (2,), h5py.vlen_dtype(np.int32))
        f["reference"] = f["good"].ref
        f["empty"] = h5py.Empty("f4")
        f["link"] = h5py.SoftLink("/good")
        f["nowhere"] = h5py.SoftLink("/not/there")
        f["elsewhere"] = h5py.ExternalLink("none.h5", "/x")
        f["a/up"] = h5py.SoftLink("/")
        f["a/circle"] = f["a"]
        f["type"] = np.dtype("i4")
        f["flags"] = np.array([True, False])
        kinds = h5py.enum_dtype({"LAND": 0, "OPEN SEA": 7}, "u1")
        f.create_dataset("kinds", data=[7, 0, 7], dtype=kinds)
        f["good"].attrs.update(one=1.5, many=[1, 2], square=np.eye(2), text="K", texts=["a", "bc"], none=h5py.Empty("i4"))
        f["good"].attrs["to"] = f["half"].ref
        f.attrs["half"] = np.float16(0.5)
        f["a"].attrs["in"] = 3
    told, remarks = convert("x.h5", "x.bp")
    why = {
        "half": "half width",
        "wide": "more than 8 bytes",
        "record": "compound",
        "bytes": "opaque",
        "ragged": "variable length",
        "reference": "reference",
        "empty": "no space",
        "nowhere": "leads nowhere",
        "elsewhere": "leads nowhere",
        "a/up": "a group that it is in",
        "a/circle": "a group that it is in",
        "good/square": "one row",
        "good/none": "no value",
        "good/to": "reference",
        "link/square": "one row",
        "link/none": "no value",
        "link/to": "reference",
    }
    assert set(remarks) == set(why)
    for name, text in why.items():
        assert text in remarks[name], (name, remarks[name])
    f = thalweg.open(tmp_path / "x.bp")
    assert set(f) >= {"good", "half", "wide", "link", "flags", "kinds"}
    np.testing.assert_array_equal(f["half"][0], [0, 0.25, 0.5])
    np.testing.assert_array_equal(f["wide"][0], [0, 0.25, 0.5])
    np.testing.assert_array_equal(f["link"][0], range(5))
    assert f["flags"][0].tolist() == [1, 0] and f["flags"].attrs["dtype"] == "bool"
    assert f["kinds"][0].tolist() == [7, 0, 7]
    assert list(f["kinds"].attrs["flag_values"]) == [0, 7] and f["kinds"].attrs["flag_meanings"] == "LAND OPEN_SEA"
    attrs = f["good"].attrs
    assert (attrs["one"], list(attrs["many"]), attrs["text"], list(attrs["texts"])) == (1.5, [1, 2], "K", ["a", "bc"])
    assert list(attrs["square"]) == [1, 0, 0, 1] and f.attrs["half"] == 0.5 and f.attrs["a/in"] == 3
    assert xr.open_dataset(tmp_path / "x.bp", engine="thalweg")["flags"].dtype == bool


def test_positions_of_an_axis_become_steps(convert, tmp_path):
    time = np.datetime64("2030-01-01", "ns") + np.arange(5).astype("m8[D]")
    values = np.random.default_rng(1).random((4, 5, 6))
    source = xr.Dataset(
        {"T": (("y", "time", "x"), values), "fixed": ("x", np.arange(6)), "word": ("time", ["a", "bc", "", "d", "e"])},
        coords={"time": time, "x": np.arange(6.0)},
    )
    source.to_netcdf(tmp_path / "x.nc", engine="netcdf4")
    assert convert("x.nc", "x.bp", "--steps-along", "time")[0]["steps"] == 5
    f = thalweg.open(tmp_path / "x.bp")
    assert f["T"].shape == (5, 4, 6)
    np.testing.assert_array_equal(f["T"][3], values[:, 3])
    assert (len(f["T"].steps), len(f["fixed"].steps)) == (5, 1)
    opened = xr.open_dataset(tmp_path / "x.bp", engine="thalweg").load()
    xr.testing.assert_identical(opened.transpose(*source.dims)[["T", "fixed"]], source.transpose(*source.dims)[["T", "fixed"]])
    convert("x.bp", "y.nc")
    with xr.open_dataset(tmp_path / "y.nc") as back:
        xr.testing.assert_identical(back.load().transpose(*source.dims)[["T", "fixed"]], source.transpose(*source.dims)[["T", "fixed"]])
    convert("x.nc", "some.bp", "--steps-along", "time", "--steps", "1::2")
    np.testing.assert_array_equal(thalweg.open(tmp_path / "some.bp")["T"][1], values[:, 3])
    assert "no axis 'tim': there are" in convert("x.nc", "z.bp", "--steps-along", "tim", expect=3)
    assert "--steps-along names one" in convert("x.nc", "z.bp", "--steps", "2", expect=3)
    assert not (tmp_path / "z.bp").exists()


@pytest.mark.filterwarnings("ignore:.*Zarr V3 specification")
def test_datasets_that_were_appended_and_replaced_are_converted_as_they_open(convert, differences, tmp_path):
    import thalweg.xarray  # noqa: F401

    path = tmp_path / "days.bp"
    random = np.random.default_rng(5)
    for day in range(3):
        time = np.datetime64("2030-01-01T00", "ns") + np.arange(24 * day, 24 * day + 24 - day).astype("m8[h]")
        hours = xr.Dataset(
            {"T": (("time", "x"), random.random((24 - day, 5))), "fixed": ("x", np.arange(5))},
            coords={"time": time, "x": np.arange(5.0), "name": ("x", list("abcde"))},
        )
        hours.thalweg.to_bp(path, append_dim="time")
    hours["T"][...] = 7
    hours[["T"]].drop_vars(["time", "x", "name"]).isel(time=slice(0, 3)).thalweg.to_bp(path, region={"time": slice(50, 53)})
    wanted = xr.open_dataset(path, engine="thalweg").load()
    assert wanted.sizes["time"] == 69 and (wanted["T"][50:53] == 7).all()
    for target, engine in (("x.nc", "netcdf4"), ("x.nc", "h5netcdf"), ("x.zarr", "zarr")):
        convert(path, target, "--force")
        options = {"consolidated": False} if engine == "zarr" else {}
        with xr.open_dataset(tmp_path / target, engine=engine, **options) as opened:
            xr.testing.assert_identical(opened.load(), wanted)
        assert len(differences(path, target)) == 1


def test_a_part_of_a_file_is_converted_both_ways(run, convert, tmp_path):
    f = thalweg.open(run)
    told, remarks = convert(run, "x.h5", "--only", "T,psi", "--steps", "1:4:2", "--region", "T[::5, 3:-4]", "--type", "T=real")
    assert (told["steps"], remarks) == (2, {})
    with h5py.File(tmp_path / "x.h5") as h5:
        assert set(h5) >= {"T", "psi", "step"} and "time" not in h5
        assert h5["T"].dtype == np.float32 and list(h5["step"]) == [1, 3]
        for at, step in enumerate([1, 3]):
            np.testing.assert_array_equal(h5["T"][at], f["T"][step, ::5, 3:-4].astype("f4"))
            np.testing.assert_array_equal(h5["psi"][at], f["psi"][step])
        assert h5["T"].attrs["units"] == "K"
    told, remarks = convert("x.h5", "y.bp", "--region", "T[1:4, ::2]", "--transform", "*=zlib:5", "--blocks", "3x2")
    y = thalweg.open(tmp_path / "y.bp")
    assert len(y["T"].blocks(0)) == 6 and y["T"].transform == "zlib"
    for at, step in enumerate([1, 3]):
        np.testing.assert_array_equal(y["T"][at], f["T"][step, 5:20:5, 3:-4:2].astype("f4"))


def test_chunks_and_compression_are_as_asked(run, convert, tmp_path):
    convert(run, "x.h5", "--chunks", "T=8x16", "--transform", "T=zlib:4")
    f = thalweg.open(run)
    with h5py.File(tmp_path / "x.h5") as h5:
        assert h5["T"].chunks[1:] == (8, 16) and h5["T"].compression == "gzip" and h5["T"].compression_opts == 4
        assert h5["psi"].compression is None
        for step in range(4):
            np.testing.assert_array_equal(h5["T"][step], f["T"][step])
    assert "zlib alone" in convert(run, "y.h5", "--transform", "T=bzip2", expect=3)
    for words in (["--chunks", "T=0x4"], ["--chunks", "T"]):
        convert(run, "y.h5", *words, expect=3)
    for words in (["--steps-along", "x"], ["--blocks", "2x2"], ["--method", "MPI"], ["--steps", "x"], ["--type", "T=none"]):
        convert(run, "y.h5", *words, expect=2)
    convert("x.h5", "y.bp", "--chunks", "T=4x4", expect=2)
    assert not (tmp_path / "y.h5").exists()


def test_little_memory_is_enough_for_large_arrays(convert, tmp_path):
    values = np.random.default_rng(2).random((300, 1000, 10))
    with h5py.File(tmp_path / "x.h5", "w") as f:
        f.create_dataset("v", data=values, chunks=(7, 900, 3))
    convert("x.h5", "x.bp", "--memory", "4MiB")
    f = thalweg.open(tmp_path / "x.bp")
    assert len(f["v"].blocks(0)) > 10
    np.testing.assert_array_equal(f["v"][0], values)
    for more in ([], ["--transform", "v=zlib:1", "--chunks", "v=64x64x10"]):
        convert("x.bp", "y.h5", "--force", "--memory", "4MiB", *more)
        with h5py.File(tmp_path / "y.h5") as back:
            np.testing.assert_array_equal(back["v"][...].reshape(values.shape), values)


def test_what_is_there_stays_unless_it_is_to_be_replaced(run, convert, tmp_path):
    convert(run, "x.h5")
    before = (tmp_path / "x.h5").read_bytes()
    assert "--force replaces it" in convert(run, "x.h5", expect=3)
    (tmp_path / "torn.h5").write_bytes(before[: len(before) // 2])
    convert("torn.h5", "x.bp", expect=3)
    assert not (tmp_path / "x.bp").exists()
    convert("x.h5", "x.bp")
    assert "--force replaces it" in convert("x.h5", "x.bp", expect=3)
    convert(tmp_path / "nothing.h5", "x.bp", "--force", expect=3)
    np.testing.assert_array_equal(thalweg.open(tmp_path / "x.bp")["T"][1], thalweg.open(run)["T"][1])
    (tmp_path / "x.h5").write_bytes(before)
    for name, other, words in (("run.bp", "x.txt", "known endings"), ("x.h5", "y.nc", "neither file is BP"), ("run.bp", "y.bp", "thalweg copy")):
        assert words in convert(name, other, expect=2)
    assert (tmp_path / "x.h5").read_bytes() == before


@pytest.mark.parametrize("name", ["x.h5", "x.zarr", "x.bp"])
def test_what_is_told_to_end_leaves_nothing_behind(prefix, convert, tmp_path, name):
    values = np.random.default_rng(4).random((40, 500, 1000))
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f["v"] = values
    convert("a.h5", "a.bp", "--blocks", "40x1x1")
    (tmp_path / "out").mkdir()
    source = "a.h5" if name == "x.bp" else "a.bp"
    command = [prefix / "bin" / "thalweg", "convert", source, f"out/{name}", "--transform", "*=zlib:9", "--memory", "8MiB"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        while not os.listdir(tmp_path / "out"):
            assert process.poll() is None, process.stderr.read()
        process.terminate()
        assert "was told to end" in process.stderr.read()
    assert process.returncode == 3
    left = os.listdir(tmp_path / "out")
    assert left == ([name] if name == "x.bp" else []), left


def test_files_of_mounts_are_converted(run, convert, tmp_path, monkeypatch):
    (tmp_path / "store").mkdir()
    (tmp_path / "m").mkdir()
    table = f'[[mount]]\npath = "{tmp_path}/m"\nlayout = "container"\nstore = "posix:{tmp_path}/store"\n'
    (tmp_path / "mounts.toml").write_text(table)
    convert(run, "x.h5")
    monkeypatch.setenv("THALWEG_MOUNTS", str(tmp_path / "mounts.toml"))
    convert("x.h5", tmp_path / "m" / "x.bp")
    assert os.listdir(tmp_path / "m") == []
    convert(tmp_path / "m" / "x.bp", "y.h5")
    assert "this is a mount" in convert(run, tmp_path / "m" / "y.h5", expect=3)
    assert os.listdir(tmp_path / "m") == []
    with h5py.File(tmp_path / "x.h5") as x, h5py.File(tmp_path / "y.h5") as y:
        assert set(x) <= set(y)
        np.testing.assert_array_equal(x["T"], y["T"])


def test_differences_of_two_formats_are_told_with_their_place(run, convert, differences, prefix, tmp_path):
    convert(run, "x.h5")
    assert differences(run, "x.h5") == ["16 variables equal, 5 attributes equal"]
    with h5py.File(tmp_path / "x.h5", "r+") as f:
        f["T"][2, 5, 7] += 0.5
        f["T"][2, 6, 8] -= 0.25
        f["T"][3, 0, 0] = np.nan
        f["psi"][1, 2] += 3j
        f["count"][1] = 9
        f["title"][0] = "anders"
        f["T"].attrs["units"] = "C"
        f.attrs["more"] = 1
        del f["particles/step_1/block_0"]
        f["extra"] = 5
        t = f["time"][...]
        del f["time"]
        f["time"] = t[:3]
    told = differences(run, "x.h5")
    assert set(told[:-1]) == {
        "T, step 2: 2 of 768 differ, most at [5, 7]: 2167 and 2167.5, by 5e-1",
        "T, step 3: 1 of 768 differ, most at [0, 0]: 3000 and NaN, by inf",
        "psi, step 1: 1 of 6 differ, most at [2]: (2.0, 1.0) and (2.0, 4.0), by 3e0",
        "count, step 1: 1 and 9, by 8e0",
        'title, step 0: "Schritt 0 ü" and "anders"',
        "particles/step_1/block_0: only in " + run,
        "extra: only in x.h5",
        "time: [4], and [3]",
        'attribute T/units: "K" and "C"',
        "attribute more: not there and 1",
    }
    assert told[-1] == "7 of 17 variables differ, 2 of 6 attributes differ"
    turned = differences("x.h5", run, "--only", "T", "--values")
    assert turned[0] == "T, step 2: 2 of 768 differ, most at [5, 7]: 2167.5 and 2167, by 5e-1"
    assert len(differences(run, "x.h5", "--only", "T", "--values", "--absolute", "0.3")) == 3
    ran = subprocess.run(
        [os.fspath(prefix / "bin" / "thalweg"), "diff", run, "x.h5", "--only", "T", "--json"], capture_output=True, text=True, cwd=tmp_path
    )
    document = json.loads(ran.stdout)
    assert (ran.returncode, document["equal"], document["differing"]) == (1, False, 1)
    assert document["differences"][1] == {
        "variable": "T", "step": 3, "differing": 1, "elements": 768, "largest": "infinite", "index": [0, 0], "a": "3000", "b": "NaN"
    }


def test_texts_are_equal_in_any_form(convert, differences, tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as f:
        f["one"] = "eins ü"
        f["fixed"] = np.bytes_("zwei")
        f["words"] = np.array([[b"ab", b"c"], [b"", b"wort"]], "S6")
        f.create_dataset("long", data=["kurz", "ein längerer", ""], dtype=h5py.string_dtype())
        f["flags"] = np.array([True, False])
        f["half"] = np.arange(3, dtype="f2") / 4
    convert("x.h5", "x.bp")
    assert len(differences("x.h5", "x.bp")) == 1
    with h5py.File(tmp_path / "x.h5", "r+") as f:
        f["long"][1] = "ein anderer"
        f["words"][1, 1] = b"wert"
        f["one"][()] = "zwei"
        f["half"][1] = 1
    told = differences("x.h5", "x.bp")
    assert sorted(line.split(":")[0] for line in told[:-1]) == ["half, step 0", "long, step 0", "one, step 0", "words, step 0"]


# Zarr.


def test_a_run_is_read_by_zarr(run, convert, differences, tmp_path):
    zarr = pytest.importorskip("zarr")
    f = thalweg.open(run)
    told, remarks = convert(run, "x.zarr", "--chunks", "T=8x16", "--transform", "*=zstd:2")
    assert (told["steps"], remarks) == (4, {})
    z = zarr.open_group(tmp_path / "x.zarr", mode="r")
    assert z["T"].chunks[1:] == (8, 16) and z["T"].metadata.dimension_names == ("step", "y", "x")
    assert dict(z["T"].attrs) == {"units": "K", "range": [0.5, 1.5]} and z.attrs["code"] == "heat"
    for step in range(4):
        np.testing.assert_array_equal(z["T"][step], f["T"][step])
        np.testing.assert_array_equal(z["psi"][step], f["psi"][step])
        np.testing.assert_array_equal(z[f"particles/step_{step}/block_1"][:], np.arange(10))
    assert list(z["title"][:]) == [f"Schritt {n} ü" for n in range(4)]
    assert len(differences(run, "x.zarr")) == 1
    z = zarr.open_group(tmp_path / "x.zarr", mode="r+")
    z["T"][2, 5, 7] += 0.5
    assert differences(run, "x.zarr")[0] == "T, step 2: 1 of 768 differ, most at [5, 7]: 2167 and 2167.5, by 5e-1"
    convert("x.zarr", "y.bp")
    y = thalweg.open(tmp_path / "y.bp")
    for step in range(4):
        np.testing.assert_array_equal(y["psi"][step], f["psi"][step])
    before = sorted(os.listdir(tmp_path / "x.zarr"))
    assert "zlib and zstd are written" in convert(run, "x.zarr", "--force", "--transform", "T=bzip2", expect=3)
    assert "--force replaces it" in convert(run, "x.zarr", expect=3)
    assert sorted(os.listdir(tmp_path / "x.zarr")) == before
    convert(run, "x.zarr", "--force", "--only", "time")
    assert sorted(os.listdir(tmp_path / "x.zarr")) == ["step", "time", "zarr.json"]
    assert [name for name in os.listdir(tmp_path) if name.startswith(".thalweg")] == []


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.filterwarnings("ignore")
def test_stores_of_zarr_become_variables(version, convert, differences, tmp_path):
    zarr = pytest.importorskip("zarr")
    random = np.random.default_rng(3)
    root = zarr.open_group(tmp_path / "x.zarr", mode="w", zarr_format=version)
    root.attrs.update(title="a store", number=3, real=0.5, both=[1, 2.5], truth=True, tree={"a": [1]}, nothing=[])
    wanted = {}
    numcodecs = pytest.importorskip("numcodecs")
    compressors = {
        3: {"plain": None, "gzip": zarr.codecs.GzipCodec(), "zstd": zarr.codecs.ZstdCodec(), "blosc": zarr.codecs.BloscCodec()},
        2: {"plain": None, "zlib": numcodecs.Zlib(), "zstd": numcodecs.Zstd(), "blosc": numcodecs.Blosc(), "bz2": numcodecs.BZ2()},
    }[version]
    for name, compressor in compressors.items():
        for dtype in ["i1", "u2", "i4", "u8", "f4", "f8", "c16", ">f8"]:
            values = (random.random((20, 7, 5)) * 100).astype(dtype)
            full = f"{name}/{dtype.strip('>')}{'_big' if dtype[0] == '>' else ''}"
            array = root.create_array(full, shape=values.shape, chunks=(6, 7, 2), dtype=dtype, compressors=compressor)
            array[:] = wanted[full] = values
    for name, values in {"flags": np.array([True, False]), "half": np.arange(3, dtype="f2") / 4, "one": np.array(2.5)}.items():
        root.create_array(name, shape=values.shape, dtype=values.dtype)[...] = values
    root.create_array("hole", shape=(10,), chunks=(5,), dtype="i4", fill_value=7)[:3] = 1
    if version == 3:
        array = root.create_array("shards", shape=(16, 16), chunks=(2, 4), shards=(8, 8), dtype="f8", dimension_names=("y", "x"))
        array[:] = wanted["shards"] = random.random((16, 16))
        root.create_array("words", shape=(3,), dtype=str)[:] = np.array(["a", "ein längerer", ""])
    told, remarks = convert("x.zarr", "x.bp")
    f = thalweg.open(tmp_path / "x.bp")
    for name, values in wanted.items():
        np.testing.assert_array_equal(f[name][0], values, err_msg=name)
    assert f["flags"][0].tolist() == [1, 0] and f["half"][0].tolist() == [0, 0.25, 0.5] and f["one"][0] == 2.5
    assert f["hole"][0].tolist() == [1, 1, 1] + 7 * [7]
    assert set(remarks) == {"half", "truth", "tree", "nothing"}
    assert (f.attrs["title"], f.attrs["number"], f.attrs["real"], list(f.attrs["both"])) == ("a store", 3, 0.5, [1, 2.5])
    if version == 3:
        assert list(f["shards"].attrs["_ARRAY_DIMENSIONS"]) == ["y", "x"]
        assert xr.open_dataset(tmp_path / "x.bp", engine="thalweg")["words"].values.tolist() == ["a", "ein längerer", ""]
    # Zarr has no place for the name of an attribute's type, and version 2 has a value for missing elements.
    assert len(differences("x.zarr", "x.bp", "--values")) == 1
    convert("x.zarr", "y.bp", "--region", "*[2:17:3, ::2, 1:]", "--only", "plain/*")
    np.testing.assert_array_equal(thalweg.open(tmp_path / "y.bp")["plain/f8"][0], wanted["plain/f8"][2:17:3, ::2, 1:])
    convert("x.zarr", "z.bp", "--only", "nothing", expect=1)


def test_what_is_no_store_is_named(convert, tmp_path):
    pytest.importorskip("zarr")
    (tmp_path / "file.zarr").write_text("x")
    (tmp_path / "empty.zarr").mkdir()
    (tmp_path / "torn.zarr").mkdir()
    (tmp_path / "torn.zarr" / "zarr.json").write_text('{"zarr_format": 3, "node_ty')
    for name in ("file", "none", "torn", "empty"):
        assert f"{name}.zarr" in convert(f"{name}.zarr", "x.bp", expect=3)
    assert not (tmp_path / "x.bp").exists()


def test_arrays_that_are_always_compressed_are_shown_by_views(prefix, tmp_path):
    noise = np.random.default_rng(6).integers(-(2**63), 2**63 - 1, (4, 64, 64))
    noise[:, :32] = 0
    transforms = (("zstd:3", False), ("zstd:3,always=yes", True), ("blosc:compressor=lz4,always=yes", True))
    for number, (transform, shown) in enumerate(transforms):
        path = tmp_path / f"{number}.bp"
        schema = f'''<adios-config host-language="C"><adios-group name="g"><var name="o" type="integer"/><global-bounds dimensions="64,64" offsets="o,0">
            <var name="v" type="long" dimensions="32,64" transform="{transform}"/></global-bounds></adios-group>
            <method group="g" method="MPI"/></adios-config>'''
        (tmp_path / "g.xml").write_text(schema)
        with thalweg.Writer(path, schema=tmp_path / "g.xml", group="g") as w:
            for values in noise:
                with w.step() as s:
                    for row in (0, 32):
                        s.write("v", values[row : row + 32], shape=(64, 64), offset=(row, 0))
        np.testing.assert_array_equal(thalweg.open(path)["v"][:], noise)
        command = [prefix / "bin" / "thalweg", "view", "zarr", path]
        ran = subprocess.run(command, capture_output=True, text=True)
        assert (ran.returncode, "not shown: v" in ran.stderr) == (0, not shown), ran.stderr
        if shown:
            pytest.importorskip("kerchunk")
            with xr.open_dataset(str(tmp_path / f"{number}.zarr.json"), engine="kerchunk") as view:
                np.testing.assert_array_equal(view["v"], noise)


def test_objects_that_cannot_be_read_are_an_error_and_not_left_out(convert, tmp_path):
    with h5py.File(tmp_path / "x.h5", "w", libver="latest") as f:
        f["first"] = np.arange(5)
        f["second"] = np.arange(6)
    content = (tmp_path / "x.h5").read_bytes()
    headers = [at for at in range(len(content)) if content[at : at + 4] == b"OHDR"]
    assert len(headers) == 3
    for at in headers[1:]:
        (tmp_path / "torn.h5").write_bytes(content[: at + 8] + b"\xff" * 8 + content[at + 16 :])
        said = convert("torn.h5", "x.bp", expect=3)
        assert "torn.h5" in said and ("first" in said or "second" in said)
        assert not (tmp_path / "x.bp").exists()


# Calls of the system that may fail. `openat` of a shared library also counts: the program does not start. Not `close`: injected, it
# closes nothing, and a program that starts another one would wait for the end of a pipe.
FAILING = ("openat", "read", "pread64", "write", "pwrite64", "pwritev", "lseek", "fstat", "newfstatat", "statx", "getdents64", "ftruncate")
FAILING += ("fallocate", "fsync", "fdatasync", "mkdir", "rename", "renameat2", "unlink", "unlinkat", "rmdir", "copy_file_range")


def calls_of(command, folder):
    """How often a program makes each call of FAILING: the threads that make them take turns, so not more than nearly so often again."""
    log = folder / "calls.txt"
    subprocess.run(["strace", "-f", "-qq", "-c", "-U", "name,calls", "-o", log, *command], check=True, capture_output=True, cwd=folder)
    counts = {}
    for line in log.read_text().splitlines():
        words = line.split()
        if len(words) == 2 and words[0] in FAILING and words[1].isdigit():
            counts[words[0]] = int(words[1])
    return counts


@pytest.mark.skipif(not shutil.which("strace"), reason="strace is missing")
@pytest.mark.parametrize("source, target", [("a.bp", "x.h5"), ("a.bp", "x.zarr"), ("a.h5", "x.bp"), ("a.zarr", "x.bp")])
def test_a_call_of_the_system_that_fails_once_is_told_or_does_no_harm(prefix, convert, differences, tmp_path, source, target):
    values = np.random.default_rng(5).random((3, 40, 50))
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f["v"] = values
        f["v"].attrs["units"] = "m"
        f.create_dataset("deep/er/w", data=np.arange(300, dtype="i4"), chunks=(100,), compression="gzip")
        f.attrs["made"] = "here"
    convert("a.h5", "a.bp", "--blocks", "3x1x1")
    convert("a.bp", "a.zarr")
    command = [prefix / "bin" / "thalweg", "convert", source, f"out/{target}"]
    out = tmp_path / "out"
    out.mkdir()
    counts = calls_of(command, tmp_path)
    assert counts["openat"] > 10 and counts.keys() & {"pwrite64", "write", "pwritev"}, counts
    # Of calls that are made often a few in daily tests, all of them in the longest.
    few = 10**6 if os.environ.get("LONG") == "1" else 3
    failed = 0
    for call, count in counts.items():
        for when in sorted({1 + k * (count - 1) // max(min(few, count) - 1, 1) for k in range(min(few, count))}):
            shutil.rmtree(out)
            out.mkdir()
            inject = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={call}", "-e", f"inject={call}:error=EIO:when={when}"]
            ran = subprocess.run([*inject, *command], capture_output=True, text=True, cwd=tmp_path, timeout=300)
            where = f"{call} {when}: {ran.stderr}"
            if ran.returncode == 0:
                assert len(differences("--values", source, f"out/{target}")) == 1, where
                continue
            failed += 1
            assert ran.returncode == 127 or ran.stderr, where
            # Where the call that fails is the one that takes away what was begun, that stays.
            if call not in ("unlink", "unlinkat", "rmdir", "getdents64", "openat", "fstat", "newfstatat", "statx"):
                left = [name for name in os.listdir(out) if not (name == target == "x.bp")]
                # What says that all is done may fail, too: then it is.
                assert left == [] or call == "write" and len(differences("--values", source, f"out/{target}")) == 1, where
    assert failed > 5
