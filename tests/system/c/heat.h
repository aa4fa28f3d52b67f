/* What heat_xml.c and heat_noxml.c write and restart.c reads: values known from their place alone. */
#ifndef HEAT_H
#define HEAT_H

#include <adios.h>
#include <stdio.h>
#include <stdlib.h>

/* Of the global array. 12 rows fall evenly on 1, 2, 3, 4 or 6 ranks; a row is longer than what is always copied. */
enum { ROWS = 12, NX = 600 };

typedef struct {
    MPI_Comm comm;
    int rank, ranks;
    int rows, first; /* of this rank */
} Part;

static inline Part part_of(MPI_Comm comm)
{
    Part p = {comm, 0, 0, 0, 0};
    MPI_Comm_rank(comm, &p.rank);
    MPI_Comm_size(comm, &p.ranks);
    p.rows = ROWS / p.ranks;
    p.first = p.rank * p.rows;
    return p;
}

static inline double heat_at(int step, int row, int column) { return 10000.0 * step + 100.0 * row + column; }

static inline void fill(const Part *p, int step, double *t)
{
    for (int row = 0; row < p->rows; row++)
        for (int column = 0; column < NX; column++) t[row * NX + column] = heat_at(step, p->first + row, column);
}

static inline void must(int status, const char *doing)
{
    if (status == 0) return;
    fprintf(stderr, "%s: %d: %s\n", doing, status, adios_get_last_errmsg());
    exit(1);
}

/* Writes everything but t. */
static inline void write_small(int64_t fd, const Part *p, int step)
{
    int nx = NX, total = ROWS;
    double time = 0.5 * step;
    unsigned char mark[2] = {(unsigned char)p->rank, 200};
    float z[2] = {1.5f, (float)step};
    int64_t large = (int64_t)1 << 40;
    char note[32];
    snprintf(note, sizeof note, "step %d", step);
    must(adios_write(fd, "NX", &nx), "NX");
    must(adios_write(fd, "N", &total), "N");
    must(adios_write(fd, "rows", &p->rows), "rows");
    must(adios_write(fd, "first", &p->first), "first");
    must(adios_write(fd, "time", &time), "time");
    must(adios_write(fd, "large", &large), "large");
    must(adios_write(fd, "note", note), "note");
    must(adios_write(fd, "/local/mark", mark), "mark");
    must(adios_write(fd, "z", z), "z");
}

#endif
