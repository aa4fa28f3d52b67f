/* Shared file pointers and atomic mode of ranks on several nodes.
 *
 *   nodes shared PATH            every rank writes records at the shared pointer, alone and in order, and reads them: each record is there
 *                                once, byte for byte
 *   nodes atomic PATH N BYTES    every rank writes and reads the same BYTES N times in atomic mode: they are those of one rank
 *   nodes plain PATH N BYTES     the same without atomic mode
 *   nodes hold PATH BYTES        one rank: writes BYTES again and again in atomic mode; prints "began PID", and at last the error
 *   nodes go PATH BYTES FLAG     one rank: opens, prints "open", waits until the file FLAG exists, writes BYTES in atomic mode, prints
 *                                "wrote SECONDS"
 *
 * Prints "ok NAME" where the first two hold. Exits with 1 where something does not, with 3 after a failed call. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RECORDS = 150, LONGEST = 600 };

static int rank, ranks;

static void check(int status, const char *what) {
    if (status == MPI_SUCCESS) return;
    char text[MPI_MAX_ERROR_STRING];
    int length;
    MPI_Error_string(status, text, &length);
    printf("rank %d cannot %s: %s\n", rank, what, text);
    fflush(stdout);
    /* MPICH's launcher drops what ranks have said just before. */
    sleep(1);
    if (ranks > 1) MPI_Abort(MPI_COMM_WORLD, 3);
    _exit(3);
}

