/* Libraries that stand on MPI-IO: parallel HDF5 (-DHDF5), parallel NetCDF-4 (-DNETCDF), PnetCDF (-DPNETCDF). Each writes an array of which
 * every rank has rows, collectively and alone, appends a record where it can, and reads it back. Prints "ok" or "not ok".
 *
 *     libraries PATH
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 50, COLUMNS = 300 };
static int rank, ranks;

static void must(int holds, const char *what) {
    if (holds) return;
    printf("not ok rank %d: %s\n", rank, what);
    fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static double value(int step, size_t row, size_t column) { return step * 1e6 + (double)row * 1000 + (double)column; }

static void fill(double *rows, int step) {
    for (size_t i = 0; i < ROWS; i++)
        for (size_t j = 0; j < COLUMNS; j++) rows[i * COLUMNS + j] = value(step, (size_t)rank * ROWS + i, j);
}

/* Columns from..from+count of all rows. */
static void right(const double *got, int step, size_t from, size_t count) {
    for (size_t i = 0; i < (size_t)ranks * ROWS; i++)
        for (size_t j = 0; j < count; j++) must(got[i * count + j] == value(step, i, from + j), "a value is another one");
}

#if defined(HDF5)
#include <hdf5.h>
static const char name[] = "parallel HDF5";
static void test(const char *path, double *rows, double *got) {
    hid_t access = H5Pcreate(H5P_FILE_ACCESS), transfer = H5Pcreate(H5P_DATASET_XFER);
    must(H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL) >= 0, "the driver");
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, access);
    must(file >= 0, "create");
    hsize_t all[2] = {(hsize_t)ranks * ROWS, COLUMNS}, part[2] = {ROWS, COLUMNS}, start[2] = {(hsize_t)rank * ROWS, 0};
    hid_t space = H5Screate_simple(2, all, NULL), memory = H5Screate_simple(2, part, NULL);
    hid_t sets[2];
    must(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, part, NULL) >= 0, "select");
    for (int step = 0; step < 2; step++) {
        H5Pset_dxpl_mpio(transfer, step ? H5FD_MPIO_INDEPENDENT : H5FD_MPIO_COLLECTIVE);
        sets[step] = H5Dcreate2(file, step ? "alone" : "together", H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
        fill(rows, step);
        must(H5Dwrite(sets[step], H5T_NATIVE_DOUBLE, memory, space, transfer, rows) >= 0, "write");
        must(H5Dclose(sets[step]) >= 0, "close of a dataset");
    }
    must(H5Fclose(file) >= 0, "close");
    file = H5Fopen(path, H5F_ACC_RDONLY, access);
    must(file >= 0, "open");
    hsize_t column[2] = {all[0], 7}, from[2] = {0, 11};
    hid_t seven = H5Screate_simple(2, column, NULL);
    H5Sselect_hyperslab(space, H5S_SELECT_SET, from, NULL, column, NULL);
    H5Pset_dxpl_mpio(transfer, H5FD_MPIO_COLLECTIVE);
    for (int step = 0; step < 2; step++) {
        hid_t set = H5Dopen2(file, step ? "alone" : "together", H5P_DEFAULT);
        must(H5Dread(set, H5T_NATIVE_DOUBLE, seven, space, transfer, got) >= 0, "read");
        right(got, step, 11, 7);
        H5Dclose(set);
    }
    must(H5Fclose(file) >= 0, "the second close");
}
#elif defined(NETCDF)
#include <netcdf.h>
#include <netcdf_par.h>
static const char name[] = "parallel NetCDF-4";
static void test(const char *path, double *rows, double *got) {
    int file, dims[3], var;
    size_t start[3] = {0, (size_t)rank * ROWS, 0}, count[3] = {1, ROWS, COLUMNS};
    must(nc_create_par(path, NC_NETCDF4 | NC_CLOBBER, MPI_COMM_WORLD, MPI_INFO_NULL, &file) == 0, "create");
    must(nc_def_dim(file, "time", NC_UNLIMITED, &dims[0]) == 0, "time");
    must(nc_def_dim(file, "y", (size_t)ranks * ROWS, &dims[1]) == 0 && nc_def_dim(file, "x", COLUMNS, &dims[2]) == 0, "dimensions");
    must(nc_def_var(file, "T", NC_DOUBLE, 3, dims, &var) == 0, "variable");
    must(nc_put_att_text(file, var, "units", 1, "K") == 0 && nc_enddef(file) == 0, "attribute");
    must(nc_var_par_access(file, var, NC_COLLECTIVE) == 0, "collective access");
    for (int step = 0; step < 3; step++) {
        start[0] = (size_t)step;
        fill(rows, step);
        must(nc_put_vara_double(file, var, start, count, rows) == 0, "write");
    }
    must(nc_close(file) == 0, "close");
    must(nc_open_par(path, NC_NOWRITE, MPI_COMM_WORLD, MPI_INFO_NULL, &file) == 0, "open");
    must(nc_inq_varid(file, "T", &var) == 0, "variable again");
    for (int step = 0; step < 3; step++) {
        size_t from[3] = {(size_t)step, 0, 11}, seven[3] = {1, (size_t)ranks * ROWS, 7};
        must(nc_get_vara_double(file, var, from, seven, got) == 0, "read");
        right(got, step, 11, 7);
    }
    must(nc_close(file) == 0, "the second close");
}
#else
#include <pnetcdf.h>
static const char name[] = "PnetCDF";
static void test(const char *path, double *rows, double *got) {
    int file, dims[3], var, request, state;
    MPI_Offset start[3] = {0, (MPI_Offset)rank * ROWS, 0}, count[3] = {1, ROWS, COLUMNS};
    must(ncmpi_create(MPI_COMM_WORLD, path, NC_CLOBBER | NC_64BIT_DATA, MPI_INFO_NULL, &file) == 0, "create");
    must(ncmpi_def_dim(file, "time", NC_UNLIMITED, &dims[0]) == 0, "time");
    must(ncmpi_def_dim(file, "y", (MPI_Offset)ranks * ROWS, &dims[1]) == 0 && ncmpi_def_dim(file, "x", COLUMNS, &dims[2]) == 0, "dimensions");
    must(ncmpi_def_var(file, "T", NC_DOUBLE, 3, dims, &var) == 0 && ncmpi_put_att_text(file, var, "units", 1, "K") == 0, "variable");
    must(ncmpi_enddef(file) == 0, "end of the definitions");
    fill(rows, 0);
    must(ncmpi_put_vara_double_all(file, var, start, count, rows) == 0, "write");
    start[0] = 1;
    fill(rows, 1);
    must(ncmpi_iput_vara_double(file, var, start, count, rows, &request) == 0, "nonblocking write");
    must(ncmpi_wait_all(file, 1, &request, &state) == 0 && state == 0, "wait");
    start[0] = 2;
    fill(rows, 2);
    must(ncmpi_begin_indep_data(file) == 0 && ncmpi_put_vara_double(file, var, start, count, rows) == 0, "write alone");
    must(ncmpi_end_indep_data(file) == 0 && ncmpi_close(file) == 0, "close");
    must(ncmpi_open(MPI_COMM_WORLD, path, NC_NOWRITE, MPI_INFO_NULL, &file) == 0, "open");
    must(ncmpi_inq_varid(file, "T", &var) == 0, "variable again");
    for (int step = 0; step < 3; step++) {
        MPI_Offset from[3] = {step, 0, 11}, seven[3] = {1, (MPI_Offset)ranks * ROWS, 7};
        must(ncmpi_get_vara_double_all(file, var, from, seven, got) == 0, "read");
        right(got, step, 11, 7);
    }
    must(ncmpi_close(file) == 0, "the second close");
}
#endif

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    must(argc == 2, "one argument: the path");
    double *rows = malloc(ROWS * COLUMNS * sizeof *rows), *got = malloc((size_t)ranks * ROWS * 7 * sizeof *got);
    must(rows && got, "memory");
    test(argv[1], rows, got);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) printf("ok %s writes and reads its file\n", name);
    free(rows);
    free(got);
    MPI_Finalize();
    return 0;
}
