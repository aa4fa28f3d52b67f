#include "output.h"

#include <adios.h>
#include <stdio.h>

void output_check(const Solver *s, int status, const char *doing, const char *path)
{
    if (status == 0) return;
    fprintf(stderr, "gray-scott: rank %d, %s %s: %s\n", s->rank, doing, path, adios_get_last_errmsg());
    MPI_Abort(s->comm, 1);
}

/* The box of this rank within the cube; both groups describe u and v with these names. */
static int write_box(const Solver *s, int64_t file)
{
    return adios_write(file, "L", &s->set.size) || adios_write(file, "nx", &s->count[0]) ||
           adios_write(file, "ny", &s->count[1]) || adios_write(file, "nz", &s->count[2]) ||
           adios_write(file, "ox", &s->offset[0]) || adios_write(file, "oy", &s->offset[1]) ||
           adios_write(file, "oz", &s->offset[2]);
}

/* Writes u and v without their ghost cells. One buffer serves both: a write returns with it free again. */
static int write_arrays(const Solver *s, int64_t file, double *packed)
{
    solver_pack(s, s->u, packed);
    if (adios_write(file, "u", packed)) return 1;
    solver_pack(s, s->v, packed);
    return adios_write(file, "v", packed);
}

void output_fields(const Solver *s, int step, double *packed, const char *path, OutputMode mode)
{
    int64_t file;
    const Settings *p = &s->set;
    double time = step * p->dt;
    output_check(s, adios_open(&file, "fields", path, mode == OUTPUT_NEW ? "w" : "a", s->comm), "opening", path);
    int status = write_box(s, file);
    if (s->rank == 0 && !status) /* the same everywhere, so one rank is enough */
        status = adios_write(file, "step", &step) || adios_write(file, "time", &time) || adios_write(file, "F", &p->F) ||
                 adios_write(file, "k", &p->k) || adios_write(file, "Du", &p->Du) || adios_write(file, "Dv", &p->Dv) ||
                 adios_write(file, "dt", &p->dt);
    output_check(s, status || write_arrays(s, file, packed), "writing", path);
    output_check(s, adios_close(file), "closing", path);
}

void output_restart(const Solver *s, int step, double *packed, const char *path, OutputMode mode)
{
    int64_t file;
    output_check(s, adios_open(&file, "restart", path, mode == OUTPUT_NEW ? "w" : "a", s->comm), "opening", path);
    int status = write_box(s, file) || (s->rank == 0 && adios_write(file, "step", &step));
    output_check(s, status || write_arrays(s, file, packed), "writing", path);
    output_check(s, adios_close(file), "closing", path);
}
