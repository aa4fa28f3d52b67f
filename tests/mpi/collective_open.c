/* Files that ranks open together:
 *
 *   collective_open write PATH STRIDE UNIT ROUNDS   each rank writes records of UNIT bytes, STRIDE bytes from one to the next rank's
 *   collective_open read PATH STRIDE UNIT ROUNDS    all open it together, each reads what the next rank wrote
 *   collective_open open PATH                       all open it together, and no more
 *   collective_open fail PATH                       all try; each says what it got
 *
 * Prints lines "ok X" and "not ok X", once for all ranks. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "thalweg.h"

static int rank, ranks;

/* Whether it is so on all ranks. */
static void check(int good, const char *what)
{
    int all = 0;
    if (!good) fprintf(stderr, "rank %d: %s: %s\n", rank, what, thalweg_last_error()->text);
    MPI_Allreduce(&good, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (rank == 0) printf("%s %s\n", all ? "ok" : "not ok", what);
}

static unsigned char value(uint64_t at)
{
    return (unsigned char)((at * 2654435761u) >> 13);
}

static void writes(const char *path, uint64_t stride, uint64_t unit, uint64_t rounds)
{
    unsigned char *record = malloc(unit);
    thalweg_file *file = NULL;
    int good = !thalweg_file_open(&file, path, THALWEG_FILE_WRITE | THALWEG_FILE_CREATE, (uint32_t)rank);
    for (uint64_t round = 0; good && round < rounds; round++) {
        uint64_t offset = (round * (uint64_t)ranks + (uint64_t)rank) * stride;
        for (uint64_t i = 0; i < unit; i++) record[i] = value(offset + i);
        good = !thalweg_file_write(file, record, unit, offset);
    }
    check(good && !thalweg_file_close(file), "every rank writes");
    free(record);
}

static int right(const unsigned char *record, uint64_t unit, uint64_t offset)
{
    for (uint64_t i = 0; i < unit; i++)
        if (record[i] != value(offset + i)) return 0;
    return 1;
}

static void reads(const char *path, uint64_t stride, uint64_t unit, uint64_t rounds)
{
    unsigned char *record = malloc(unit);
    thalweg_file *file = NULL;
    uint64_t length = 0, got = 0, last = ((rounds - 1) * (uint64_t)ranks + (uint64_t)ranks - 1) * stride;
    check(!thalweg_file_open_mpi(&file, path, MPI_COMM_WORLD), "all open it together");
    check(!thalweg_file_length(file, &length) && length == last + unit, "all know how long it is");
    int good = 1;
    for (uint64_t round = 0; round < rounds; round++) {
        uint64_t offset = (round * (uint64_t)ranks + (uint64_t)((rank + 1) % ranks)) * stride;
        memset(record, 0, unit);
        good = !thalweg_file_read_all(file, record, unit, offset, &got) && got == unit && right(record, unit, offset) && good;
    }
    check(good, "each reads what the next rank wrote");
    good = !thalweg_file_read_all(file, record, rank ? 0 : unit, last + unit / 2, &got) && got == (rank ? 0 : unit - unit / 2);
    check(good, "one reads over the end, the others nothing");
    /* Of what was read together it is known where it lies. */
    uint64_t again = (uint64_t)((rank + 1) % ranks) * stride;
    memset(record, 0, unit);
    check(!thalweg_file_read(file, record, unit, again, NULL) && right(record, unit, again), "each reads it again alone");
    check(thalweg_file_write(file, record, 1, 0) == THALWEG_INVALID_ARGUMENT, "it is not written");
    check(!thalweg_file_close(file), "all close it");
    free(record);
}

static void fails(const char *path)
{
    thalweg_file *file = NULL;
    int status = thalweg_file_open_mpi(&file, path, MPI_COMM_WORLD), least = 0, most = 0;
    MPI_Allreduce(&status, &least, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    MPI_Allreduce(&status, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    check(status && least == most && !file, "all fail with one status");
    const thalweg_error *error = thalweg_last_error();
    check(strstr(error->what, "has lost a") && error->object && strstr(error->object, ".data"),
          "each is told what is lost, and where");
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc < 3) return 2;
    const char *path = argv[2];
    uint64_t numbers[3] = {0, 0, 0};
    for (int i = 3; i < argc && i < 6; i++) numbers[i - 3] = strtoull(argv[i], NULL, 10);
    if (!strcmp(argv[1], "write")) writes(path, numbers[0], numbers[1], numbers[2]);
    if (!strcmp(argv[1], "read")) reads(path, numbers[0], numbers[1], numbers[2]);
    if (!strcmp(argv[1], "fail")) fails(path);
    if (!strcmp(argv[1], "open")) {
        thalweg_file *file = NULL;
        check(!thalweg_file_open_mpi(&file, path, MPI_COMM_WORLD), "all open it");
        check(!thalweg_file_close(file), "all close it");
    }
    MPI_Finalize();
    return 0;
}
