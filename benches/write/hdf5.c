/* Writes the same array with parallel HDF5: one dataset, each rank its slab.
 *
 *   hdf5 FOLDER MIB STEPS LABEL
 *
 * Set in its favour: no fill values, the dataset contiguous, metadata written collectively. */
#include "world.h"

#include <hdf5.h>

static void write_hdf5(const World *w, const char *name, const char *path)
{
    hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_fapl_mpio(access, w->comm, MPI_INFO_NULL);
    H5Pset_coll_metadata_write(access, 1);
    H5Pset_libver_bounds(access, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST);
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, access);
    if (file < 0) stop(w, path, "H5Fcreate");

    hsize_t all[3] = {(hsize_t)w->rows * w->ranks, NY, NX}, mine[3] = {(hsize_t)w->rows, NY, NX};
    hsize_t start[3] = {(hsize_t)w->rows * w->rank, 0, 0};
    hid_t in_file = H5Screate_simple(3, all, NULL), in_memory = H5Screate_simple(3, mine, NULL);
    hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_fill_time(creation, H5D_FILL_TIME_NEVER);
    hid_t set = H5Dcreate2(file, "t", H5T_NATIVE_DOUBLE, in_file, H5P_DEFAULT, creation, H5P_DEFAULT);
    H5Sselect_hyperslab(in_file, H5S_SELECT_SET, start, NULL, mine, NULL);
    hid_t transfer = H5Pcreate(H5P_DATASET_XFER);
    H5Pset_dxpl_mpio(transfer, strstr(name, "collective") ? H5FD_MPIO_COLLECTIVE : H5FD_MPIO_INDEPENDENT);
    if (H5Dwrite(set, H5T_NATIVE_DOUBLE, in_memory, in_file, transfer, w->data) < 0) stop(w, path, "H5Dwrite");

    double time = 0.5;
    hid_t scalar = H5Screate(H5S_SCALAR);
    hid_t attribute = H5Acreate2(set, "time", H5T_NATIVE_DOUBLE, scalar, H5P_DEFAULT, H5P_DEFAULT);
    if (H5Awrite(attribute, H5T_NATIVE_DOUBLE, &time) < 0) stop(w, path, "H5Awrite");
    H5Aclose(attribute);
    H5Sclose(scalar);
    H5Pclose(transfer);
    H5Dclose(set);
    H5Pclose(creation);
    H5Sclose(in_memory);
    H5Sclose(in_file);
    if (H5Fclose(file) < 0) stop(w, path, "H5Fclose");
    H5Pclose(access);
}

int main(int argc, char **argv)
{
    World w = world_begin(&argc, &argv);
    if (argc < 5) stop(&w, "arguments", "FOLDER MIB STEPS LABEL");
    static const Contender all[2] = {{"independent", write_hdf5}, {"collective", write_hdf5}};
    take_turns(&w, argv[1], atoi(argv[3]), argv[4], all, 2);
    free(w.data);
    MPI_Finalize();
    return 0;
}
