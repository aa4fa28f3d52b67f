#include "output.h"

#include <adios.h>
#include <stdio.h>

void output_check(const Solver *s, int status, const char *doing, const char *path)
{
    if (status == 0) return;
    fprintf(stderr, "gray-scott: rank %d, %s %s: %s\n", s->rank, doing, path, adios_get_last_errmsg());
    MPI_Abort(s->comm, 1);
}

/* gray-scott.xml describes the written variables and their memory; `make calls` creates the include files from it.
 * adios_close reports a store's failure to all ranks. */

void output_fields(const Solver *s, int step, double *packed, const char *path, OutputMode mode)
{
    int64_t adios_handle;
    uint64_t adios_groupsize, adios_totalsize;
    const Settings *p = &s->set;
    double time = step * p->dt;
    output_check(s, adios_open(&adios_handle, "fields", path, mode == OUTPUT_NEW ? "w" : "a", s->comm), "opening", path);
#include "gwrite_fields.ch"
    output_check(s, adios_close(adios_handle), "writing", path);
}

void output_restart(const Solver *s, int step, double *packed, const char *path, OutputMode mode)
{
    int64_t adios_handle;
    uint64_t adios_groupsize, adios_totalsize;
    output_check(s, adios_open(&adios_handle, "restart", path, mode == OUTPUT_NEW ? "w" : "a", s->comm), "opening", path);
#include "gwrite_restart.ch"
    output_check(s, adios_close(adios_handle), "writing", path);
}
