/* The two programs of this bench, without their output: what they compute, and the arrays that they write.
 *
 *   gray-scott   two fields of a reaction-diffusion system, a slab of this rank; every step reads and writes all of both
 *   atoms        positions, moved by forces of neighbours: much arithmetic for each byte, as in molecular dynamics
 *
 * No MPI in here: the contender of Python computes the same in one process. */
#ifndef WORK_H
#define WORK_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { PLANE = 128, NEIGHBOURS = 8 };

typedef struct {
    int is_atoms, arrays;
    size_t values;       /* of each array */
    double *array[2];    /* those that are written */
    double *next[2];     /* gray-scott: the next step's; atoms: forces and velocities */
    double *halo[2][2];  /* gray-scott: planes of the ranks below and above */
} Work;

static double *zeroed(size_t values)
{
    double *made = malloc(values * sizeof(double));
    if (made) memset(made, 0, values * sizeof(double));
    return made;
}

/* `mib`: of all arrays together. 0: no memory. */
static inline int work_begin(Work *w, const char *name, size_t mib)
{
    *w = (Work){.is_atoms = strcmp(name, "atoms") == 0};
    w->arrays = w->is_atoms ? 1 : 2;
    w->values = (mib << 20) / sizeof(double) / (size_t)w->arrays;
    w->values -= w->values % (w->is_atoms ? 3 : PLANE * PLANE);
    for (int a = 0; a < 2; a++) {
        w->next[a] = zeroed(w->values);
        w->array[a] = a < w->arrays ? zeroed(w->values) : NULL;
        for (int side = 0; side < 2; side++)
            if (!(w->halo[a][side] = zeroed(PLANE * PLANE))) return 0;
        if (!w->next[a] || (a < w->arrays && !w->array[a])) return 0;
    }
    uint64_t state = 88172645463325252ull;
    for (size_t i = 0; i < w->values; i++) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        const double random = (double)(state >> 11) / 9007199254740992.0;
        w->array[0][i] = w->is_atoms ? 3.0 * (double)(i / 3) + random : 1.0 - 0.1 * random;
        if (!w->is_atoms) w->array[1][i] = 0.1 * random;
    }
    return 1;
}

static inline void move_atoms(Work *w)
{
    double *x = w->array[0], *force = w->next[0], *v = w->next[1];
    const size_t atoms = w->values / 3;
    memset(force, 0, w->values * sizeof(double));
    for (size_t i = 0; i + NEIGHBOURS < atoms; i++) {
        for (size_t j = i + 1; j <= i + NEIGHBOURS; j++) {
            double d[3], r2 = 1.0;
            for (int k = 0; k < 3; k++) d[k] = x[3 * i + k] - x[3 * j + k], r2 += d[k] * d[k];
            const double r6 = 1.0 / (r2 * r2 * r2), f = r6 * (r6 - 0.5) / r2;
            for (int k = 0; k < 3; k++) force[3 * i + k] += f * d[k], force[3 * j + k] -= f * d[k];
        }
    }
    for (size_t i = 0; i < w->values; i++) v[i] += 1e-3 * force[i], x[i] += 1e-3 * v[i];
}

static inline void react(Work *w)
{
    const size_t planes = w->values / (PLANE * PLANE);
    for (size_t z = 0; z < planes; z++) {
        for (size_t y = 0; y < PLANE; y++) {
            const double *row[2], *near[2][4];
            double *to[2];
            for (int a = 0; a < 2; a++) {
                const double *plane = w->array[a] + z * PLANE * PLANE;
                row[a] = plane + y * PLANE;
                near[a][0] = plane + (y ? y - 1 : PLANE - 1) * PLANE;
                near[a][1] = plane + (y + 1 < PLANE ? y + 1 : 0) * PLANE;
                near[a][2] = (z ? plane - PLANE * PLANE : w->halo[a][0]) + y * PLANE;
                near[a][3] = (z + 1 < planes ? plane + PLANE * PLANE : w->halo[a][1]) + y * PLANE;
                to[a] = w->next[a] + z * PLANE * PLANE + y * PLANE;
            }
            for (size_t x = 1; x + 1 < PLANE; x++) {
                double spread[2];
                for (int a = 0; a < 2; a++)
                    spread[a] = row[a][x - 1] + row[a][x + 1] + near[a][0][x] + near[a][1][x] + near[a][2][x] + near[a][3][x] - 6.0 * row[a][x];
                const double u = row[0][x], v = row[1][x], uvv = u * v * v;
                to[0][x] = u + 0.5 * (0.2 * spread[0] - uvv + 0.02 * (1.0 - u));
                to[1][x] = v + 0.5 * (0.1 * spread[1] + uvv - 0.068 * v);
            }
            for (int a = 0; a < 2; a++) to[a][0] = row[a][0], to[a][PLANE - 1] = row[a][PLANE - 1];
        }
    }
    for (int a = 0; a < 2; a++) {
        double *now = w->array[a];
        w->array[a] = w->next[a], w->next[a] = now;
    }
}

static inline void work_step(Work *w)
{
    if (w->is_atoms) move_atoms(w);
    else react(w);
}

#endif
