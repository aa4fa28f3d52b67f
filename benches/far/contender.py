"""Writes and reads arrays on S3 with one library.

    contender.py write LIBRARY FOLDER ROWS COLUMNS              the array
    contender.py read LIBRARY FOLDER ROWS COLUMNS NAME BOX      a box of it, with the open; BOX as in T[BOX]
    contender.py steps|open|series thalweg FOLDER STEPS         small steps: writes them, opens their file, reads one element of all

The service is that of AWS_ENDPOINT_URL.
"""

import http.client
import os
import sys
import time

import numpy as np

what, library, folder = sys.argv[1:4]
BUCKET = "bucket"
#: Rows and columns of a block.
BLOCK = (512, 1024)
#: Arrays of a small step, and their elements.
ARRAYS, ELEMENTS = 20, 100


def values(rows, columns):
    """The array: each element tells where it stands."""
    return np.arange(rows * columns, dtype=float).reshape(rows, columns)


def s3_store():
    import obstore.store
    import zarr.storage

    store = obstore.store.S3Store(
        BUCKET,
        prefix="zarr",
        endpoint=os.environ["AWS_ENDPOINT_URL"],
        access_key_id=os.environ["AWS_ACCESS_KEY_ID"],
        secret_access_key=os.environ["AWS_SECRET_ACCESS_KEY"],
        region=os.environ["AWS_REGION"],
        client_options={"allow_http": True},
    )
    return store, zarr.storage.ObjectStore(store)


def filesystem():
    import s3fs

    return s3fs.S3FileSystem(
        key=os.environ["AWS_ACCESS_KEY_ID"],
        secret=os.environ["AWS_SECRET_ACCESS_KEY"],
        endpoint_url=os.environ["AWS_ENDPOINT_URL"],
        client_kwargs={"region_name": os.environ["AWS_REGION"]},
        skip_instance_cache=True,
    )


def blocks(rows, columns):
    for row in range(0, rows, BLOCK[0]):
        for column in range(0, columns, BLOCK[1]):
            yield np.s_[row : row + BLOCK[0], column : column + BLOCK[1]]


def write(rows, columns):
    data = values(rows, columns)
    before = time.perf_counter()
    if library == "thalweg":
        import thalweg

        with thalweg.Writer("/bench/far/array.bp") as writer, writer.step() as step:
            for block in blocks(rows, columns):
                offset = (block[0].start, block[1].start)
                step.write("T", np.ascontiguousarray(data[block]), shape=data.shape, offset=offset)
    elif library == "zarr":
        import zarr

        _, store = s3_store()
        array = zarr.create_array(store, shape=data.shape, chunks=BLOCK, dtype="f8", compressors=None, name="T")
        array[:] = data
    else:
        import h5py

        path = f"{folder}/array.h5"
        with h5py.File(path, "w", libver="latest") as file:
            file.create_dataset("T", data=data, chunks=BLOCK)
        filesystem().put_file(path, f"{BUCKET}/array.h5")
        os.remove(path)
    print(f"value {library}:write {time.perf_counter() - before:.6f}")


def opened():
    """The array of a file that was not open."""
    if library == "thalweg":
        import thalweg

        return thalweg.open("/bench/far/array.bp")["T"]
    if library == "zarr":
        import zarr

        return zarr.open_array(s3_store()[1], path="T", mode="r")
    import h5py

    return h5py.File(filesystem().open(f"{BUCKET}/array.h5", "rb"))["T"]


def read(rows, columns, name, box):
    box = eval(f"np.s_[{box}]")
    # Imports are not measured.
    __import__({"thalweg": "thalweg", "zarr": "zarr.storage", "h5py": "h5py"}[library])
    if library == "zarr":
        __import__("obstore.store")
    if library == "h5py":
        __import__("s3fs")
    before = time.perf_counter()
    array = opened()
    got = array[(0, *box) if library == "thalweg" else box]
    seconds = time.perf_counter() - before
    if not np.array_equal(got, values(rows, columns)[box]):
        sys.exit(f"{library} read other values of [{name}] than were written")
    print(f"value {library}:{name} {seconds:.6f}")


def steps(count):
    """Small steps, each with an open and a close of the file, as separate outputs of a program are."""
    import thalweg

    data = np.random.default_rng(1).random((count, ARRAYS, ELEMENTS))
    proxy = http.client.HTTPConnection(os.environ["AWS_ENDPOINT_URL"].removeprefix("http://"))

    def requests():
        proxy.request("GET", "/_requests")
        return int(proxy.getresponse().read())

    seconds, counts = 0, [requests()]
    before = time.perf_counter()
    with thalweg.Writer("/bench/far/steps.bp") as writer:
        for number, arrays in enumerate(data):
            with writer.step() as step:
                step.write("n", number)
                for n, array in enumerate(arrays):
                    step.write(f"v{n}", array, shape=array.shape, offset=(0,))
            seconds += time.perf_counter() - before
            counts.append(requests())
            before = time.perf_counter()
    seconds += time.perf_counter() - before
    print(f"value {library}:steps {seconds / count:.6f}")
    print(f"value {library}:step_requests {np.median(np.diff(counts)):.6f}")


def of_steps(count):
    import thalweg

    before = time.perf_counter()
    v = thalweg.open("/bench/far/steps.bp")["v7"]
    if len(v.steps) != count:
        sys.exit(f"{len(v.steps)} steps, {count} were written")
    if what == "series":
        expected = np.random.default_rng(1).random((count, ARRAYS, ELEMENTS))[:, 7, 50]
        before = time.perf_counter()
        if not np.array_equal(v[:, 50], expected):
            sys.exit("other values in the series than were written")
    print(f"value {library}:{what} {time.perf_counter() - before:.6f}")


numbers, words = [int(n) for n in sys.argv[4:6]], sys.argv[6:]
{"write": write, "read": read, "steps": steps}.get(what, of_steps)(*numbers, *words)
