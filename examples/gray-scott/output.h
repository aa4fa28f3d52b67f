/* What the simulation writes: group "fields" to look at, group "restart" to carry on from. Neither function knows how the
 * bytes travel or into how many files: gray-scott.xml says it. */
#ifndef OUTPUT_H
#define OUTPUT_H

#include "solver.h"

typedef enum { OUTPUT_NEW, OUTPUT_APPEND } OutputMode;

/* Each adds one step to `path`, or starts the file anew. Collective; ends the program where writing fails. `packed` has room for
 * the cells of this rank. */
void output_fields(const Solver *s, int step, double *packed, const char *path, OutputMode mode);
void output_restart(const Solver *s, int step, double *packed, const char *path, OutputMode mode);

/* Fills u and v from the last step of `path`, written by any number of ranks, and returns its step. Collective; ends the
 * program where there is nothing to read or the cube has another size. In restart.c. */
int restart_read(Solver *s, double *packed, const char *path);

/* Ends the program, telling what the I/O library says, where `status` is not 0. */
void output_check(const Solver *s, int status, const char *doing, const char *path);

#endif
