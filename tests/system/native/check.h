/* Checks made by all ranks together: "ok NAME" where it holds on all of them. Without MPI there is one rank. */
#ifndef CHECK_H
#define CHECK_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <thalweg.h>

static int checks_failed = 0;
static int my_rank = 0, all_ranks = 1;

static inline void check(int holds, const char *name)
{
    int all = holds != 0;
    if (!holds) fprintf(stderr, "rank %d: \"%s\" does not hold; last error: %s\n", my_rank, name, thalweg_last_error()->text);
#ifdef MPI_VERSION
    int mine = all;
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
#endif
    if (my_rank == 0) {
        printf("%s %s\n", all ? "ok" : "not ok", name);
        fflush(stdout);
    }
    checks_failed += !all;
}

static inline int starts_with(const char *text, const char *start) { return text && strncmp(text, start, strlen(start)) == 0; }

#endif
