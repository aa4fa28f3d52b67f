/* How the library starts processes on the nodes of a job, with MPI_Comm_spawn: the servers of a partition. spawn.c is compiled by each
 * MPI's own compiler; the Rust side is bindings/c/src/spawner.rs, and the two change together.
 *
 * MPI starts MPI programs alone: what it starts is spawned.c, one process per host, which starts the commands, tells of those that
 * end, and leaves when it is let go. The commands go on by themselves, also after the job.
 *
 * A host outside of the job is never asked for: after a spawn that fails so, Open MPI 4.1 ends the job, or never ends it. Where a command
 * is for another host than this one, a process is started on every node of the job, and each tells where it is.
 */
#ifndef THALWEG_MPI_SPAWN_H
#define THALWEG_MPI_SPAWN_H

#include <stdint.h>

typedef struct ThalwegMpiSpawner {
    /* Starts commands. `words`, so many bytes: of each command its host ("." for this one) and its words, each with its NUL, and one more
     * NUL behind each command; no word is empty. Null where nothing was started: the reason is in `said`, a text of at most `room`
     * bytes. */
    void *(*spawn)(const char *words, uint64_t bytes, char *said, uint64_t room);
    /* 1: a command has ended; which one, how (as waitpid tells it), and what it said last. 0: nothing is new. Does not wait. */
    int (*ended)(void *spawned, int *which, int *status, char *said, uint64_t room);
    /* Lets the commands go on by themselves; with `end` ends them and waits for that. */
    void (*let_go)(void *spawned, int end);
} ThalwegMpiSpawner;

const ThalwegMpiSpawner *thalweg_mpi_spawner(void);
/* Of libthalweg-core; null: none. The first one counts. */
void thalweg_core_spawner(const ThalwegMpiSpawner *spawner);

/* Between spawn.c and spawned.c. */
enum {
    THALWEG_SPAWN_LET_GO = 1,  /* tag, to a spawned process: one byte, below */
    THALWEG_SPAWN_ENDED = 2,   /* tag, from it: "NUMBER STATUS\n", and what the command said last */
    THALWEG_SPAWN_HOST = 3,    /* tag, from it, first: its host's name */
    THALWEG_SPAWN_COMMAND = 4, /* tag, to it: the number of a command and its words, each with its NUL */
    THALWEG_SPAWN_GO_ON = 'g',
    THALWEG_SPAWN_END = 'e',
};

#endif
