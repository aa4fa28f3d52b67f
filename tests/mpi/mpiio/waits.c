/* Calls whose profile is known: three steps on any number of ranks, of which the last one comes late to each sync.
 *
 *     waits PATH
 */
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { BYTES = 4096 };
static int rank, ranks;

static void must(int code, const char *what) {
    if (code == MPI_SUCCESS) return;
    printf("not ok rank %d: %s\n", rank, what);
    fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int argc, char **argv) {
    char bytes[BYTES];
    MPI_File file;
    MPI_Request request;
    MPI_Offset size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    memset(bytes, rank, sizeof bytes);
    if (argc != 2) MPI_Abort(MPI_COMM_WORLD, 2);
    must(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &file), "open");
    for (int step = 0; step < 3; step++) {
        MPI_Offset at = ((MPI_Offset)step * ranks + rank) * BYTES;
        must(MPI_File_write_at_all(file, at, bytes, BYTES, MPI_BYTE, MPI_STATUS_IGNORE), "write");
        if (rank == ranks - 1) usleep(100000);
        must(MPI_File_sync(file), "sync");
        must(MPI_File_get_size(file, &size), "size");
    }
    must(MPI_File_iwrite_at(file, (MPI_Offset)rank * BYTES, bytes, 100, MPI_BYTE, &request), "nonblocking write");
    must(MPI_Wait(&request, MPI_STATUS_IGNORE), "wait");
    must(MPI_File_write_all_begin(file, bytes, 0, MPI_BYTE), "begin");
    must(MPI_File_write_all_end(file, bytes, MPI_STATUS_IGNORE), "end");
    if (rank == 0) must(MPI_File_read_at(file, 0, bytes, 10, MPI_BYTE, MPI_STATUS_IGNORE), "read");
    must(MPI_File_close(&file), "close");
    if (rank == 0) printf("ok\n");
    MPI_Finalize();
    return 0;
}
