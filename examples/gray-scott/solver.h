/* The Gray-Scott model on a periodic cube, shared among MPI ranks.
 *
 *   du/dt = Du lap(u) - u v^2 + F (1 - u)
 *   dv/dt = Dv lap(v) + u v^2 - (F + k) v
 *
 * Source of the model: J. E. Pearson, Complex patterns in a simple system, Science 261 (1993).
 * Every cell is computed by the same expression from the same neighbours, so results are bit-identical on any number of
 * ranks. */
#ifndef SOLVER_H
#define SOLVER_H

#include <mpi.h>
#include <stdint.h>

typedef struct {
    int size;          /* cells along each edge of the cube */
    double F, k;       /* feed rate, kill rate */
    double Du, Dv;     /* diffusion rates, in cell edges squared per unit of time */
    double dt;         /* time step */
    double noise;      /* largest disturbance of u at the start */
} Settings;

typedef struct {
    Settings set;
    MPI_Comm comm;          /* cartesian, periodic in three dimensions */
    int rank, ranks;
    int count[3];           /* cells of this rank per dimension, slowest first, without ghost cells */
    int offset[3];          /* of its first cell in the cube */
    int below[3], above[3]; /* neighbours */
    MPI_Datatype face[3];   /* one layer of cells across each dimension */
    double *u, *v;          /* (count + 2)^3 values: ghost cells all round */
    double *next_u, *next_v;
} Solver;

/* Distributes the cube over the ranks of `comm` and allocates it. Ends the program if an edge has more ranks than cells. */
void solver_create(Solver *s, Settings set, MPI_Comm comm);

/* The state at step 0: u = 1 and v = 0, a cube with opposite values in the middle, and a little noise. */
void solver_start(Solver *s);

/* One time step. */
void solver_step(Solver *s);

/* Copies between a field with ghost cells and a packed array of count[0] * count[1] * count[2] values. */
void solver_pack(const Solver *s, const double *field, double *packed);
void solver_unpack(const Solver *s, double *field, const double *packed);

/* Number of cells of this rank. */
uint64_t solver_cells(const Solver *s);

/* A fingerprint of the bits of u and v over all ranks: the same on all ranks and for any number of ranks. Collective. */
uint64_t solver_fingerprint(const Solver *s);

void solver_destroy(Solver *s);

#endif
