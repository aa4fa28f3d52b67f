/* Every function of MPI-IO, on a file that its argument names (below a mount, or anywhere), beside a model: what the file must hold is
 * computed by every rank from what all ranks do. Prints "ok NAME" or "not ok NAME (why)" from rank 0.
 *
 *     calls PATH [nolocks] [noepochs] [noexchange] [on_servers] [only=NAME]
 *                            nolocks: atomic mode must be refused; noepochs: calls that write the same bytes are not tried; noexchange:
 *                            ranks never exchange bytes to write them together; on_servers: the file is on a partition of at least two
 *                            servers; only: one check, of those in `checks`
 *     calls PATH apart       the path is below a mount on some ranks only
 *     calls PATH nopointer   ranks cannot reach a shared pointer
 */
#include <mpi.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, ranks, wrong;
static char why[256], path[1024];
static int locks = 1, epochs = 1, exchanges = 1, on_servers = 0;

static void fail(int line, const char *format, ...) {
    if (!wrong) {
        va_list list;
        int n = snprintf(why, sizeof why, "rank %d, line %d: ", rank, line);
        va_start(list, format);
        vsnprintf(why + n, sizeof why - (size_t)n, format, list);
        va_end(list);
    }
    wrong = 1;
}

#define OK(call)                                              \
    do {                                                      \
        int code_ = (call);                                   \
        if (code_ != MPI_SUCCESS) {                           \
            char text_[MPI_MAX_ERROR_STRING];                 \
            int length_;                                      \
            MPI_Error_string(code_, text_, &length_);         \
            fail(__LINE__, "%s", text_);                      \
        }                                                     \
    } while (0)
