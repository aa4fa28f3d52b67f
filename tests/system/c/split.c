/* split CONFIG.xml FILE: one half of the ranks writes while the other waits in MPI. Nothing may be said on communicators
 * of the program: MPI_COMM_WORLD, or the half itself. MPI is initialised with the lowest thread level. */
#include "check.h"
#include "heat.h"

int main(int argc, char **argv)
{
    int level, rank, ranks;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SINGLE, &level);
    if (argc != 3) return 2;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm half;
    int writes = rank >= ranks / 2; /* ranks are counted differently in the half */
    MPI_Comm_split(MPI_COMM_WORLD, writes, -rank, &half);
    int good = 1;
    if (writes) {
        /* These would catch a stray message. */
        int caught[2] = {0, 0}, flag;
        MPI_Request requests[2];
        MPI_Irecv(&caught[0], 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[0]);
        MPI_Irecv(&caught[1], 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, half, &requests[1]);
        Part p = part_of(half);
        static double t[ROWS * NX];
        int64_t fd;
        good = !adios_init(argv[1], half);
        for (int step = 0; step < 3 && good; step++) {
            fill(&p, step, t);
            good = !adios_open(&fd, "heat", argv[2], step ? "a" : "w", half);
            if (good) {
                write_small(fd, &p, step);
                good = !adios_write(fd, "t", t) && !adios_close(fd);
            }
        }
        good = good && !adios_finalize(p.rank);
        for (int i = 0; i < 2; i++) {
            MPI_Test(&requests[i], &flag, MPI_STATUS_IGNORE);
            good = good && !flag;
            if (!flag) {
                MPI_Cancel(&requests[i]);
                MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
            }
        }
    }
    if (ranks > 1) {
        int token = 1;
        if (rank == ranks - 1)
            for (int to = 0; to < ranks / 2; to++) MPI_Send(&token, 1, MPI_INT, to, 0, MPI_COMM_WORLD);
        if (!writes) MPI_Recv(&token, 1, MPI_INT, ranks - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    check(MPI_COMM_WORLD, good && level >= MPI_THREAD_SINGLE, "half of the ranks write while the others wait elsewhere");
    MPI_Finalize();
    return checks_failed != 0;
}
