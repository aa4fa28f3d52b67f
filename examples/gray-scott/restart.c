/* Restarts from a file, on any number of ranks.
 *
 * Reading mirrors writing: opened with "r", the scalars that describe the box are given with adios_write, and adios_read
 * fills the variables from the last step of the file. */
#include "output.h"

#include <adios.h>
#include <math.h>
#include <stdio.h>

int restart_read(Solver *s, double *packed, const char *path)
{
    int64_t adios_handle;
    uint64_t adios_groupsize, adios_totalsize, adios_buf_size;
    int step = -1, written_size = -1;
    double *packed_v = packed + solver_cells(s);

    /* First the size of the cube: a box of another cube would be read without an error. */
    output_check(s, adios_open(&adios_handle, "restart", path, "r", s->comm), "opening", path);
    output_check(s, adios_read(adios_handle, "L", &written_size, sizeof written_size), "reading L of", path);
    output_check(s, adios_close(adios_handle), "reading", path);
    if (written_size != s->set.size) {
        if (s->rank == 0)
            fprintf(stderr, "gray-scott: %s holds a cube of %d cells along an edge, this run has %d\n", path, written_size,
                    s->set.size);
        MPI_Abort(s->comm, 1);
    }

    output_check(s, adios_open(&adios_handle, "restart", path, "r", s->comm), "opening", path);
    packed[0] = packed_v[0] = NAN; /* which is in no field: what cannot be read shows */
#include "gread_restart.ch"
    output_check(s, step < 0 || isnan(packed[0]) || isnan(packed_v[0]), "reading step, u and v of", path);
    output_check(s, adios_close(adios_handle), "reading", path);
    solver_unpack(s, s->u, packed);
    solver_unpack(s, s->v, packed_v);
    return step;
}
