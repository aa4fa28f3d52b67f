#include "solver.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Index of cell (i, j, k); 0 and count + 1 are ghost cells. */
static size_t at(const Solver *s, int i, int j, int k)
{
    return ((size_t)i * (size_t)(s->count[1] + 2) + (size_t)j) * (size_t)(s->count[2] + 2) + (size_t)k;
}

/* The number of a cell in the whole cube, from which noise and fingerprint are computed, so that they do not depend on the
 * ranks. */
static uint64_t cell_number(const Solver *s, int i, int j, int k)
{
    uint64_t size = (uint64_t)s->set.size;
    uint64_t x = (uint64_t)(s->offset[0] + i - 1), y = (uint64_t)(s->offset[1] + j - 1), z = (uint64_t)(s->offset[2] + k - 1);
    return (x * size + y) * size + z;
}

/* Mixes 64 bits well (the finalizer of splitmix64). */
static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static double *new_field(const Solver *s)
{
    double *field = calloc(at(s, s->count[0] + 1, s->count[1] + 1, s->count[2] + 1) + 1, sizeof(double));
    if (!field) {
        fprintf(stderr, "gray-scott: rank %d has no memory for %d x %d x %d cells\n", s->rank, s->count[0], s->count[1],
                s->count[2]);
        MPI_Abort(s->comm, 1);
    }
    return field;
}

void solver_create(Solver *s, Settings set, MPI_Comm comm)
{
    int dims[3] = {0, 0, 0}, periodic[3] = {1, 1, 1}, place[3];
    s->set = set;
    MPI_Comm_size(comm, &s->ranks);
    MPI_Dims_create(s->ranks, 3, dims);
    MPI_Cart_create(comm, 3, dims, periodic, 0, &s->comm);
    MPI_Comm_rank(s->comm, &s->rank);
    MPI_Cart_coords(s->comm, s->rank, 3, place);
    for (int d = 0; d < 3; d++) {
        /* The first ranks get one more cell if the edge does not divide evenly. */
        int even = set.size / dims[d], more = set.size % dims[d];
        s->count[d] = even + (place[d] < more);
        s->offset[d] = place[d] * even + (place[d] < more ? place[d] : more);
        MPI_Cart_shift(s->comm, d, 1, &s->below[d], &s->above[d]);
        if (even == 0) {
            if (s->rank == 0) fprintf(stderr, "gray-scott: %d cells cannot be shared among %d ranks\n", set.size, dims[d]);
            MPI_Abort(s->comm, 1);
        }
    }
    for (int d = 0; d < 3; d++) {
        int whole[3], layer[3], origin[3] = {0, 0, 0};
        for (int e = 0; e < 3; e++) {
            whole[e] = s->count[e] + 2;
            layer[e] = e == d ? 1 : s->count[e];
        }
        MPI_Type_create_subarray(3, whole, layer, origin, MPI_ORDER_C, MPI_DOUBLE, &s->face[d]);
        MPI_Type_commit(&s->face[d]);
    }
    s->u = new_field(s);
    s->v = new_field(s);
    s->next_u = new_field(s);
    s->next_v = new_field(s);
}

void solver_start(Solver *s)
{
    int middle = s->set.size / 2, half = s->set.size / 10 + 1;
    for (int i = 1; i <= s->count[0]; i++)
        for (int j = 1; j <= s->count[1]; j++)
            for (int k = 1; k <= s->count[2]; k++) {
                int seeded = abs(s->offset[0] + i - 1 - middle) < half && abs(s->offset[1] + j - 1 - middle) < half &&
                             abs(s->offset[2] + k - 1 - middle) < half;
                double random = (double)(mix(cell_number(s, i, j, k)) >> 11) * 0x1p-53; /* in [0, 1) */
                size_t c = at(s, i, j, k);
                s->u[c] = (seeded ? 0.25 : 1.0) - s->set.noise * random;
                s->v[c] = seeded ? 0.33 : 0.0;
            }
}

