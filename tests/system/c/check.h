/* Checks made by all ranks together: "ok NAME" where it holds on all of them. */
#ifndef CHECK_H
#define CHECK_H

#include <adios.h>
#include <stdio.h>

extern int adios_errno; /* ADIOS 1.13 declares it elsewhere */

static int checks_failed = 0;

/* Collective over `comm`. */
static inline void check(MPI_Comm comm, int holds, const char *name)
{
    int rank, all = 0;
    MPI_Comm_rank(comm, &rank);
    if (!holds)
        fprintf(stderr, "rank %d: \"%s\" does not hold; adios_errno %d: %s\n", rank, name, adios_errno,
                adios_get_last_errmsg());
    holds = holds != 0;
    MPI_Allreduce(&holds, &all, 1, MPI_INT, MPI_MIN, comm);
    if (rank == 0) {
        printf("%s %s\n", all ? "ok" : "not ok", name);
        fflush(stdout);
    }
    checks_failed += !all;
}

#endif
