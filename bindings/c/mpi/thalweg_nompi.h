/* Inside libthalweg-nompi. */
#ifndef THALWEG_NOMPI_H
#define THALWEG_NOMPI_H

struct ThalwegMpiTable;

/* Null: this process alone. Where a real MPI runs in this process: a table that refuses every call. */
const struct ThalwegMpiTable *thalweg_nompi_table(void);

#endif