static void wrong(const char *what, long long at) {
    printf("rank %d: %s (%lld)\n", rank, what, at);
    fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static MPI_File opened(MPI_Comm comm, const char *path) {
    MPI_File file;
    check(MPI_File_open(comm, path, MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &file), "open");
    return file;
}

/* Record `n` of rank `of`: its length in bytes, then its number and its rank, then bytes of its own. */
static int record(int of, int n, unsigned char *out) {
    int length = 12 + (of * 31 + n * 7) % (LONGEST - 12);
    memcpy(out, &length, 4);
    memcpy(out + 4, &n, 4);
    memcpy(out + 8, &of, 4);
    for (int i = 12; i < length; i++) out[i] = (unsigned char)(of * 13 + n + i);
    return length;
}

/* Walks over the records of the whole file. */
static void every_record_is_there(MPI_File file, MPI_Offset size) {
    unsigned char *all = malloc((size_t)size + LONGEST), wanted[LONGEST];
    int *seen = calloc((size_t)ranks * 2 * RECORDS, sizeof *seen);
    MPI_Offset at = 0, has = 0;
    check(MPI_File_get_size(file, &has), "get the size");
    if (has != size) wrong("the file has another size", has);
    check(MPI_File_read_at(file, 0, all, (int)size, MPI_BYTE, MPI_STATUS_IGNORE), "read");
    while (at < size) {
        int length, n, of;
        memcpy(&length, all + at, 4);
        memcpy(&n, all + at + 4, 4);
        memcpy(&of, all + at + 8, 4);
        if (of < 0 || of >= ranks || n < 0 || n >= 2 * RECORDS) wrong("no record", at);
        if (record(of, n, wanted) != length || memcmp(wanted, all + at, (size_t)length) != 0) wrong("a mixed record", at);
        if (seen[of * 2 * RECORDS + n]++) wrong("a record twice", at);
        at += length;
    }
    if (at != size) wrong("the last record is too long", at);
    for (int i = 0; i < ranks * 2 * RECORDS; i++)
        if (!seen[i]) wrong("a record is missing", i);
    free(all);
    free(seen);
}

static void shared(const char *path) {
    unsigned char out[LONGEST], got[LONGEST];
    long long own = 0, total = 0;
    MPI_Offset at = -1;
    MPI_File file = opened(MPI_COMM_WORLD, path);
    check(MPI_File_set_size(file, 0), "empty the file");
    for (int n = 0; n < RECORDS; n++) {
        int length = record(rank, n, out);
        check(MPI_File_write_shared(file, out, length, MPI_BYTE, MPI_STATUS_IGNORE), "write at the shared pointer");
        own += length;
    }
    /* In the order of the ranks. */
    MPI_Barrier(MPI_COMM_WORLD);
    for (int n = RECORDS; n < 2 * RECORDS; n++) {
        int length = record(rank, n, out);
        check(MPI_File_write_ordered(file, out, length, MPI_BYTE, MPI_STATUS_IGNORE), "write in order");
        own += length;
    }
    MPI_Allreduce(&own, &total, 1, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
    check(MPI_File_get_position_shared(file, &at), "ask for the shared pointer");
    if (at != total) wrong("the shared pointer is elsewhere", at);
    check(MPI_File_sync(file), "sync");
    every_record_is_there(file, total);
    /* The bytes are read by someone, once: the sums of all are the file's. */
    check(MPI_File_seek_shared(file, 0, MPI_SEEK_SET), "move the shared pointer");
    long long sum = 0, all = 0, wanted = 0, count = 0, counts = 0;
    for (;;) {
        MPI_Status status;
        int bytes;
        check(MPI_File_read_shared(file, got, 97, MPI_BYTE, &status), "read at the shared pointer");
        MPI_Get_count(&status, MPI_BYTE, &bytes);
        if (bytes == 0) break;
        for (int i = 0; i < bytes; i++) sum += got[i];
        count += bytes;
    }
    for (int n = 0; n < 2 * RECORDS; n++) {
        int length = record(rank, n, out);
        for (int i = 0; i < length; i++) wanted += out[i];
    }
    long long both[3] = {sum, wanted, count}, reduced[3];
    MPI_Allreduce(both, reduced, 3, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
    all = reduced[0], wanted = reduced[1], counts = reduced[2];
    if (all != wanted || counts != total) wrong("other bytes were read at the shared pointer", counts);
    check(MPI_File_close(&file), "close");
    if (rank == 0) printf("ok every byte of the shared pointer's records, %lld bytes\n", total);
}

static void overlapping(const char *path, int atomic, int times, int bytes) {
    unsigned char *out = malloc((size_t)bytes), *got = malloc((size_t)bytes);
    long long mixed = 0, all = 0, others = 0, of_others = 0;
    MPI_File file = opened(MPI_COMM_WORLD, path);
    check(MPI_File_set_size(file, 0), "empty the file");
    if (atomic) check(MPI_File_set_atomicity(file, 1), "set atomic mode");
    memset(out, 'z', (size_t)bytes);
    if (rank == 0) check(MPI_File_write_at(file, 0, out, bytes, MPI_BYTE, MPI_STATUS_IGNORE), "write");
    MPI_Barrier(MPI_COMM_WORLD);
    double begun = MPI_Wtime();
    for (int n = 0; n < times; n++) {
        memset(out, 'a' + rank, (size_t)bytes);
        check(MPI_File_write_at(file, 0, out, bytes, MPI_BYTE, MPI_STATUS_IGNORE), "write");
        check(MPI_File_read_at(file, 0, got, bytes, MPI_BYTE, MPI_STATUS_IGNORE), "read");
        for (int i = 1; i < bytes; i++)
            if (got[i] != got[0]) {
                mixed++;
                break;
            }
        others += got[0] != 'a' + rank;
    }
    double took = MPI_Wtime() - begun;
    MPI_Allreduce(&mixed, &all, 1, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(&others, &of_others, 1, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
    check(MPI_File_close(&file), "close");
    if (all) wrong("accesses were mixed", all);
    if (rank == 0) printf("ok no access is mixed, %lld of %d reads saw another rank's write, %.3f ms each\n", of_others, ranks * times, took / times / 2 * 1e3);
    free(out);
    free(got);
}

static void one(const char *path, int bytes, const char *flag) {
    unsigned char *out = malloc((size_t)bytes);
    memset(out, flag ? 'g' : 'h', (size_t)bytes);
    MPI_File file = opened(MPI_COMM_SELF, path);
    check(MPI_File_set_atomicity(file, 1), "set atomic mode");
    if (flag) {
        printf("open\n");
        fflush(stdout);
        while (access(flag, F_OK) != 0) usleep(10000);
        double begun = MPI_Wtime();
        check(MPI_File_write_at(file, 0, out, bytes, MPI_BYTE, MPI_STATUS_IGNORE), "write");
        printf("wrote %.3f\n", MPI_Wtime() - begun);
        fflush(stdout);
        /* What a close says is not looked at: a node may be cut off. */
        MPI_File_close(&file);
        return;
    }
    for (int n = 0;; n++) {
        check(MPI_File_write_at(file, 0, out, bytes, MPI_BYTE, MPI_STATUS_IGNORE), "write");
        if (n == 0) {
            printf("began %d\n", (int)getpid());
            fflush(stdout);
        }
    }
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const char *mode = argc > 2 ? argv[1] : "";
    if (strcmp(mode, "shared") == 0)
        shared(argv[2]);
    else if ((strcmp(mode, "atomic") == 0 || strcmp(mode, "plain") == 0) && argc == 5)
        overlapping(argv[2], mode[0] == 'a', atoi(argv[3]), atoi(argv[4]));
    else if (strcmp(mode, "hold") == 0 && argc == 4)
        one(argv[2], atoi(argv[3]), NULL);
    else if (strcmp(mode, "go") == 0 && argc == 5)
        one(argv[2], atoi(argv[3]), argv[4]);
    else
        wrong("unknown words", argc);
    MPI_Finalize();
    return 0;
}
