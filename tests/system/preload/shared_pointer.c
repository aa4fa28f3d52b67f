/* MPI-IO's shared file pointer: every rank writes records where the pointer is; all of them must be there.
 *
 *   shared_pointer FILE TIMES   writes TIMES records a rank with MPI_File_write_shared, then TIMES rounds with
 *                               MPI_File_write_ordered; rank 0 reads the file and checks. 3: refused at open, with a reason
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RECORD 1024

static void right(int outcome, const char *what) {
    if (outcome == MPI_SUCCESS)
        return;
    char text[MPI_MAX_ERROR_STRING];
    int length = 0;
    MPI_Error_string(outcome, text, &length);
    fprintf(stderr, "%s: %s\n", what, text);
    MPI_Abort(MPI_COMM_WORLD, 2);
}

static void fill(char *record, int rank, int number) {
    memset(record, 'a' + rank, RECORD);
    snprintf(record, 64, "%06d %06d", rank, number);
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
    int missing = 0;
    if (rank == 0) {
        char *seen = calloc((size_t)ranks * 2 * (size_t)times, 1), wanted[RECORD];
        FILE *in = fopen(argv[1], "rb");
        while (in && fread(record, RECORD, 1, in) == 1) {
            int who, number;
            if (sscanf(record, "%d %d", &who, &number) != 2 || who < 0 || who >= ranks || number < 0 || number >= 2 * times)
                continue;
            fill(wanted, who, number);
            if (memcmp(record, wanted, RECORD) == 0)
                seen[who * 2 * times + number] = 1;
        }
        for (int k = 0; k < ranks * 2 * times; k++)
            missing += !seen[k];
        printf("%d of %d records are missing\n", missing, ranks * 2 * times);
    }
    MPI_Bcast(&missing, 1, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Finalize();
    return missing ? 1 : 0;
}
