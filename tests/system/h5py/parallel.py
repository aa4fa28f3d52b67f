"""What programs do with h5py over MPI-IO: datasets that all ranks write and read together, and alone.

    parallel.py PATH       prints "ok NAME" or "not ok NAME (why)" from rank 0
"""

import sys
import traceback

from mpi4py import MPI

import h5py
import numpy as np

comm = MPI.COMM_WORLD
rank, ranks = comm.rank, comm.size
path = sys.argv[1]
ROWS, COLUMNS = 40, 300


def rows(step, of=rank):
    """The rows of a rank."""
    return step * 1e6 + (of * ROWS + np.arange(ROWS))[:, None] * 1e3 + np.arange(COLUMNS)[None, :]


def whole(step):
    return np.concatenate([rows(step, of) for of in range(ranks)])


def opened(mode):
    file = h5py.File(path, mode, driver="mpio", comm=comm)
    assert file.driver == "mpio"
    return file


OWN = slice(rank * ROWS, (rank + 1) * ROWS)
NEXT = slice((rank + 1) % ranks * ROWS, ((rank + 1) % ranks + 1) * ROWS)


def contiguous_datasets():
    with opened("w") as file:
        together = file.create_dataset("together", (ranks * ROWS, COLUMNS), "f8")
        alone = file.create_dataset("group/alone", (ranks * ROWS, COLUMNS), "f8")
        together.attrs["units"] = "K"
        with together.collective:
            together[OWN] = rows(1)
        alone[OWN] = rows(2)
    with opened("r") as file:
        together, alone = file["together"], file["group/alone"]
        assert together.attrs["units"] == "K"
        with together.collective:
            assert (together[:, 11:18] == whole(1)[:, 11:18]).all()
        # Another rank's rows, each rank by itself.
        assert (alone[NEXT] == rows(2, (rank + 1) % ranks)).all()
        with alone.collective:
            assert (alone[rank::ranks] == whole(2)[rank::ranks]).all()


def columns_of_all_ranks():
    """Small pieces, interleaved between the ranks."""
    with opened("a") as file:
        columns = file.create_dataset("columns", (500, 8 * ranks), "i4")
        with columns.collective:
            columns[:, rank::ranks] = np.arange(500 * 8).reshape(500, 8) + rank * 100000
    with opened("r") as file:
        for of in range(ranks):
            with file["columns"].collective:
                got = file["columns"][:, of::ranks]
            assert (got == np.arange(500 * 8).reshape(500, 8) + of * 100000).all()


def chunks_that_grow():
    with opened("a") as file:
        data = file.create_dataset("chunks", (0, COLUMNS), "f8", maxshape=(None, COLUMNS), chunks=(16, 64), fillvalue=-1)
        for step in range(3):
            data.resize(((step + 1) * ranks * ROWS, COLUMNS))
            at = step * ranks * ROWS
            if step == 1:
                data[at + OWN.start : at + OWN.stop] = rows(step)
            else:
                with data.collective:
                    data[at + OWN.start : at + OWN.stop] = rows(step)
            file.flush()
        data.resize((4 * ranks * ROWS, COLUMNS))
    with opened("r") as file:
        with file["chunks"].collective:
            got = file["chunks"][...]
        assert (got == np.concatenate([whole(0), whole(1), whole(2), np.full((ranks * ROWS, COLUMNS), -1.0)])).all()


def compressed_chunks():
    """HDF5 writes filtered chunks of several ranks collectively alone."""
    with opened("a") as file:
        data = file.create_dataset("gzip", (ranks * ROWS, COLUMNS), "f8", chunks=(ROWS // 2, COLUMNS), compression="gzip")
        for step in range(2):
            with data.collective:
                data[OWN] = rows(step)
    with opened("r") as file:
        assert (file["gzip"][NEXT] == rows(1, (rank + 1) % ranks)).all()


def ranks_without_data():
    with opened("a") as file:
        data = file.create_dataset("first", (10,), "i8")
        there, here = data.id.get_space(), h5py.h5s.create_simple((10,))
        if rank != 0:
            # By the calls of HDF5: an empty slice makes no call, for which the others would wait.
            there.select_none()
            here.select_none()
        together = h5py.h5p.create(h5py.h5p.DATASET_XFER)
        together.set_dxpl_mpio(h5py.h5fd.MPIO_COLLECTIVE)
        data.id.write(here, there, np.arange(10, dtype="i8"), dxpl=together)
    with opened("r") as file:
        assert (file["first"][...] == np.arange(10)).all()


def atomic_mode():
    with opened("a") as file:
        assert not file.atomic
        file.atomic = True
        assert file.atomic
        data = file.create_dataset("turns", (1,), "i8")
        comm.Barrier()
        for turn in range(2 * ranks):
            if turn % ranks == rank:
                assert data[0] == turn, (data[0], turn)
                data[0] = turn + 1
            comm.Barrier()
        file.atomic = False


def read_by_one_process():
    """The file is one that a program without MPI reads."""
    if rank == 0:
        with h5py.File(path, "r") as file:
            assert file.driver == "sec2", file.driver
            assert (file["together"][...] == whole(1)).all()
            assert (file["gzip"][...] == whole(1)).all()
            assert file["turns"][0] == 2 * ranks


def main():
    assert h5py.get_config().mpi, h5py.__file__
    for test in [
        contiguous_datasets,
        columns_of_all_ranks,
        chunks_that_grow,
        compressed_chunks,
        ranks_without_data,
        atomic_mode,
        read_by_one_process,
    ]:
        name = "h5py: " + test.__name__.replace("_", " ")
        try:
            test()
        except Exception as error:  # the others wait for this rank
            print(f"not ok {name} (rank {rank}: {error!r})", flush=True)
            traceback.print_exc()
            comm.Abort(1)
        comm.Barrier()
        if rank == 0:
            print(f"ok {name}", flush=True)


main()
