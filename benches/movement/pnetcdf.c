/* Writes the same arrays with PnetCDF: a variable each, every rank its slab, in the 64-bit data format.
 *
 * "blocking": one collective call per variable. "nonblocking": all are posted, then written by one collective call. There are
 * no fill values. */
#include "world.h"

#include <pnetcdf.h>

static void check(const World *w, int status, const char *doing)
{
    if (status != NC_NOERR) stop(w, doing, ncmpi_strerror(status));
}

static void write_pnetcdf(const World *w, const Load *load, const char *name, const char *path)
{
    int file, dims[2], set[1024], requests[1024];
    int posted = !strcmp(name, "nonblocking");
    check(w, ncmpi_create(w->comm, path, NC_CLOBBER | NC_64BIT_DATA, MPI_INFO_NULL, &file), "create");
    check(w, ncmpi_def_dim(file, "rows", (MPI_Offset)load->rows * w->ranks, &dims[0]), "rows");
    check(w, ncmpi_def_dim(file, "columns", COLUMNS, &dims[1]), "columns");
    for (int v = 0; v < load->variables; v++) {
        char set_name[16];
        snprintf(set_name, sizeof set_name, "v%03d", v);
        check(w, ncmpi_def_var(file, set_name, NC_DOUBLE, 2, dims, &set[v]), set_name);
    }
    check(w, ncmpi_enddef(file), "enddef");
    MPI_Offset start[2] = {(MPI_Offset)load->rows * w->rank, 0}, count[2] = {load->rows, COLUMNS};
    for (int v = 0; v < load->variables; v++) {
        const double *from = array(w, load, v);
        if (posted) check(w, ncmpi_iput_vara_double(file, set[v], start, count, from, &requests[v]), "iput");
        else check(w, ncmpi_put_vara_double_all(file, set[v], start, count, from), "put");
    }
    int status[1024];
    if (posted) check(w, ncmpi_wait_all(file, load->variables, requests, status), "wait");
    check(w, ncmpi_close(file), "close");
}

static void read_pnetcdf(const World *w, const Load *load, const char *path, int variable, double *into)
{
    int file;
    check(w, ncmpi_open(MPI_COMM_SELF, path, NC_NOWRITE, MPI_INFO_NULL, &file), "open");
    MPI_Offset start[2] = {(MPI_Offset)load->rows * w->rank, 0}, count[2] = {load->rows, COLUMNS};
    check(w, ncmpi_get_vara_double_all(file, variable, start, count, into), "get");
    check(w, ncmpi_close(file), "close");
}

int main(int argc, char **argv)
{
    World w = world_begin(&argc, &argv);
    for (int l = 0; l < w.count; l++) {
        if (w.loads[l].variables > 1024) stop(&w, w.loads[l].name, "too many variables");
    }
    static const Contender all[2] = {{"blocking", write_pnetcdf, read_pnetcdf}, {"nonblocking", write_pnetcdf, read_pnetcdf}};
    take_turns(&w, argv, all, 2);
    free(w.data);
    MPI_Finalize();
    return 0;
}
