/* MPI-IO's shared file pointer: every rank writes records where the pointer is; all of them must be there. Then all ranks read
 * through the pointer: each record comes once, on some rank.
 *
 *   shared_pointer FILE TIMES   writes TIMES records a rank with MPI_File_write_shared, then TIMES rounds with
 *                               MPI_File_write_ordered; rank 0 reads the file and checks. Reads it with MPI_File_read_shared,
 *                               then its second half with MPI_File_seek_shared and MPI_File_read_ordered
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RECORD 1024

static void right(int outcome, const char *what) {
    if (outcome == MPI_SUCCESS)
        return;
    char text[MPI_MAX_ERROR_STRING];
    int length = 0;
    MPI_Error_string(outcome, text, &length);
    fprintf(stderr, "%s: %s\n", what, text);
    /* MPICH's launcher drops what ranks have said just before. */
    sleep(1);
    MPI_Abort(MPI_COMM_WORLD, 2);
}

static void fill(char *record, int rank, int number) {
    memset(record, 'a' + rank, RECORD);
    snprintf(record, 64, "%06d %06d", rank, number);
}

/* Counts a record, if it is whole. */
static void note(const char *record, char *seen, int ranks, int numbers) {
    char wanted[RECORD];
    int who, number;
    if (sscanf(record, "%d %d", &who, &number) != 2 || who < 0 || who >= ranks || number < 0 || number >= numbers)
        return;
    fill(wanted, who, number);
    if (memcmp(record, wanted, RECORD) == 0)
        seen[who * numbers + number]++;
}

/* Collective: how many records did not come once on all ranks together, of those with numbers from `first` on; none of the others
 * may have come. */
static int miscounted(const char *seen, int ranks, int numbers, int first, const char *what) {
    int wrong = 0, *all = calloc((size_t)(ranks * numbers), sizeof *all), *own = calloc((size_t)(ranks * numbers), sizeof *own), rank;
    for (int k = 0; k < ranks * numbers; k++)
        own[k] = seen[k];
    MPI_Allreduce(own, all, ranks * numbers, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int k = 0; k < ranks * numbers; k++)
        wrong += all[k] != (k % numbers >= first);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0)
        printf("%s: %d of %d records did not come once\n", what, wrong, ranks * (numbers - first));
    free(all);
    free(own);
    return wrong;
}

/* Collective: whether reading through the shared pointer goes wrong. */
static int reads(const char *path, int rank, int ranks, int times) {
    int numbers = 2 * times, wrong = 0;
    char record[RECORD], *seen = calloc((size_t)(ranks * numbers), 1);
    MPI_File file;
    MPI_Status status;
    MPI_Offset at = -1;
    right(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDONLY, MPI_INFO_NULL, &file), "open to read");
    /* No rank knows how many the others take. */
    for (;;) {
        int bytes = 0;
        right(MPI_File_read_shared(file, record, RECORD, MPI_CHAR, &status), "read_shared");
        MPI_Get_count(&status, MPI_CHAR, &bytes);
        if (bytes < RECORD)
            break;
        note(record, seen, ranks, numbers);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    wrong += miscounted(seen, ranks, numbers, 0, "read_shared");
    /* Records written in order are the second half of the file. */
    memset(seen, 0, (size_t)(ranks * numbers));
    right(MPI_File_seek_shared(file, (MPI_Offset)ranks * times * RECORD, MPI_SEEK_SET), "seek_shared");
    right(MPI_File_get_position_shared(file, &at), "get_position_shared");
    if (at != (MPI_Offset)ranks * times * RECORD) {
        printf("rank %d: the shared pointer is at %lld\n", rank, (long long)at);
        wrong++;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = times; i < numbers; i++) {
        char wanted[RECORD];
        right(MPI_File_read_ordered(file, record, RECORD, MPI_CHAR, &status), "read_ordered");
        fill(wanted, rank, i);
        wrong += memcmp(record, wanted, RECORD) != 0;
        note(record, seen, ranks, numbers);
    }
    wrong += miscounted(seen, ranks, numbers, times, "seek_shared and read_ordered");
    /* Back to the last record, which one rank gets. */
    memset(seen, 0, (size_t)(ranks * numbers));
    right(MPI_File_seek_shared(file, -RECORD, MPI_SEEK_END), "seek_shared from the end");
    int bytes = 0;
    right(MPI_File_read_shared(file, record, RECORD, MPI_CHAR, &status), "read_shared of the last record");
    MPI_Get_count(&status, MPI_CHAR, &bytes);
    int mine = bytes == RECORD, all = 0;
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    wrong += all != 1;
    right(MPI_File_close(&file), "close");
    free(seen);
    MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0 && all)
        printf("%d mistakes in reading through the shared pointer\n", all);
    return all != 0;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, ranks, times = argc == 3 ? atoi(argv[2]) : 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (times <= 0)
        return MPI_Finalize(), 2;
    MPI_File file;
    int opened = MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    right(opened, "open");
    char record[RECORD];
    MPI_Status status;
    for (int i = 0; i < times; i++) {
        fill(record, rank, i);
        right(MPI_File_write_shared(file, record, RECORD, MPI_CHAR, &status), "write_shared");
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = times; i < 2 * times; i++) {
        fill(record, rank, i);
        right(MPI_File_write_ordered(file, record, RECORD, MPI_CHAR, &status), "write_ordered");
    }
    right(MPI_File_close(&file), "close");
    MPI_Barrier(MPI_COMM_WORLD);
    int missing = 0, total = ranks * 2 * times;
    if (rank == 0) {
        char *seen = calloc((size_t)total, 1);
        FILE *in = fopen(argv[1], "rb");
        while (in && fread(record, RECORD, 1, in) == 1)
            note(record, seen, ranks, 2 * times);
        for (int k = 0; k < total; k++)
            missing += seen[k] == 0;
        printf("%d of %d records are missing\n", missing, total);
        if (in)
            fclose(in);
        free(seen);
    }
    MPI_Bcast(&missing, 1, MPI_INT, 0, MPI_COMM_WORLD);
    int wrong = missing > 0 || reads(argv[1], rank, ranks, times);
    MPI_Finalize();
    return wrong;
}
