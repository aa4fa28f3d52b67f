"""What other libraries do with the same arrays.

    peer.py copy FROM TO          h5py copies all datasets to a new file, step by step
    peer.py read FORM FILE NAME   reads the middle step of NAME: from hdf5 (h5py), zarr, or references (zarr over fsspec)

The time is from before the open; for `read` the median of seven reads in the open file, after a first one.
"""

import statistics
import sys
import time


def copy(source, target):
    import h5py

    start = time.perf_counter()
    with h5py.File(source) as a, h5py.File(target, "w") as b:
        for name, dataset in a.items():
            made = b.create_dataset(name, dataset.shape, dataset.dtype, chunks=dataset.chunks)
            if dataset.ndim < 2:
                made[...] = dataset[...]
                continue
            for step in range(dataset.shape[0]):
                made[step] = dataset[step]
    print("value h5py:copy", time.perf_counter() - start)


def read(form, path, name):
    if form == "hdf5":
        import h5py

        array = h5py.File(path)[name]
    else:
        import warnings

        import zarr

        warnings.simplefilter("ignore")
        if form == "references":
            options = {"fo": path, "remote_protocol": "file"}
            store = zarr.storage.FsspecStore.from_url("reference://", storage_options=options)
            array = zarr.open_group(store, mode="r", zarr_format=2)[name]
        else:
            array = zarr.open_group(path, mode="r")[name]
    times = []
    for turn in range(8):
        step = (array.shape[0] // 2 + turn) % array.shape[0]
        start = time.perf_counter()
        values = array[step]
        times.append(time.perf_counter() - start)
    assert values.shape == array.shape[1:]
    print(f"value {sys.argv[5]}", statistics.median(times[1:]))


if sys.argv[1] == "copy":
    copy(*sys.argv[2:4])
else:
    read(*sys.argv[2:5])
