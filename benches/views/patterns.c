/* The access patterns of NAS BTIO, of MPI-Tile-IO, and of a block of a three-dimensional array, through MPI-IO.
 *
 *   patterns LABEL PATTERN SIZE FILE [HINT=VALUE...]
 *
 * btio     SIZE cells an edge, five doubles each; a square number of ranks q * q, each with q cells along a diagonal; five collective
 *          writes, each of one output behind the one before, then five collective reads
 * tile     SIZE MiB in all; a grid of tiles whose rows are 4 KiB, for a square number of ranks or two side by side; one collective write,
 *          one collective read
 * subarray SIZE doubles an edge; blocks that split the two fastest dimensions; one collective write, one collective read
 *
 * Prints "value LABEL/PATTERN:write SECONDS" and ":read": from before the first call until after the last on the slowest rank. Bytes are
 * compared on every rank. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, ranks;

static void check(int status, const char *what) {
    if (status == MPI_SUCCESS) return;
    char text[MPI_MAX_ERROR_STRING];
    int length;
    MPI_Error_string(status, text, &length);
    fprintf(stderr, "rank %d cannot %s: %s\n", rank, what, text);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* The byte that a rank writes at a place of its own, in an output. */
static unsigned char byte(size_t at, int output) { return (unsigned char)(at * 7 + (at >> 11) + (size_t)rank * 31 + (size_t)output * 13 + 1); }

/* Where one cell's share of an edge begins. */
static int begins(int edge, int parts, int part) { return (int)((long long)edge * part / parts); }

/* The filetype of a rank: `element` bytes are contiguous. */
static MPI_Datatype filetype(const char *pattern, int size, MPI_Datatype *element, size_t *bytes) {
    MPI_Datatype type;
    int q = 1;
    while (q * q < ranks) q++;
    const int is_tile = strcmp(pattern, "tile") == 0;
    if (q * q != ranks && !(is_tile && ranks == 2)) {
        fprintf(stderr, "%d ranks are no square number\n", ranks);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    if (strcmp(pattern, "btio") == 0) {
        MPI_Type_contiguous(5, MPI_DOUBLE, element);
        MPI_Type_commit(element);
        MPI_Datatype *cells = malloc((size_t)q * sizeof *cells);
        int *ones = malloc((size_t)q * sizeof *ones);
        MPI_Aint *zeros = malloc((size_t)q * sizeof *zeros);
        *bytes = 0;
        for (int c = 0; c < q; c++) {
            int at[3] = {c, (rank / q + c) % q, (rank % q + c) % q};
            int sizes[3] = {size, size, size}, subsizes[3], starts[3];
            size_t cell = 40;
            for (int d = 0; d < 3; d++) {
                starts[d] = begins(size, q, at[d]);
                subsizes[d] = begins(size, q, at[d] + 1) - starts[d];
                cell *= (size_t)subsizes[d];
            }
            MPI_Type_create_subarray(3, sizes, subsizes, starts, MPI_ORDER_C, *element, &cells[c]);
            ones[c] = 1;
            zeros[c] = 0;
            *bytes += cell;
        }
        MPI_Type_create_struct(q, ones, zeros, cells, &type);
        for (int c = 0; c < q; c++) MPI_Type_free(&cells[c]);
        free(cells);
        free(ones);
        free(zeros);
    } else if (is_tile) {
        MPI_Type_contiguous(4096, MPI_BYTE, element);
        MPI_Type_commit(element);
        int rows = (int)((long long)size * 256 / ranks);
        int sizes[2] = {rows * (ranks / q), q}, subsizes[2] = {rows, 1}, starts[2] = {rows * (rank / q), rank % q};
        *bytes = (size_t)rows * 4096;
        MPI_Type_create_subarray(2, sizes, subsizes, starts, MPI_ORDER_C, *element, &type);
    } else {
        MPI_Type_dup(MPI_DOUBLE, element);
        int sizes[3] = {size, size, size};
        int starts[3] = {0, begins(size, q, rank / q), begins(size, q, rank % q)};
        int subsizes[3] = {size, begins(size, q, rank / q + 1) - starts[1], begins(size, q, rank % q + 1) - starts[2]};
        *bytes = (size_t)subsizes[0] * (size_t)subsizes[1] * (size_t)subsizes[2] * 8;
        MPI_Type_create_subarray(3, sizes, subsizes, starts, MPI_ORDER_C, *element, &type);
    }
    MPI_Type_commit(&type);
    return type;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc < 5) {
        fprintf(stderr, "patterns LABEL PATTERN SIZE FILE [HINT=VALUE...]\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    const char *label = argv[1], *pattern = argv[2], *path = argv[4];
    int size = atoi(argv[3]), outputs = strcmp(pattern, "btio") == 0 ? 5 : 1;
    MPI_Info info;
    MPI_Info_create(&info);
    for (int n = 5; n < argc; n++) {
        char *value = strchr(argv[n], '=');
        if (!value) continue;
        *value = 0;
        MPI_Info_set(info, argv[n], value + 1);
    }
    MPI_Datatype element;
    size_t bytes;
    MPI_Datatype type = filetype(pattern, size, &element, &bytes);
    int of_element;
    MPI_Type_size(element, &of_element);
    int count = (int)(bytes / (size_t)of_element);
    unsigned char *buffer = malloc(bytes);
    double took[2];
    MPI_File file;
    check(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, info, &file), "open");
    check(MPI_File_set_view(file, 0, element, type, "native", info), "set the view");
    for (int reads = 0; reads < 2; reads++) {
        double sum = 0;
        for (int output = 0; output < outputs; output++) {
            if (!reads)
                for (size_t at = 0; at < bytes; at++) buffer[at] = byte(at, output);
            else
                memset(buffer, 0, bytes);
            MPI_Barrier(MPI_COMM_WORLD);
            double begin = MPI_Wtime();
            MPI_Status status;
            MPI_Offset at = (MPI_Offset)output * count;
            check(reads ? MPI_File_read_at_all(file, at, buffer, count, element, &status)
                        : MPI_File_write_at_all(file, at, buffer, count, element, &status), reads ? "read" : "write");
            double mine = MPI_Wtime() - begin, slowest;
            MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
            sum += slowest;
            if (reads)
                for (size_t n = 0; n < bytes; n++)
                    if (buffer[n] != byte(n, output)) {
                        fprintf(stderr, "rank %d: byte %zu of output %d differs\n", rank, n, output);
                        MPI_Abort(MPI_COMM_WORLD, 3);
                    }
        }
        took[reads] = sum;
        if (!reads) check(MPI_File_sync(file), "sync");
    }
    check(MPI_File_close(&file), "close");
    if (rank == 0) {
        check(MPI_File_delete(path, MPI_INFO_NULL), "delete");
        printf("value %s/%s:write %.9f\nvalue %s/%s:read %.9f\n", label, pattern, took[0], label, pattern, took[1]);
        printf("value %s:bytes %.0f\n", pattern, (double)bytes * ranks * outputs);
    }
    free(buffer);
    MPI_Type_free(&type);
    MPI_Type_free(&element);
    MPI_Info_free(&info);
    MPI_Finalize();
    return 0;
}
