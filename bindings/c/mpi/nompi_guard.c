/* libthalweg-nompi in a program that runs with a real MPI: each of its ranks would take itself for the only one. Such calls are
 * refused: the table is then one whose `ready` says so. Without mpidummy.h, as the real name is asked for. */
#include <stddef.h>
#include <string.h>

#include "thalweg_mpi.h"
#include "thalweg_nompi.h"

int MPI_Initialized(int *flag) __attribute__((weak));

static int ready(void) { return THALWEG_MPI_FOREIGN; }

static int never(void) { return THALWEG_MPI_FOREIGN; }

const struct ThalwegMpiTable *thalweg_nompi_table(void)
{
    static ThalwegMpiTable refusing;
    int running = 0;
    if (!MPI_Initialized || MPI_Initialized(&running) != 0 || !running) return NULL;
    /* No function but `ready` is called of a library that is refused; all are there. */
    int (*const stub)(void) = never;
    ThalwegMpiTable made = {.version = THALWEG_MPI_VERSION, .table_bytes = sizeof made};
    for (size_t at = offsetof(ThalwegMpiTable, ready); at < sizeof made; at += sizeof stub)
        memcpy((char *)&made + at, &stub, sizeof stub);
    made.ready = ready;
    refusing = made;
    return &refusing;
}
