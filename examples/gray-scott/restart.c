/* Carrying on from a restart file, on any number of ranks.
 *
 * Reading mirrors writing: opened with "r", the scalars that describe the box are given with adios_write, adios_read asks for
 * the variables, and after adios_close the buffers are filled from the last step of the file. */
#include "output.h"

#include <adios.h>
#include <stdio.h>

int restart_read(Solver *s, double *packed, const char *path)
{
    int64_t file;
    int step = -1, written_size = -1;
    uint64_t bytes = solver_cells(s) * sizeof(double);
    double *packed_v = packed + solver_cells(s);

    /* First how large the cube was: a box of another cube would be read without complaint. */
    output_check(s, adios_open(&file, "restart", path, "r", s->comm), "opening", path);
    output_check(s, adios_read(file, "L", &written_size, sizeof written_size), "reading L of", path);
    output_check(s, adios_read(file, "step", &step, sizeof step), "reading step of", path);
    output_check(s, adios_close(file), "reading", path);
    if (written_size != s->set.size) {
        if (s->rank == 0)
            fprintf(stderr, "gray-scott: %s holds a cube of %d cells along an edge, this run has %d\n", path, written_size,
                    s->set.size);
        MPI_Abort(s->comm, 1);
    }

    output_check(s, adios_open(&file, "restart", path, "r", s->comm), "opening", path);
    int status = adios_write(file, "L", &s->set.size) || adios_write(file, "nx", &s->count[0]) ||
                 adios_write(file, "ny", &s->count[1]) || adios_write(file, "nz", &s->count[2]) ||
                 adios_write(file, "ox", &s->offset[0]) || adios_write(file, "oy", &s->offset[1]) ||
                 adios_write(file, "oz", &s->offset[2]) || adios_read(file, "u", packed, bytes) ||
                 adios_read(file, "v", packed_v, bytes);
    output_check(s, status, "asking for u and v of", path);
    output_check(s, adios_close(file), "reading", path);
    solver_unpack(s, s->u, packed);
    solver_unpack(s, s->v, packed_v);
    return step;
}