/* Fills the ghost layers of a field, except corners, which the stencil does not use. */
static void exchange(const Solver *s, double *field)
{
    for (int d = 0; d < 3; d++) {
        int first[3] = {1, 1, 1}, last[3] = {1, 1, 1}, low[3] = {1, 1, 1}, high[3] = {1, 1, 1};
        last[d] = s->count[d];
        low[d] = 0;
        high[d] = s->count[d] + 1;
        MPI_Sendrecv(&field[at(s, first[0], first[1], first[2])], 1, s->face[d], s->below[d], 2 * d,
                     &field[at(s, high[0], high[1], high[2])], 1, s->face[d], s->above[d], 2 * d, s->comm, MPI_STATUS_IGNORE);
        MPI_Sendrecv(&field[at(s, last[0], last[1], last[2])], 1, s->face[d], s->above[d], 2 * d + 1,
                     &field[at(s, low[0], low[1], low[2])], 1, s->face[d], s->below[d], 2 * d + 1, s->comm, MPI_STATUS_IGNORE);
    }
}

void solver_step(Solver *s)
{
    const Settings *p = &s->set;
    const ptrdiff_t row = (ptrdiff_t)at(s, 0, 1, 0), plane = (ptrdiff_t)at(s, 1, 0, 0); /* to the neighbours */
    exchange(s, s->u);
    exchange(s, s->v);
    for (int i = 1; i <= s->count[0]; i++)
        for (int j = 1; j <= s->count[1]; j++) {
            const double *u = &s->u[at(s, i, j, 0)], *v = &s->v[at(s, i, j, 0)];
            double *next_u = &s->next_u[at(s, i, j, 0)], *next_v = &s->next_v[at(s, i, j, 0)];
            for (int k = 1; k <= s->count[2]; k++) {
                double lap_u = ((u[k - plane] + u[k + plane]) + (u[k - row] + u[k + row]) + (u[k - 1] + u[k + 1])) / 6.0 - u[k];
                double lap_v = ((v[k - plane] + v[k + plane]) + (v[k - row] + v[k + row]) + (v[k - 1] + v[k + 1])) / 6.0 - v[k];
                double reaction = u[k] * v[k] * v[k];
                next_u[k] = u[k] + p->dt * (p->Du * lap_u - reaction + p->F * (1.0 - u[k]));
                next_v[k] = v[k] + p->dt * (p->Dv * lap_v + reaction - (p->F + p->k) * v[k]);
            }
        }
    double *old_u = s->u, *old_v = s->v;
    s->u = s->next_u;
    s->v = s->next_v;
    s->next_u = old_u;
    s->next_v = old_v;
}

void solver_pack(const Solver *s, const double *field, double *packed)
{
    size_t line = (size_t)s->count[2];
    for (int i = 1; i <= s->count[0]; i++)
        for (int j = 1; j <= s->count[1]; j++, packed += line)
            memcpy(packed, &field[at(s, i, j, 1)], line * sizeof(double));
}

void solver_unpack(const Solver *s, double *field, const double *packed)
{
    size_t line = (size_t)s->count[2];
    for (int i = 1; i <= s->count[0]; i++)
        for (int j = 1; j <= s->count[1]; j++, packed += line)
            memcpy(&field[at(s, i, j, 1)], packed, line * sizeof(double));
}

uint64_t solver_cells(const Solver *s)
{
    return (uint64_t)s->count[0] * (uint64_t)s->count[1] * (uint64_t)s->count[2];
}

uint64_t solver_fingerprint(const Solver *s)
{
    /* A sum of mixed terms, so that the order of cells and ranks does not matter. */
    uint64_t mine = 0, all = 0;
    for (int i = 1; i <= s->count[0]; i++)
        for (int j = 1; j <= s->count[1]; j++)
            for (int k = 1; k <= s->count[2]; k++) {
                uint64_t u, v, cell = cell_number(s, i, j, k);
                memcpy(&u, &s->u[at(s, i, j, k)], 8);
                memcpy(&v, &s->v[at(s, i, j, k)], 8);
                mine += mix(mix(u + 2 * cell) ^ mix(v + 2 * cell + 1));
            }
    MPI_Allreduce(&mine, &all, 1, MPI_UINT64_T, MPI_SUM, s->comm);
    return all;
}

void solver_destroy(Solver *s)
{
    for (int d = 0; d < 3; d++) MPI_Type_free(&s->face[d]);
    free(s->u);
    free(s->v);
    free(s->next_u);
    free(s->next_v);
    MPI_Comm_free(&s->comm);
}
