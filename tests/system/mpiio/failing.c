/* Collective writes until one fails, then a sync and a close; each rank says which error classes it got, from the calls themselves and
 * through an error handler of its own:
 *
 *     rank R: write CLASS, sync CLASS, close CLASS
 *
 *     failing PATH blocks|interleaved STEPS
 *
 * Each rank writes 1 MiB in a step: a part of its own (blocks), or each n-th KiB (interleaved).
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 1 << 20, PIECE = 1 << 10 };
static int rank, ranks, handled, handled_class;

static void handler(MPI_File *file, int *code, ...) {
    (void)file;
    handled++;
    MPI_Error_class(*code, &handled_class);
}

/* The class of a call's result, which the handler must have got once. */
static int class_of(int code, const char *call) {
    int class = MPI_SUCCESS;
    if (code != MPI_SUCCESS) MPI_Error_class(code, &class);
    if (handled != (code != MPI_SUCCESS) || (handled && handled_class != class))
        printf("not ok rank %d: %s returns class %d, its handler was called %d times, with class %d\n", rank, call, class, handled, handled_class);
    handled = handled_class = 0;
    return class;
}

static const char *name(int class, char *number) {
    if (class == MPI_SUCCESS) return "none";
    if (class == MPI_ERR_NO_SPACE) return "NO_SPACE";
    if (class == MPI_ERR_IO) return "IO";
    sprintf(number, "%d", class);
    return number;
}

int main(int argc, char **argv) {
    char numbers[3][16];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc != 4) MPI_Abort(MPI_COMM_WORLD, 2);
    int interleaved = !strcmp(argv[2], "interleaved"), steps = atoi(argv[3]), wrote = MPI_SUCCESS, any = 0;
    char *bytes = malloc(BYTES);
    if (!bytes) MPI_Abort(MPI_COMM_WORLD, 2);
    memset(bytes, 'a' + rank, BYTES);
    MPI_File file;
    MPI_Errhandler own;
    MPI_File_create_errhandler(handler, &own);
    /* Where ranks exchange bytes, each of them writes some. */
    MPI_Info all;
    char every[16];
    snprintf(every, sizeof every, "%d", ranks);
    MPI_Info_create(&all);
    MPI_Info_set(all, "cb_nodes", every);
    if (MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_RDWR | MPI_MODE_CREATE, all, &file) != MPI_SUCCESS) {
        printf("not ok rank %d: open\n", rank);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Info_free(&all);
    MPI_File_set_errhandler(file, own);
    if (interleaved) {
        MPI_Datatype there;
        MPI_Type_vector(BYTES / PIECE, PIECE, PIECE * ranks, MPI_BYTE, &there);
        MPI_Type_commit(&there);
        if (class_of(MPI_File_set_view(file, (MPI_Offset)rank * PIECE, MPI_BYTE, there, "native", MPI_INFO_NULL), "set_view"))
            printf("not ok rank %d: set_view\n", rank);
        MPI_Type_free(&there);
    }
    for (int step = 0; step < steps && !any; step++) {
        MPI_Offset at = interleaved ? (MPI_Offset)step * BYTES : ((MPI_Offset)step * ranks + rank) * BYTES;
        wrote = class_of(MPI_File_write_at_all(file, at, bytes, BYTES, MPI_BYTE, MPI_STATUS_IGNORE), "write_at_all");
        int failed = wrote != MPI_SUCCESS;
        MPI_Allreduce(&failed, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    }
    int synced = class_of(MPI_File_sync(file), "sync");
    /* MPI calls the handler of a file that is being closed. */
    int closed = class_of(MPI_File_close(&file), "close");
    if (file != MPI_FILE_NULL) printf("not ok rank %d: the handle stays\n", rank);
    MPI_Errhandler_free(&own);
    printf("rank %d: write %s, sync %s, close %s\n", rank, name(wrote, numbers[0]), name(synced, numbers[1]), name(closed, numbers[2]));
    free(bytes);
    MPI_Finalize();
    return 0;
}
