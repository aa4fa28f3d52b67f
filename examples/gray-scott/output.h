/* Output of the simulation: group "fields" for analysis, group "restart" for restarts. gray-scott.xml selects the method
 * and the number of files. */
#ifndef OUTPUT_H
#define OUTPUT_H

#include "solver.h"

typedef enum { OUTPUT_NEW, OUTPUT_APPEND } OutputMode;

/* Each adds one step to `path`, or creates a new file. Collective; ends the program if writing fails. `packed` has room for
 * the cells of this rank. */
void output_fields(const Solver *s, int step, double *packed, const char *path, OutputMode mode);
void output_restart(const Solver *s, int step, double *packed, const char *path, OutputMode mode);

/* Fills u and v from the last step of `path`, written by any number of ranks, and returns its step. Collective; ends the
 * program if the file cannot be read or the cube has another size. In restart.c. */
int restart_read(Solver *s, double *packed, const char *path);

/* Ends the program with the I/O library's message if `status` is not 0. */
void output_check(const Solver *s, int status, const char *doing, const char *path);

#endif
