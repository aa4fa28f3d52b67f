/* The application's part in tests/mpi/comm.sh: starts and ends MPI, and hands over a communicator of its own. */
#include <mpi.h>
#include <stddef.h>

#include "thalweg_mpi.h"

void *application_start(int threads);
void *application_null(void);
void *application_again(void);
void application_free(void);
void application_end(void);

static MPI_Comm own = MPI_COMM_NULL;

/* Returns what Thalweg is to use: a duplicate of a communicator whose ranks run backwards. */
void *application_start(int threads) {
    int granted = MPI_THREAD_SINGLE, rank = 0;
    if (threads) {
        if (MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &granted) != MPI_SUCCESS) return NULL;
        if (granted != MPI_THREAD_MULTIPLE) return NULL;
    } else if (MPI_Init(NULL, NULL) != MPI_SUCCESS) {
        return NULL;
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &own);
    return thalweg_mpi_wrap(own);
}

/* Ours is freed before Thalweg's duplicate is used: the two must not depend on each other. */
void application_free(void) { MPI_Comm_free(&own); }

/* The same communicator once more. */
void *application_again(void) { return thalweg_mpi_wrap(own); }

void *application_null(void) { return thalweg_mpi_wrap(MPI_COMM_NULL); }

void application_end(void) { MPI_Finalize(); }
