/* Writes the same arrays with parallel HDF5: a dataset each, every rank its slab.
 *
 * Set in its favour: no fill values, datasets contiguous, metadata written collectively, the latest format. */
#include "world.h"

#include <hdf5.h>

static void write_hdf5(const World *w, const Load *load, const char *name, const char *path)
{
    hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_fapl_mpio(access, w->comm, MPI_INFO_NULL);
    H5Pset_coll_metadata_write(access, 1);
    H5Pset_libver_bounds(access, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST);
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, access);
    if (file < 0) stop(w, path, "H5Fcreate");

    hsize_t all[2] = {(hsize_t)load->rows * w->ranks, COLUMNS}, mine[2] = {(hsize_t)load->rows, COLUMNS};
    hsize_t start[2] = {(hsize_t)load->rows * w->rank, 0};
    hid_t in_file = H5Screate_simple(2, all, NULL), in_memory = H5Screate_simple(2, mine, NULL);
    H5Sselect_hyperslab(in_file, H5S_SELECT_SET, start, NULL, mine, NULL);
    hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_fill_time(creation, H5D_FILL_TIME_NEVER);
    hid_t transfer = H5Pcreate(H5P_DATASET_XFER);
    H5Pset_dxpl_mpio(transfer, strcmp(name, "collective") ? H5FD_MPIO_INDEPENDENT : H5FD_MPIO_COLLECTIVE);
    for (int v = 0; v < load->variables; v++) {
        char set_name[16];
        snprintf(set_name, sizeof set_name, "v%03d", v);
        hid_t set = H5Dcreate2(file, set_name, H5T_NATIVE_DOUBLE, in_file, H5P_DEFAULT, creation, H5P_DEFAULT);
        if (H5Dwrite(set, H5T_NATIVE_DOUBLE, in_memory, in_file, transfer, array(w, load, v)) < 0) stop(w, path, "H5Dwrite");
        H5Dclose(set);
    }
    H5Pclose(transfer);
    H5Pclose(creation);
    H5Sclose(in_memory);
    H5Sclose(in_file);
    if (H5Fclose(file) < 0) stop(w, path, "H5Fclose");
    H5Pclose(access);
}

static void read_hdf5(const World *w, const Load *load, const char *path, int variable, double *into)
{
    hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_fapl_mpio(access, MPI_COMM_SELF, MPI_INFO_NULL);
    hid_t file = H5Fopen(path, H5F_ACC_RDONLY, access);
    if (file < 0) stop(w, path, "H5Fopen");
    char name[16];
    snprintf(name, sizeof name, "v%03d", variable);
    hid_t set = H5Dopen2(file, name, H5P_DEFAULT), in_file = H5Dget_space(set);
    hsize_t mine[2] = {(hsize_t)load->rows, COLUMNS}, start[2] = {(hsize_t)load->rows * w->rank, 0};
    hid_t in_memory = H5Screate_simple(2, mine, NULL);
    H5Sselect_hyperslab(in_file, H5S_SELECT_SET, start, NULL, mine, NULL);
    if (H5Dread(set, H5T_NATIVE_DOUBLE, in_memory, in_file, H5P_DEFAULT, into) < 0) stop(w, path, "H5Dread");
    H5Sclose(in_memory);
    H5Sclose(in_file);
    H5Dclose(set);
    H5Fclose(file);
    H5Pclose(access);
}

int main(int argc, char **argv)
{
    World w = world_begin(&argc, &argv);
    static const Contender all[2] = {{"independent", write_hdf5, read_hdf5}, {"collective", write_hdf5, read_hdf5}};
    /* One of them, if it is named. */
    int first = argc > 5 && !strcmp(argv[5], "collective"), n = argc > 5 ? 1 : 2;
    take_turns(&w, argv, all + first, n);
    free(w.data);
    MPI_Finalize();
    return 0;
}