#define IS(got, wanted)                                                                                        \
    do {                                                                                                       \
        long long got_ = (long long)(got), wanted_ = (long long)(wanted);                                      \
        if (got_ != wanted_) fail(__LINE__, "%s is %lld, not %lld", #got, got_, wanted_);                      \
    } while (0)
#define FAILS(call, wanted)                                                                       \
    do {                                                                                          \
        int class_ = MPI_SUCCESS, code_ = (call);                                                 \
        if (code_ != MPI_SUCCESS) MPI_Error_class(code_, &class_);                                \
        if (class_ != (wanted)) fail(__LINE__, "class %d, not %s", class_, #wanted);              \
    } while (0)

static void told(const char *name) {
    struct {
        int wrong, rank;
    } own = {wrong, rank}, all;
    MPI_Allreduce(&own, &all, 1, MPI_2INT, MPI_MAXLOC, MPI_COMM_WORLD);
    if (all.wrong) MPI_Bcast(why, sizeof why, MPI_CHAR, all.rank, MPI_COMM_WORLD);
    if (rank == 0) {
        if (all.wrong)
            printf("not ok %s (%s)\n", name, why);
        else
            printf("ok %s\n", name);
        fflush(stdout);
    }
    wrong = 0;
}

static MPI_File opened(int amode) {
    MPI_File file = MPI_FILE_NULL;
    OK(MPI_File_open(MPI_COMM_WORLD, path, amode, MPI_INFO_NULL, &file));
    return file;
}

static MPI_File fresh(int amode) {
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) MPI_File_delete(path, MPI_INFO_NULL);
    MPI_Barrier(MPI_COMM_WORLD);
    return opened(amode | MPI_MODE_CREATE);
}

static int count_of(const MPI_Status *status, MPI_Datatype type) {
    int count = -1;
    MPI_Get_count(status, type, &count);
    return count;
}

/* The whole file is these ints. */
static void holds(int line, const int *wanted, int count) {
    MPI_File file;
    MPI_Offset size = 0;
    MPI_Status status;
    OK(MPI_File_open(MPI_COMM_SELF, path, MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
    OK(MPI_File_get_size(file, &size));
    if (size != (MPI_Offset)count * 4) fail(line, "%lld bytes, not %d", (long long)size, count * 4);
    int *got = calloc((size_t)count + 1, sizeof *got);
    OK(MPI_File_read_at(file, 0, got, count, MPI_INT, &status));
    if (count_of(&status, MPI_INT) != count) fail(line, "%d ints read of %d", count_of(&status, MPI_INT), count);
    for (int i = 0; i < count; i++)
        if (got[i] != wanted[i]) {
            fail(line, "int %d is %d, not %d", i, got[i], wanted[i]);
            break;
        }
    free(got);
    OK(MPI_File_close(&file));
}

static void every_blocking_call_moves_its_bytes(void) {
    int own[8], got[8];
    MPI_Status status;
    MPI_File file = fresh(MPI_MODE_RDWR);
    for (int i = 0; i < 8; i++) own[i] = rank * 100 + i;
    OK(MPI_File_set_view(file, (MPI_Offset)rank * 32, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    OK(MPI_File_write_at(file, 0, own, 2, MPI_INT, &status));
    IS(count_of(&status, MPI_INT), 2);
    OK(MPI_File_write_at_all(file, 2, own + 2, 2, MPI_INT, &status));
    IS(count_of(&status, MPI_INT), 2);
    OK(MPI_File_seek(file, 4, MPI_SEEK_SET));
    OK(MPI_File_write(file, own + 4, 2, MPI_INT, &status));
    OK(MPI_File_write_all(file, own + 6, 2, MPI_INT, MPI_STATUS_IGNORE));
    MPI_Offset at = 0, byte = 0;
    OK(MPI_File_get_position(file, &at));
    IS(at, 8);
    OK(MPI_File_get_byte_offset(file, at, &byte));
    IS(byte, rank * 32 + 32);
    OK(MPI_File_sync(file));
    memset(got, 0, sizeof got);
    OK(MPI_File_read_at(file, 0, got, 2, MPI_INT, &status));
    IS(count_of(&status, MPI_INT), 2);
    OK(MPI_File_read_at_all(file, 2, got + 2, 2, MPI_INT, &status));
    OK(MPI_File_seek(file, -4, MPI_SEEK_CUR));
    OK(MPI_File_read(file, got + 4, 2, MPI_INT, &status));
    OK(MPI_File_read_all(file, got + 6, 2, MPI_INT, &status));
    for (int i = 0; i < 8; i++) IS(got[i], own[i]);
    /* Past the end of the file: what there was. */
    OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    OK(MPI_File_read_at(file, 8 * ranks - 3, got, 8, MPI_INT, &status));
    IS(count_of(&status, MPI_INT), 3);
    OK(MPI_File_read_at(file, 8 * ranks + 3, got, 8, MPI_INT, &status));
    IS(count_of(&status, MPI_INT), 0);
    OK(MPI_File_seek(file, 0, MPI_SEEK_END));
    OK(MPI_File_get_position(file, &at));
    IS(at, 8 * ranks);
    OK(MPI_File_close(&file));
    IS(file == MPI_FILE_NULL, 1);
    int all[8 * 64];
    for (int i = 0; i < 8 * ranks; i++) all[i] = i / 8 * 100 + i % 8;
    holds(__LINE__, all, 8 * ranks);
    told("every blocking call moves its bytes, and reads end at the end of the file");
}

static void nonblocking_and_split_calls(void) {
    int own[20], got[20], all[20 * 64];
    MPI_Status status, statuses[4];
    MPI_Request requests[4];
    MPI_File file = fresh(MPI_MODE_RDWR);
    for (int i = 0; i < 20; i++) own[i] = rank * 100 + i;
    OK(MPI_File_set_view(file, (MPI_Offset)rank * 80, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    OK(MPI_File_iwrite_at(file, 0, own, 4, MPI_INT, &requests[0]));
    OK(MPI_File_iwrite_at_all(file, 4, own + 4, 4, MPI_INT, &requests[1]));
    OK(MPI_File_seek(file, 8, MPI_SEEK_SET));
    OK(MPI_File_iwrite(file, own + 8, 2, MPI_INT, &requests[2]));
    OK(MPI_File_iwrite_all(file, own + 10, 2, MPI_INT, &requests[3]));
    OK(MPI_Waitall(4, requests, statuses));
    IS(count_of(&statuses[1], MPI_INT), 4);
    IS(count_of(&statuses[3], MPI_INT), 2);
    OK(MPI_File_write_at_all_begin(file, 12, own + 12, 4, MPI_INT));
    OK(MPI_File_write_at_all_end(file, own + 12, &status));
    IS(count_of(&status, MPI_INT), 4);
    OK(MPI_File_seek(file, 16, MPI_SEEK_SET));
    OK(MPI_File_write_all_begin(file, own + 16, 4, MPI_INT));
    OK(MPI_File_write_all_end(file, own + 16, &status));
    IS(count_of(&status, MPI_INT), 4);
    OK(MPI_File_sync(file));
    memset(got, 0, sizeof got);
    OK(MPI_File_iread_at(file, 0, got, 4, MPI_INT, &requests[0]));
    OK(MPI_File_iread_at_all(file, 4, got + 4, 4, MPI_INT, &requests[1]));
    OK(MPI_File_seek(file, 8, MPI_SEEK_SET));
    OK(MPI_File_iread(file, got + 8, 2, MPI_INT, &requests[2]));
    OK(MPI_File_iread_all(file, got + 10, 2, MPI_INT, &requests[3]));
    for (int i = 0, done = 0; i < 4; i++, done = 0) {
        while (!done) OK(MPI_Test(&requests[i], &done, &status));
        IS(count_of(&status, MPI_INT), i < 2 ? 4 : 2);
    }
    OK(MPI_File_read_at_all_begin(file, 12, got + 12, 4, MPI_INT));
    OK(MPI_File_read_at_all_end(file, got + 12, &status));
    OK(MPI_File_seek(file, 16, MPI_SEEK_SET));
    OK(MPI_File_read_all_begin(file, got + 16, 4, MPI_INT));
    OK(MPI_File_read_all_end(file, got + 16, &status));
    for (int i = 0; i < 20; i++) IS(got[i], own[i]);
    OK(MPI_File_close(&file));
    for (int i = 0; i < 20 * ranks; i++) all[i] = i / 20 * 100 + i % 20;
    holds(__LINE__, all, 20 * ranks);
    told("nonblocking and split calls move their bytes and say how many");
}

/* A collective call that starts does not wait for other ranks: rank 0 starts it and sends, rank 1 receives and starts it then. */
static void a_nonblocking_collective_call_waits_for_nobody(void) {
    enum { WRITE_AT, WRITE, READ_AT, READ, KINDS };
    MPI_Request request;
    MPI_Status status;
    MPI_File file = fresh(MPI_MODE_RDWR);
    for (int kind = 0; kind < KINDS; kind++) {
        int own = 100 * (kind % 2 + 1) + rank, got = -1, token = 0, place = (kind % 2) * ranks + rank;
        OK(MPI_File_seek(file, 4 * place, MPI_SEEK_SET));
        if (rank == 1) OK(MPI_Recv(&token, 1, MPI_INT, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        if (kind == WRITE_AT) OK(MPI_File_iwrite_at_all(file, 4 * place, &own, 1, MPI_INT, &request));
        if (kind == WRITE) OK(MPI_File_iwrite_all(file, &own, 1, MPI_INT, &request));
        if (kind == READ_AT) OK(MPI_File_iread_at_all(file, 4 * place, &got, 1, MPI_INT, &request));
        if (kind == READ) OK(MPI_File_iread_all(file, &got, 1, MPI_INT, &request));
        if (rank == 0 && ranks > 1) OK(MPI_Send(&own, 1, MPI_INT, 1, 7, MPI_COMM_WORLD));
        OK(MPI_Wait(&request, &status));
        IS(count_of(&status, MPI_INT), 1);
        if (kind >= READ_AT) IS(got, own);
        if (kind == WRITE) OK(MPI_File_sync(file));
    }
    OK(MPI_File_close(&file));
    int all[2 * 64];
    for (int i = 0; i < 2 * ranks; i++) all[i] = 100 * (i / ranks + 1) + i % ranks;
    holds(__LINE__, all, 2 * ranks);
    told("a nonblocking collective call waits for no rank");
}

static void shared_pointers(void) {
    enum { EACH = 40 };
    int got[EACH * 64 + 64], seen[EACH * 64];
    MPI_Offset at = 0;
    MPI_Status status;
    MPI_Request request;
    MPI_File file = fresh(MPI_MODE_RDWR);
    OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    for (int i = 0; i < EACH; i += 2) {
        int own[2] = {rank * EACH + i, rank * EACH + i + 1};
        if (i % 4)
            OK(MPI_File_write_shared(file, own, 2, MPI_INT, &status));
        else {
            OK(MPI_File_iwrite_shared(file, own, 2, MPI_INT, &request));
            OK(MPI_Wait(&request, &status));
        }
        IS(count_of(&status, MPI_INT), 2);
    }
    OK(MPI_File_sync(file));
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_get_position_shared(file, &at));
    IS(at, EACH * ranks);
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_read_at(file, 0, got, EACH * ranks, MPI_INT, &status));
    IS(count_of(&status, MPI_INT), EACH * ranks);
    memset(seen, 0, sizeof seen);
    for (int i = 0; i < EACH * ranks; i++)
        if (got[i] >= 0 && got[i] < EACH * ranks) seen[got[i]]++;
    for (int i = 0; i < EACH * ranks; i++) IS(seen[i], 1);
    for (int i = 0; i < EACH * ranks; i += 2) IS(got[i + 1], got[i] + 1);
    /* Reads share it too. */
    OK(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
    memset(seen, 0, sizeof seen);
    for (int i = 0; i < EACH; i++) {
        int one = -1;
        if (i % 2)
            OK(MPI_File_read_shared(file, &one, 1, MPI_INT, &status));
        else {
            OK(MPI_File_iread_shared(file, &one, 1, MPI_INT, &request));
            OK(MPI_Wait(&request, &status));
        }
        if (one >= 0 && one < EACH * ranks) seen[one]++;
    }
    OK(MPI_Allreduce(MPI_IN_PLACE, seen, EACH * ranks, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    for (int i = 0; i < EACH * ranks; i++) IS(seen[i], 1);
    OK(MPI_File_close(&file));
    told("the shared pointer gives every rank places of its own");
}

static void ordered_calls(void) {
    int own[64], got[64], all[64 * 64], count = rank % 3, before = 0, total = 0, n = 0;
    MPI_Status status;
    MPI_File file = fresh(MPI_MODE_RDWR);
    OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    for (int i = 0; i < 64; i++) own[i] = rank * 100 + i;
    for (int r = 0; r < ranks; r++) {
        if (r < rank) before += r % 3;
        total += r % 3;
    }
    OK(MPI_File_write_ordered(file, own, count, MPI_INT, &status));
    IS(count_of(&status, MPI_INT), count);
    OK(MPI_File_write_ordered_begin(file, own + count, count, MPI_INT));
    OK(MPI_File_write_ordered_end(file, own + count, &status));
    OK(MPI_File_sync(file));
    OK(MPI_File_seek_shared(file, -(MPI_Offset)total, MPI_SEEK_END));
    OK(MPI_File_read_ordered(file, got, count, MPI_INT, &status));
    for (int i = 0; i < count; i++) IS(got[i], own[count + i]);
    OK(MPI_File_seek_shared(file, -2 * (MPI_Offset)total, MPI_SEEK_CUR));
    OK(MPI_File_read_ordered_begin(file, got, count, MPI_INT));
    OK(MPI_File_read_ordered_end(file, got, &status));
    for (int i = 0; i < count; i++) IS(got[i], own[i]);
    OK(MPI_File_close(&file));
    for (int part = 0; part < 2; part++)
        for (int r = 0; r < ranks; r++)
            for (int i = 0; i < r % 3; i++) all[n++] = r * 100 + part * (r % 3) + i;
    holds(__LINE__, all, n);
    told("ordered calls follow the ranks");
}

/* A block of a matrix for each rank, from memory with a border around it, and a column. */
static void views_of_arrays(void) {
    enum { ROWS = 6, COLUMNS = 5 };
    int sizes[2] = {ROWS * ranks, COLUMNS}, part[2] = {ROWS, COLUMNS}, start[2] = {ROWS * rank, 0};
    int around[2] = {ROWS + 2, COLUMNS + 2}, inside[2] = {1, 1};
    int memory[ROWS + 2][COLUMNS + 2], got[ROWS + 2][COLUMNS + 2], column[64 * ROWS], all[64 * ROWS * COLUMNS];
    MPI_Datatype there, here, every;
    MPI_Status status;
    MPI_File file = fresh(MPI_MODE_RDWR);
    for (int i = 0; i < ROWS + 2; i++)
        for (int j = 0; j < COLUMNS + 2; j++) memory[i][j] = rank * 1000 + i * 10 + j, got[i][j] = -1;
    MPI_Type_create_subarray(2, sizes, part, start, MPI_ORDER_C, MPI_INT, &there);
    MPI_Type_create_subarray(2, around, part, inside, MPI_ORDER_C, MPI_INT, &here);
    MPI_Type_commit(&there);
    MPI_Type_commit(&here);
    OK(MPI_File_set_view(file, 0, MPI_INT, there, "native", MPI_INFO_NULL));
    OK(MPI_File_write_all(file, memory, 1, here, &status));
    IS(count_of(&status, MPI_INT), ROWS * COLUMNS);
    OK(MPI_File_sync(file));
    OK(MPI_File_read_at_all(file, 0, got, 1, here, &status));
    IS(count_of(&status, here), 1);
    for (int i = 0; i < ROWS + 2; i++)
        for (int j = 0; j < COLUMNS + 2; j++) {
            int is_inside = i > 0 && i <= ROWS && j > 0 && j <= COLUMNS;
            IS(got[i][j], is_inside ? memory[i][j] : -1);
        }
    MPI_Type_vector(ROWS * ranks, 1, COLUMNS, MPI_INT, &every);
    MPI_Type_commit(&every);
    OK(MPI_File_set_view(file, 8, MPI_INT, every, "native", MPI_INFO_NULL));
    OK(MPI_File_read_at(file, 0, column, ROWS * ranks, MPI_INT, &status));
    IS(count_of(&status, MPI_INT), ROWS * ranks);
    for (int i = 0; i < ROWS * ranks; i++) IS(column[i], i / ROWS * 1000 + (i % ROWS + 1) * 10 + 3);
    OK(MPI_File_close(&file));
    for (int i = 0; i < ROWS * COLUMNS * ranks; i++)
        all[i] = i / COLUMNS / ROWS * 1000 + (i / COLUMNS % ROWS + 1) * 10 + i % COLUMNS + 1;
    holds(__LINE__, all, ROWS * COLUMNS * ranks);
    MPI_Type_free(&there);
    MPI_Type_free(&here);
    MPI_Type_free(&every);
    told("views of subarrays and vectors, from memory with a border");
}

/* A cyclic distribution of Fortran's order, a struct with holes, indexed memory. */
static void other_datatypes(void) {
    int sizes[2] = {7, 2 * ranks}, kinds[2] = {MPI_DISTRIBUTE_NONE, MPI_DISTRIBUTE_CYCLIC};
    int arguments[2] = {MPI_DISTRIBUTE_DFLT_DARG, MPI_DISTRIBUTE_DFLT_DARG}, grid[2] = {1, ranks};
    int own[14], all[14 * 64], lengths[3] = {3, 1, 10}, places[3] = {11, 0, 1}, got[14], mixed[14], n = 0;
    MPI_Datatype there, shuffled, pair, twice;
    MPI_Status status;
    MPI_File file = fresh(MPI_MODE_RDWR);
    MPI_Type_create_darray(ranks, rank, 2, sizes, kinds, arguments, grid, MPI_ORDER_FORTRAN, MPI_INT, &there);
    MPI_Type_commit(&there);
    MPI_Type_indexed(3, lengths, places, MPI_INT, &shuffled);
    MPI_Type_commit(&shuffled);
    for (int i = 0; i < 14; i++) own[i] = rank * 100 + i;
    OK(MPI_File_set_view(file, 0, MPI_INT, there, "native", MPI_INFO_NULL));
    OK(MPI_File_write_all(file, own, 1, shuffled, &status));
    IS(count_of(&status, MPI_INT), 14);
    OK(MPI_File_sync(file));
    OK(MPI_File_read_at(file, 0, got, 14, MPI_INT, &status));
    for (int b = 0; b < 3; b++)
        for (int i = 0; i < lengths[b]; i++) mixed[n++] = own[places[b] + i];
    for (int i = 0; i < 14; i++) IS(got[i], mixed[i]);
    memset(got, 0, sizeof got);
    OK(MPI_File_read_at(file, 0, got, 1, shuffled, &status));
    for (int i = 0; i < 14; i++) IS(got[i], own[i]);
    OK(MPI_File_close(&file));
    for (int i = 0; i < 14 * ranks; i++) {
        int column = i / 7, owner = column % ranks, number = column / ranks * 7 + i % 7;
        all[i] = owner * 100 + (number < 3 ? 11 + number : number < 4 ? 0 : number - 3);
    }
    holds(__LINE__, all, 14 * ranks);
    /* Values and an int behind each, of which only the ints are seen. */
    struct {
        double value;
        int place;
    } pairs[3];
    file = fresh(MPI_MODE_RDWR);
    memset(pairs, 0, sizeof pairs);
    for (int i = 0; i < 3; i++) pairs[i].value = rank + i * 0.5, pairs[i].place = rank * 10 + i;
    MPI_Type_contiguous(1, MPI_DOUBLE_INT, &pair);
    MPI_Type_commit(&pair);
    OK(MPI_File_set_view(file, (MPI_Offset)rank * 48, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    OK(MPI_File_write(file, pairs, 3, pair, &status));
    IS(count_of(&status, MPI_DOUBLE_INT), 3);
    MPI_Offset at = 0;
    OK(MPI_File_get_position(file, &at));
    IS(at, 36);
    OK(MPI_File_seek(file, 0, MPI_SEEK_SET));
    memset(pairs, 0, sizeof pairs);
    OK(MPI_File_read(file, pairs, 3, MPI_DOUBLE_INT, &status));
    for (int i = 0; i < 3; i++) IS(pairs[i].place, rank * 10 + i);
    for (int i = 0; i < 3; i++) IS(pairs[i].value * 2, rank * 2 + i);
    OK(MPI_File_close(&file));
    /* Large and deep: a type of types. */
    MPI_Type_dup(there, &twice);
    MPI_Type_commit(&twice);
    file = fresh(MPI_MODE_RDWR);
    OK(MPI_File_set_view(file, 0, MPI_INT, twice, "native", MPI_INFO_NULL));
    MPI_Offset disp = -1;
    MPI_Datatype etype, filetype;
    char name[MPI_MAX_DATAREP_STRING];
    int ints, addresses, types, combiner;
    OK(MPI_File_get_view(file, &disp, &etype, &filetype, name));
    IS(disp, 0);
    IS(strcmp(name, "native"), 0);
    MPI_Type_get_envelope(filetype, &ints, &addresses, &types, &combiner);
    IS(combiner != MPI_COMBINER_NAMED, 1);
    MPI_Type_free(&filetype);
    OK(MPI_File_close(&file));
    MPI_Type_free(&there);
    MPI_Type_free(&shuffled);
    MPI_Type_free(&pair);
    MPI_Type_free(&twice);
    told("distributed arrays, pairs with gaps, indexed memory");
}

static void external32(void) {
    MPI_Status status;
    MPI_Aint extent = 0;
    MPI_File file = fresh(MPI_MODE_RDWR);
    double own[3] = {1.5, -2.25, rank}, got[3] = {0};
    unsigned char bytes[24];
    OK(MPI_File_set_view(file, (MPI_Offset)rank * 24, MPI_DOUBLE, MPI_DOUBLE, "external32", MPI_INFO_NULL));
    OK(MPI_File_get_type_extent(file, MPI_DOUBLE, &extent));
    IS(extent, 8);
    OK(MPI_File_write_at_all(file, 0, own, 3, MPI_DOUBLE, &status));
    IS(count_of(&status, MPI_DOUBLE), 3);
    OK(MPI_File_sync(file));
    OK(MPI_File_read_at(file, 0, got, 3, MPI_DOUBLE, &status));
    IS(count_of(&status, MPI_DOUBLE), 3);
    for (int i = 0; i < 3; i++) IS(got[i] * 4, own[i] * 4);
    char name[MPI_MAX_DATAREP_STRING];
    MPI_Offset disp;
    MPI_Datatype etype, filetype;
    OK(MPI_File_get_view(file, &disp, &etype, &filetype, name));
    IS(strcmp(name, "external32"), 0);
    OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    OK(MPI_File_read_at(file, (MPI_Offset)rank * 24, bytes, 24, MPI_BYTE, &status));
    IS(bytes[0], 0x3f); /* 1.5, the highest byte first */
    IS(bytes[1], 0xf8);
    IS(bytes[8], 0xc0);
    FAILS(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "morse", MPI_INFO_NULL), MPI_ERR_UNSUPPORTED_DATAREP);
    OK(MPI_File_close(&file));
    told("external32 files have big-endian values");
}

static void sizes_and_modes(void) {
    MPI_Offset size = 0, at = 0;
    int amode = 0, own = rank, members = 0, zeros[4] = {1, 1, 1, 1};
    MPI_Status status;
    MPI_Group group;
    MPI_File file = fresh(MPI_MODE_RDWR);
    OK(MPI_File_set_size(file, 4096));
    OK(MPI_File_get_size(file, &size));
    IS(size, 4096);
    OK(MPI_File_preallocate(file, 1024));
    OK(MPI_File_get_size(file, &size));
    IS(size, 4096);
    OK(MPI_File_preallocate(file, 8192));
    OK(MPI_File_get_size(file, &size));
    IS(size, 8192);
    OK(MPI_File_read_at(file, 8000, zeros, 4, MPI_INT, &status));
    IS(zeros[0] | zeros[3], 0);
    OK(MPI_File_write_at(file, 4 * rank, &own, 1, MPI_INT, &status));
    OK(MPI_File_set_size(file, 4 * ranks));
    OK(MPI_File_get_size(file, &size));
    IS(size, 4 * ranks);
    if (ranks > 1) FAILS(MPI_File_set_size(file, rank == 0 ? 8 : 16), MPI_ERR_NOT_SAME);
    OK(MPI_File_get_amode(file, &amode));
    IS(amode, MPI_MODE_RDWR | MPI_MODE_CREATE);
    OK(MPI_File_get_group(file, &group));
    MPI_Group_size(group, &members);
    IS(members, ranks);
    MPI_Group_free(&group);
    OK(MPI_File_close(&file));
    int all[64];
    for (int r = 0; r < ranks; r++) all[r] = r;
    holds(__LINE__, all, ranks);
    /* At the end. */
    file = opened(MPI_MODE_WRONLY | MPI_MODE_APPEND);
    OK(MPI_File_get_position(file, &at));
    IS(at, 4 * ranks);
    OK(MPI_File_get_position_shared(file, &at));
    IS(at, 4 * ranks);
    FAILS(MPI_File_read_at(file, 0, &own, 1, MPI_INT, &status), MPI_ERR_ACCESS);
    OK(MPI_File_write_ordered(file, &own, 1, MPI_INT, &status));
    OK(MPI_File_close(&file));
    for (int r = 0; r < ranks; r++) all[ranks + r] = r;
    holds(__LINE__, all, 2 * ranks);
    file = opened(MPI_MODE_RDONLY);
    FAILS(MPI_File_write_at(file, 0, &own, 1, MPI_INT, &status), MPI_ERR_READ_ONLY);
    FAILS(MPI_File_set_size(file, 0), MPI_ERR_READ_ONLY);
    OK(MPI_File_close(&file));
    /* In order, the second half in a view that begins where the first one ended. */
    file = opened(MPI_MODE_RDONLY | MPI_MODE_SEQUENTIAL);
    OK(MPI_File_set_view(file, MPI_DISPLACEMENT_CURRENT, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    FAILS(MPI_File_read_at(file, 0, &own, 1, MPI_INT, &status), MPI_ERR_UNSUPPORTED_OPERATION);
    FAILS(MPI_File_seek(file, 0, MPI_SEEK_SET), MPI_ERR_UNSUPPORTED_OPERATION);
    OK(MPI_File_read_ordered(file, &own, 1, MPI_INT, &status));
    IS(own, rank);
    OK(MPI_File_set_view(file, MPI_DISPLACEMENT_CURRENT, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    OK(MPI_File_read_ordered(file, &own, 1, MPI_INT, &status));
    IS(own, rank);
    OK(MPI_File_close(&file));
    told("sizes, access modes, groups");
}

static void failures_have_their_class(void) {
    MPI_File file;
    char missing[1100];
    int own = 1, made = 0;
    MPI_Status status;
    snprintf(missing, sizeof missing, "%s.missing", path);
    FAILS(MPI_File_open(MPI_COMM_WORLD, missing, MPI_MODE_RDONLY, MPI_INFO_NULL, &file), MPI_ERR_NO_SUCH_FILE);
    snprintf(missing, sizeof missing, "%s.missing/file", path);
    FAILS(MPI_File_open(MPI_COMM_WORLD, missing, MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &file), MPI_ERR_NO_SUCH_FILE);
    FAILS(MPI_File_delete(missing, MPI_INFO_NULL), MPI_ERR_NO_SUCH_FILE);
    file = fresh(MPI_MODE_RDWR);
    OK(MPI_File_close(&file));
    FAILS(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_EXCL, MPI_INFO_NULL, &file), MPI_ERR_FILE_EXISTS);
    FAILS(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDONLY | MPI_MODE_CREATE, MPI_INFO_NULL, &file), MPI_ERR_AMODE);
    FAILS(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_SEQUENTIAL, MPI_INFO_NULL, &file), MPI_ERR_AMODE);
    FAILS(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDONLY | MPI_MODE_WRONLY, MPI_INFO_NULL, &file), MPI_ERR_AMODE);
    if (ranks > 1)
        FAILS(MPI_File_open(MPI_COMM_WORLD, path, rank ? MPI_MODE_RDONLY : MPI_MODE_RDWR, MPI_INFO_NULL, &file), MPI_ERR_NOT_SAME);
    file = opened(MPI_MODE_RDWR);
    FAILS(MPI_File_write_at(file, -1, &own, 1, MPI_INT, &status), MPI_ERR_ARG);
    FAILS(MPI_File_write_at(file, 0, &own, -1, MPI_INT, &status), MPI_ERR_COUNT);
    FAILS(MPI_File_seek(file, -1, MPI_SEEK_SET), MPI_ERR_ARG);
    FAILS(MPI_File_set_view(file, -3, MPI_INT, MPI_INT, "native", MPI_INFO_NULL), MPI_ERR_ARG);
    OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    FAILS(MPI_File_write_at(file, 0, &own, 3, MPI_BYTE, &status), MPI_ERR_IO);
    OK(MPI_File_get_size(file, (MPI_Offset[]){0}));
    OK(MPI_File_close(&file));
    file = fresh(MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE);
    OK(MPI_File_write_at(file, 0, &made, 1, MPI_INT, &status));
    OK(MPI_File_close(&file));
    FAILS(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDONLY, MPI_INFO_NULL, &file), MPI_ERR_NO_SUCH_FILE);
    told("failures have their class, on all ranks");
}

/* One rank's call of a collective write is wrong: every rank returns, and that one knows why. */
static void one_rank_s_mistake_in_a_collective_call(void) {
    int own[8] = {0}, class = MPI_SUCCESS;
    MPI_Datatype there;
    MPI_Status status;
    MPI_File file = fresh(MPI_MODE_RDWR);
    MPI_Type_vector(8, 1, ranks, MPI_INT, &there);
    MPI_Type_commit(&there);
    OK(MPI_File_set_view(file, 4 * rank, MPI_INT, there, "native", MPI_INFO_NULL));
    int code = MPI_File_write_at_all(file, 0, own, rank == 0 ? -1 : 8, MPI_INT, &status);
    if (code != MPI_SUCCESS) MPI_Error_class(code, &class);
    if (rank == 0) IS(class, MPI_ERR_COUNT);
    code = MPI_File_write_at_all(file, rank == ranks - 1 ? -4 : 0, own, 8, MPI_INT, &status);
    class = MPI_SUCCESS;
    if (code != MPI_SUCCESS) MPI_Error_class(code, &class);
    if (rank == ranks - 1) IS(class, MPI_ERR_ARG);
    for (int i = 0; i < 8; i++) own[i] = rank * 10 + i;
    OK(MPI_File_write_at_all(file, 0, own, 8, MPI_INT, &status));
    IS(count_of(&status, MPI_INT), 8);
    OK(MPI_File_close(&file));
    int all[8 * 64];
    for (int i = 0; i < 8 * ranks; i++) all[i] = i % ranks * 10 + i / ranks;
    holds(__LINE__, all, 8 * ranks);
    MPI_Type_free(&there);
    told("of a collective write that is wrong on one rank every rank returns");
}

static int handled, handled_class;
static void handler(MPI_File *file, int *code, ...) {
    (void)file;
    handled++;
    MPI_Error_class(*code, &handled_class);
}

static void error_handlers(void) {
    MPI_Errhandler own, got;
    MPI_File file;
    int value = 1;
    char missing[1100];
    MPI_Status status;
    MPI_File_create_errhandler(handler, &own);
    file = fresh(MPI_MODE_WRONLY);
    OK(MPI_File_set_errhandler(file, own));
    OK(MPI_File_get_errhandler(file, &got));
    IS(got == own, 1);
    MPI_Errhandler_free(&got);
    handled = 0;
    MPI_File_read_at(file, 0, &value, 1, MPI_INT, &status);
    IS(handled, 1);
    IS(handled_class, MPI_ERR_ACCESS);
    OK(MPI_File_call_errhandler(file, MPI_ERR_IO));
    IS(handled, 2);
    OK(MPI_File_close(&file));
    OK(MPI_File_set_errhandler(MPI_FILE_NULL, own));
    handled = 0;
    snprintf(missing, sizeof missing, "%s.missing", path);
    MPI_File_open(MPI_COMM_WORLD, missing, MPI_MODE_RDONLY, MPI_INFO_NULL, &file);
    IS(handled, 1);
    IS(handled_class, MPI_ERR_NO_SUCH_FILE);
    OK(MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN));
    MPI_Errhandler_free(&own);
    told("error handlers of a file and of no file are called with the class");
}

/* A hint in use; empty without one. */
static const char *hint(MPI_File file, const char *key) {
    static char value[MPI_MAX_INFO_VAL + 1];
    int found = 0;
    MPI_Info info = MPI_INFO_NULL;
    value[0] = 0;
    OK(MPI_File_get_info(file, &info));
    if (info != MPI_INFO_NULL) {
        MPI_Info_get(info, key, MPI_MAX_INFO_VAL, value, &found);
        MPI_Info_free(&info);
    }
    if (!found) value[0] = 0;
    return value;
}
#define HINT(file, key, wanted)                                                                              \
    do {                                                                                                     \
        const char *got_ = hint(file, key);                                                                  \
        if (strcmp(got_, wanted)) fail(__LINE__, "hint %s is \"%s\", not \"%s\"", key, got_, wanted);           \
    } while (0)

/* Every rank writes every n-th int. */
static void write_interleaved(MPI_File file, MPI_Info info) {
    enum { COUNT = 3000 };
    static int own[COUNT], all[64 * COUNT];
    MPI_Datatype there;
    MPI_Status status;
    MPI_Type_vector(COUNT, 1, ranks, MPI_INT, &there);
    MPI_Type_commit(&there);
    OK(MPI_File_set_view(file, 4 * rank, MPI_INT, there, "native", info));
    for (int i = 0; i < COUNT; i++) own[i] = rank * 10000 + i;
    OK(MPI_File_write_at_all(file, 0, own, COUNT, MPI_INT, &status));
    IS(count_of(&status, MPI_INT), COUNT);
    OK(MPI_File_sync(file));
    for (int i = 0; i < COUNT * ranks; i++) all[i] = i % ranks * 10000 + i / ranks;
    holds(__LINE__, all, COUNT * ranks);
    OK(MPI_File_sync(file));
    MPI_Type_free(&there);
}

static void hints(void) {
    char number[16];
    int together = exchanges && ranks > 1;
    /* Of three servers, with stripes of 4 KiB. */
    int striped = on_servers || !strncmp(path, "/mpiio/partition/", 17) || !strncmp(path, "/mpiio/mapped/", 14);
    MPI_Info info, other;
    MPI_File file;
    MPI_Info_create(&info);
    MPI_Info_set(info, "cb_nodes", "1");
    MPI_Info_set(info, "romio_cb_write", "enable");
    MPI_Info_set(info, "access_style", "write_once");
    MPI_Info_set(info, "striping_factor", "2");
    MPI_Info_set(info, "striping_unit", "16384");
    MPI_Info_set(info, "of_another_library", "1");
    if (rank == 0) MPI_File_delete(path, MPI_INFO_NULL);
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_CREATE, info, &file));
    HINT(file, "filename", path);
    HINT(file, "of_another_library", "");
    HINT(file, "access_style", "");
    HINT(file, "striping_factor", striped ? "2" : "");
    HINT(file, "striping_unit", striped || together ? "16384" : "");
    HINT(file, "romio_cb_read", together ? "automatic" : "disable");
    HINT(file, "romio_ds_write", "disable");
    HINT(file, "romio_cb_write", together ? "enable" : "disable");
    HINT(file, "collective_buffering", together ? "true" : "false");
    HINT(file, "cb_nodes", together ? "1" : "");
    HINT(file, "cb_buffer_size", together ? "16777216" : "");
    write_interleaved(file, MPI_INFO_NULL);
    /* In many windows of a rank. */
    MPI_Info_create(&other);
    MPI_Info_set(other, "cb_buffer_size", "4096");
    MPI_Info_set(other, "striping_unit", "8192");
    MPI_Info_set(other, "ind_rd_buffer_size", "65536");
    MPI_Info_set(other, "cb_nodes", "no number");
    OK(MPI_File_set_info(file, other));
    HINT(file, "cb_buffer_size", together ? "4096" : "");
    HINT(file, "striping_unit", striped ? "16384" : together ? "8192" : "");
    HINT(file, "ind_rd_buffer_size", "65536");
    HINT(file, "cb_nodes", together ? "1" : "");
    write_interleaved(file, MPI_INFO_NULL);
    /* Of ranks that differ the largest counts: none waits for another one that has another plan. */
    snprintf(number, sizeof number, "%d", rank + 1);
    MPI_Info_set(other, "cb_nodes", number);
    OK(MPI_File_set_info(file, other));
    snprintf(number, sizeof number, "%d", ranks);
    HINT(file, "cb_nodes", together ? number : "");
    write_interleaved(file, MPI_INFO_NULL);
    MPI_Info_set(other, "romio_cb_write", rank == 0 ? "disable" : "automatic");
    write_interleaved(file, other);
    HINT(file, "romio_cb_write", "disable");
    HINT(file, "collective_buffering", together ? "true" : "false");
    HINT(file, "cb_nodes", together ? number : "");
    MPI_Info_set(other, "romio_cb_read", rank == 0 ? "disable" : "automatic");
    write_interleaved(file, other);
    HINT(file, "romio_cb_read", "disable");
    HINT(file, "collective_buffering", "false");
    HINT(file, "cb_nodes", "");
    FAILS(MPI_File_set_info(file, MPI_INFO_NULL), MPI_ERR_INFO);
    MPI_Info_free(&other);
    MPI_Info_free(&info);
    MPI_Fint handle = MPI_File_c2f(file);
    IS(MPI_File_f2c(handle) == file, 1);
    OK(MPI_File_close(&file));
    told("hints are in use, or ignored, and handles of Fortran are handles");
}

/* Each rank adds one to every int of the file in turn; without a sync in between, but in atomic mode: nobody's addition is lost when
 * they take turns by messages. */
static void atomic_mode(void) {
    int value[16] = {0}, flag = -1;
    MPI_Status status;
    MPI_File file = fresh(MPI_MODE_RDWR);
    OK(MPI_File_get_atomicity(file, &flag));
    IS(flag, 0);
    if (!locks) {
        FAILS(MPI_File_set_atomicity(file, 1), MPI_ERR_UNSUPPORTED_OPERATION);
        OK(MPI_File_get_atomicity(file, &flag));
        IS(flag, 0);
        /* The mode stays, and the file works. */
        OK(MPI_File_write_at(file, 64 * rank, value, 16, MPI_INT, &status));
        IS(count_of(&status, MPI_INT), 16);
        OK(MPI_File_set_atomicity(file, 0));
        OK(MPI_File_close(&file));
        int zeros[16 * 64] = {0};
        holds(__LINE__, zeros, 16 * ranks);
        told("atomic mode is refused where there are no locks");
        return;
    }
    OK(MPI_File_set_atomicity(file, 1));
    OK(MPI_File_get_atomicity(file, &flag));
    IS(flag, 1);
    if (rank == 0) OK(MPI_File_write_at(file, 0, value, 16, MPI_INT, &status));
    for (int round = 0; round < 3; round++)
        for (int r = 0; r < ranks; r++) {
            MPI_Barrier(MPI_COMM_WORLD);
            if (r != rank) continue;
            OK(MPI_File_read_at(file, 0, value, 16, MPI_INT, &status));
            IS(count_of(&status, MPI_INT), 16);
            for (int i = 0; i < 16; i++) IS(value[i]++, round * ranks + r);
            OK(MPI_File_write_at(file, 0, value, 16, MPI_INT, &status));
        }
    MPI_Barrier(MPI_COMM_WORLD);
    /* All at once: an overlapping write is of one rank as a whole. */
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < 16; i++) value[i] = rank;
        OK(MPI_File_write_at(file, 0, value, 16, MPI_INT, &status));
        OK(MPI_File_read_at(file, 0, value, 16, MPI_INT, &status));
        for (int i = 1; i < 16; i++) IS(value[i], value[0]);
    }
    OK(MPI_File_set_atomicity(file, 0));
    OK(MPI_File_close(&file));
    told("atomic mode shows each access as a whole, at once");
}

/* sync, barrier, sync: what was written is seen, and written over. */
static void sync_barrier_sync(void) {
    int values[64], all[64];
    MPI_Status status;
    MPI_File file = fresh(MPI_MODE_RDWR);
    for (int round = 1; round <= 4; round++) {
        /* Rank r writes the place of its neighbour of this round. */
        int at = (rank + round) % ranks, own = round * 100 + at;
        OK(MPI_File_write_at(file, 4 * at, &own, 1, MPI_INT, &status));
        OK(MPI_File_sync(file));
        MPI_Barrier(MPI_COMM_WORLD);
        OK(MPI_File_sync(file));
        OK(MPI_File_read_at(file, 0, values, ranks, MPI_INT, &status));
        IS(count_of(&status, MPI_INT), ranks);
        for (int r = 0; r < ranks; r++) IS(values[r], round * 100 + r);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    OK(MPI_File_close(&file));
    for (int r = 0; r < ranks; r++) all[r] = 400 + r;
    holds(__LINE__, all, ranks);
    told("after sync, barrier, sync all see what was written, and later writes win");
}

/* Ranks write the same bytes in calls that all of them make, with no sync in between, as HDF5 does with fill values. */
static void later_collective_calls_win(void) {
    int own[64], all[64];
    MPI_Status status;
    MPI_File file = fresh(MPI_MODE_RDWR);
    for (int round = 0; round < 5; round++) {
        int first = (rank + round) % ranks;
        for (int i = 0; i < 64; i++) own[i] = round * 1000 + first;
        /* An uneven number of calls of a rank alone does not matter. */
        for (int i = 0; i <= rank; i++) OK(MPI_File_write_at(file, 4 * ranks + 4 * rank, own, 1, MPI_INT, &status));
        MPI_Barrier(MPI_COMM_WORLD);
        OK(MPI_File_write_at_all(file, 4 * first, own, 1, MPI_INT, &status));
        MPI_Barrier(MPI_COMM_WORLD);
    }
    OK(MPI_File_set_size(file, 4 * ranks));
    OK(MPI_File_close(&file));
    for (int r = 0; r < ranks; r++) all[r] = 4000 + r;
    holds(__LINE__, all, ranks);
    told("of collective calls that write the same bytes the later one stays");
}

/* Files of parts of the ranks at once, more than one open. */
static void several_files(void) {
    MPI_Comm half;
    MPI_File first, second;
    char other[1100];
    int own = rank, got = -1;
    MPI_Status status;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    snprintf(other, sizeof other, "%s.%d", path, rank % 2);
    OK(MPI_File_open(half, other, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &second));
    first = fresh(MPI_MODE_RDWR);
    OK(MPI_File_write_ordered(second, &own, 1, MPI_INT, &status));
    OK(MPI_File_write_ordered(first, &own, 1, MPI_INT, &status));
    OK(MPI_File_sync(second));
    OK(MPI_File_read_at(second, 0, &got, 1, MPI_INT, &status));
    IS(got, rank % 2);
    OK(MPI_File_close(&first));
    OK(MPI_File_close(&second));
    MPI_Comm_free(&half);
    int all[64];
    for (int r = 0; r < ranks; r++) all[r] = r;
    holds(__LINE__, all, ranks);
    told("several files at once, of all ranks and of parts of them");
}

#if MPI_VERSION >= 4
static void large_counts(void) {
    int own[4], got[4] = {0};
    MPI_Status status;
    MPI_Count extent = 0;
    MPI_Datatype there;
    MPI_File file = fresh(MPI_MODE_RDWR);
    for (int i = 0; i < 4; i++) own[i] = rank * 10 + i;
    MPI_Count lengths[2] = {1, 1}, places[2] = {rank, rank + ranks};
    MPI_Type_indexed_c(2, lengths, places, MPI_INT, &there);
    MPI_Datatype wide;
    MPI_Type_create_resized_c(there, 0, (MPI_Count)8 * ranks, &wide);
    MPI_Type_commit(&wide);
    OK(MPI_File_set_view(file, 0, MPI_INT, wide, "native", MPI_INFO_NULL));
    OK(MPI_File_write_at_all_c(file, 0, own, 4, MPI_INT, &status));
    OK(MPI_File_sync(file));
    OK(MPI_File_read_at_c(file, 0, got, 4, MPI_INT, &status));
    for (int i = 0; i < 4; i++) IS(got[i], own[i]);
    OK(MPI_File_get_type_extent_c(file, wide, &extent));
    IS(extent, 8 * ranks);
    OK(MPI_File_close(&file));
    int all[64 * 4];
    for (int i = 0; i < 4 * ranks; i++) all[i] = i % ranks * 10 + i / ranks;
    holds(__LINE__, all, 4 * ranks);
    MPI_Type_free(&there);
    MPI_Type_free(&wide);
    told("calls and datatypes of large counts");
}
#endif

/* Rank 0 has the pointer and may use it. What any other rank asks of it is refused: none writes where the pointer is not. */
static void shared_pointers_are_refused(void) {
    int own = rank, got = -1, all[64];
    MPI_Offset at = 0;
    MPI_Status status;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_File file = fresh(MPI_MODE_RDWR);
    OK(MPI_File_set_view(file, 4 * ranks, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    if (rank > 0) {
        FAILS(MPI_File_write_shared(file, &own, 1, MPI_INT, &status), MPI_ERR_UNSUPPORTED_OPERATION);
        FAILS(MPI_File_iwrite_shared(file, &own, 1, MPI_INT, &request), MPI_ERR_UNSUPPORTED_OPERATION);
        IS(request == MPI_REQUEST_NULL, 1);
        FAILS(MPI_File_read_shared(file, &got, 1, MPI_INT, &status), MPI_ERR_UNSUPPORTED_OPERATION);
        FAILS(MPI_File_get_position_shared(file, &at), MPI_ERR_UNSUPPORTED_OPERATION);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    /* Collective: on all ranks. */
    FAILS(MPI_File_write_ordered(file, &own, 1, MPI_INT, &status), MPI_ERR_UNSUPPORTED_OPERATION);
    FAILS(MPI_File_read_ordered(file, &got, 1, MPI_INT, &status), MPI_ERR_UNSUPPORTED_OPERATION);
    /* Calls that need no pointer work as before. */
    OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    OK(MPI_File_write_at_all(file, rank, &own, 1, MPI_INT, &status));
    OK(MPI_File_close(&file));
    for (int r = 0; r < ranks; r++) all[r] = r;
    holds(__LINE__, all, ranks);
    told("a shared pointer that ranks cannot reach is refused");
}

static void later_collective_calls_win_where_there_are_epochs(void) {
    if (epochs) later_collective_calls_win();
}

static const struct {
    const char *name;
    void (*run)(void);
} checks[] = {
    {"blocking", every_blocking_call_moves_its_bytes},
    {"nonblocking", nonblocking_and_split_calls},
    {"waits", a_nonblocking_collective_call_waits_for_nobody},
    {"shared", shared_pointers},
    {"ordered", ordered_calls},
    {"arrays", views_of_arrays},
    {"datatypes", other_datatypes},
    {"external32", external32},
    {"sizes", sizes_and_modes},
    {"failures", failures_have_their_class},
    {"mistake", one_rank_s_mistake_in_a_collective_call},
    {"handlers", error_handlers},
    {"hints", hints},
    {"atomic", atomic_mode},
    {"sync", sync_barrier_sync},
    {"epochs", later_collective_calls_win_where_there_are_epochs},
    {"several", several_files},
#if MPI_VERSION >= 4
    {"large", large_counts},
#endif
};

int main(int argc, char **argv) {
    const char *only = "";
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc < 2 || ranks > 60) MPI_Abort(MPI_COMM_WORLD, 2);
    snprintf(path, sizeof path, "%s", argv[1]);
    for (int i = 2; i < argc; i++) {
        if (!strcmp(argv[i], "nolocks")) locks = 0;
        if (!strcmp(argv[i], "noepochs")) epochs = 0;
        if (!strcmp(argv[i], "noexchange")) exchanges = 0;
        if (!strcmp(argv[i], "on_servers")) on_servers = 1;
        if (!strncmp(argv[i], "only=", 5)) only = argv[i] + 5;
    }
    if (argc > 2 && !strcmp(argv[2], "apart")) {
        MPI_File file;
        FAILS(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &file), MPI_ERR_NOT_SAME);
        told("ranks whose mounts differ all get an error");
        MPI_Finalize();
        return 0;
    }
    if (argc > 2 && !strcmp(argv[2], "nopointer")) {
        shared_pointers_are_refused();
        if (rank == 0) MPI_File_delete(path, MPI_INFO_NULL);
        MPI_Finalize();
        return 0;
    }
    for (size_t i = 0; i < sizeof checks / sizeof checks[0]; i++)
        if (!only[0] || !strcmp(only, checks[i].name)) checks[i].run();
    if (rank == 0) MPI_File_delete(path, MPI_INFO_NULL);
    MPI_Finalize();
    return 0;
}
