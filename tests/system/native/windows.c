/* Output windows from C, under MPI initialised for one thread, or as processes without MPI that meet in a folder.
 *
 *   windows FOLDER                      ranks of MPI
 *   windows FOLDER MEETING RANK RANKS   one of several processes
 *
 * Every check is a line "ok NAME" of rank 0. */
#ifndef _NOMPI
#include <mpi.h>
#endif
#include "check.h"

#include <unistd.h>

#define MEMORY ((uint64_t)256 << 10)
#define PIECE 4096
#define EACH (4 * MEMORY) /* four times the memory of a process */

static char path[4096], meeting[4096];
static uint32_t ranks = 1, rank = 0;

static unsigned char value(uint64_t at) { return (unsigned char)((at * 0x9E3779B97F4A7C15u) >> 56); }

static int open_file(thalweg_windows **file, int keep)
{
#ifdef _NOMPI
    if (!meeting[0]) return thalweg_windows_open(file, path, keep, MEMORY);
    return thalweg_windows_open_processes(file, path, keep, MEMORY, meeting, rank, ranks, 30.0);
#else
    return thalweg_windows_open_mpi(file, path, keep, MEMORY, MPI_COMM_WORLD);
#endif
}

/* Writes this rank's pieces of a window, dealt out in turn; leaves out `skipped` pieces at the end. */
static int write_pieces(thalweg_windows *file, thalweg_window window, uint64_t start, uint64_t skipped)
{
    unsigned char piece[PIECE];
    int failed = 0;
    for (uint64_t number = 0; number < EACH / PIECE - skipped && !failed; number++) {
        uint64_t at = start + (number * ranks + rank) * PIECE;
        for (uint64_t i = 0; i < PIECE; i++) piece[i] = value(at + i);
        failed = thalweg_window_write(file, window, at, piece, PIECE);
        memset(piece, 0, PIECE); /* the library has a copy */
    }
    return failed;
}

static int equal(uint64_t start, uint64_t bytes)
{
    thalweg_file *file;
    unsigned char *data = malloc(bytes);
    uint64_t got = 0, wrong = 0;
    if (!data || thalweg_file_open(&file, path, THALWEG_FILE_READ, 0)) return 0;
    if (thalweg_file_read(file, data, bytes, start, &got) || got != bytes) wrong = 1;
    for (uint64_t i = 0; i < bytes && !wrong; i++) wrong = data[i] != value(start + i);
    free(data);
    return !thalweg_file_close(file) && !wrong;
}

static int open_input(thalweg_input **file)
{
#ifdef _NOMPI
    if (!meeting[0]) return thalweg_input_open(file, path, MEMORY);
    return thalweg_input_open_processes(file, path, MEMORY, meeting, rank, ranks, 30.0);
#else
    return thalweg_input_open_mpi(file, path, MEMORY, MPI_COMM_WORLD);
#endif
}

static int right(uint64_t start, const unsigned char *data, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes; i++)
        if (data[i] != value(start + i)) return 0;
    return 1;
}

struct came {
    int status;
    int right;
};

static void read_came(thalweg_input_request request, int status, const void *data, uint64_t bytes, void *context)
{
    struct came *came = context;
    (void)request;
    came->right = bytes == PIECE && right(5, data, bytes);
    came->status = status;
}

/* Reads the `total` bytes of the file in windows, the pieces of the next rank. */
static void read_windows(uint64_t total)
{
    thalweg_input *file;
    thalweg_input_window window;
    check(open_input(&file) == 0 && thalweg_input_length(file) >= total, "a file is opened for input windows");
    thalweg_window_options options = {.active = ranks > 1 ? 2 : 1, .write_stripe = 64 << 10, .fraction = 16 << 10, .time_limit = 60.0};
    check(thalweg_input_start(file, &window, 0, total, &options) == 0, "an input window is started");
    enum { AT_ONCE = 16 };
    static unsigned char pieces[AT_ONCE][PIECE];
    thalweg_input_request requests[AT_ONCE];
    int equal = 1, failed = 0, once, wanted = 0, short_of;
    for (uint64_t first = 0; first < EACH / PIECE && !failed; first += AT_ONCE) {
        uint64_t at = first * ranks + (rank + 1) % ranks;
        for (int i = 0; i < AT_ONCE && !failed; i++)
            failed = thalweg_input_read(file, window, (at + (uint64_t)i * ranks) * PIECE, PIECE, &requests[i]);
        for (int i = AT_ONCE - 1; i >= 0 && !failed; i--) {
            failed = thalweg_input_wait(file, requests[i], pieces[i], PIECE);
            equal = equal && right((at + (uint64_t)i * ranks) * PIECE, pieces[i], PIECE);
        }
    }
    once = thalweg_input_wait(file, requests[0], pieces[0], PIECE);
    struct came came = {-1, 0};
    int complete = 0;
    failed = failed || thalweg_input_read(file, window, 5, PIECE, &requests[0]) ||
             thalweg_input_on_read(file, requests[0], read_came, &came) || thalweg_input_read(file, window, 77, 100, &requests[1]);
    while (!failed && !complete) failed = thalweg_input_test(file, requests[1], pieces[1], 100, &complete);
    while (!failed && came.status < 0) {
        thalweg_input_progress(file);
        usleep(100);
    }
    wanted = !failed && right(77, pieces[1], 100);
    const int outside = thalweg_input_read(file, window, total - 1, 2, &requests[0]);
    short_of = !thalweg_input_read(file, window, 0, 10, &requests[0]) &&
               thalweg_input_wait(file, requests[0], pieces[0], 11) == THALWEG_INVALID_ARGUMENT &&
               thalweg_input_wait(file, requests[0], pieces[0], 10) == 0 && right(0, pieces[0], 10);
    /* Checks may be collective: until all ranks have finished, another one may wait for bytes of this one. */
    check(thalweg_input_finish(file, window) == 0, "all ranks finish an input window");
    check(!failed && equal, "all ranks read four times their memory");
    check(once == THALWEG_INVALID_ARGUMENT, "bytes are returned once");
    check(wanted, "bytes are asked for until they are there");
    check(came.status == 0 && came.right, "a callback gets the bytes");
    check(outside == THALWEG_OUT_OF_BOUNDS, "bytes outside are refused");
    check(short_of, "memory of another length is refused, and the bytes stay");
    check(thalweg_input_start(file, &window, 7, 0, NULL) == 0 && thalweg_input_end(file, window) == 0 && thalweg_input_close(file) == 0,
          "an input file is closed");
}

static int called = -1;
static thalweg_windows *next_file;
static thalweg_window next_window;

/* Starts the next window from inside the callback of the one before. */
static void completed(thalweg_window window, int status, void *context)
{
    (void)window;
    called = status;
    thalweg_window_start(next_file, &next_window, *(const uint64_t *)context, ranks, NULL);
}

int main(int argc, char **argv)
{
    if (argc < 2) return 2;
#ifdef _NOMPI
    if (argc == 5) {
        snprintf(meeting, sizeof meeting, "%s", argv[2]);
        rank = (uint32_t)strtoul(argv[3], NULL, 10);
        ranks = (uint32_t)strtoul(argv[4], NULL, 10);
    }
#else
    int level, number;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SINGLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &number);
    rank = (uint32_t)number;
    MPI_Comm_size(MPI_COMM_WORLD, &number);
    ranks = (uint32_t)number;
#endif
    my_rank = (int)rank;
    all_ranks = (int)ranks;
    snprintf(path, sizeof path, "%s/out", argv[1]);
    const uint64_t total = EACH * ranks;

    thalweg_windows *file;
    check(open_file(&file, 0) == 0, "a file is opened for output windows");
    if (checks_failed) return 1;

    /* The first rank twice as owner is refused, here and on all ranks. */
    uint32_t twice[2] = {0, 0};
    thalweg_window refused;
    thalweg_window_options wrong = {.owners = twice, .owner_count = 2};
    check(thalweg_window_start(file, &refused, 0, 8, &wrong) == THALWEG_CONFIG, "options that make no sense are refused");

    static const char header[] = "valid";
    thalweg_window_options options = {
        .active = ranks > 1 ? 2 : 1,
        .write_stripe = 64 << 10,
        .fraction = 16 << 10,
        .time_limit = 60.0,
        .durable = 1,
        .commit_offset = 2 * total,
        .commit = header,
        .commit_bytes = sizeof header,
    };
    thalweg_window windows[2];
    check(thalweg_window_start(file, &windows[0], 0, total, &options) == 0, "a window is started");
    options.commit_bytes = 0;
    check(thalweg_window_start(file, &windows[1], total, total, &options) == 0, "a second window is started");
    /* Each rank writes four times its memory into each, and makes no other call. Collective calls of the program's own wait until the
     * windows are complete: another rank may be waiting for memory at this one. */
    int written = write_pieces(file, windows[0], 0, 0) == 0 && write_pieces(file, windows[1], total, 0) == 0;
    int ended = thalweg_window_end(file, windows[0]) == 0 && thalweg_window_end(file, windows[1]) == 0;
    int complete = 0, failed = 0;
    while (!complete && !failed) failed = thalweg_window_test(file, windows[1], &complete);
    check(written, "all ranks write four times their memory");
    check(ended, "each rank ends its part");
    check(!failed && complete, "a window is tested until it is complete");
    check(thalweg_window_wait(file, windows[0]) == 0, "a window is waited for");
    check(thalweg_window_wait(file, windows[0]) == THALWEG_INVALID_ARGUMENT, "its result is returned once");

    thalweg_window short_one;
    thalweg_window_start(file, &short_one, 3 * total, total, &options);
    write_pieces(file, short_one, 3 * total, rank == ranks - 1 ? 1 : 0);
    thalweg_window_end(file, short_one);
    check(thalweg_window_wait(file, short_one) == THALWEG_INVALID_ARGUMENT, "missing bytes are an error on all ranks");
    check(thalweg_last_error()->byte == (int64_t)(4 * total - PIECE) &&
              strstr(thalweg_last_error()->what, "4096 bytes of the window were written by no rank") != NULL,
          "the first missing byte is named");
    check(thalweg_window_write(file, short_one, 0, header, 1) == THALWEG_INVALID_ARGUMENT, "a window that is gone is refused");

    thalweg_window told;
    uint64_t next_start = 5 * total, taken = 0;
    unsigned char byte = 7;
    next_file = file;
    thalweg_window_start(file, &told, 4 * total, ranks, NULL);
    thalweg_window_on_complete(file, told, completed, &next_start);
    int tried = thalweg_window_try_write(file, told, 4 * total + rank, &byte, 1, &taken);
    thalweg_window_end(file, told);
    while (called < 0) {
        thalweg_windows_progress(file);
        usleep(100);
    }
    check(tried == 0 && taken == 1, "a byte is taken at once");
    check(called == 0, "a callback is called with the status");
    check(thalweg_window_write(file, next_window, next_start + rank, &byte, 1) == 0 && thalweg_window_end(file, next_window) == 0 &&
              thalweg_window_wait(file, next_window) == 0,
          "a window that the callback started is written");
    check(thalweg_windows_close(file) == 0, "the file is closed");

    check(equal(0, 2 * total), "the file contains what was written");
    read_windows(total);
    FILE *plain = fopen(path, "rb");
    char found[sizeof header] = "";
    check(plain && !fseek(plain, (long)(2 * total), SEEK_SET) && fread(found, 1, sizeof found, plain) == sizeof found &&
              !memcmp(found, header, sizeof header),
          "the committed bytes are there");
    if (plain) fclose(plain);

    snprintf(path, sizeof path, "%s/none/out", argv[1]);
    if (!meeting[0]) check(open_file(&file, 0) == THALWEG_NOT_FOUND && file == NULL, "a folder that is not there is an error");
    if (meeting[0] && ranks > 1) {
        /* The last process dies; the others write to it. */
        snprintf(path, sizeof path, "%s/out", argv[1]);
        check(open_file(&file, 1) == 0, "the processes meet again");
        if (rank == ranks - 1) _exit(checks_failed != 0);
        usleep(200000);
        uint32_t dead = ranks - 1;
        thalweg_window_options owner = {.owners = &dead, .owner_count = 1, .time_limit = 60.0};
        int lost = thalweg_window_start(file, &next_window, 0, ranks, &owner);
        if (!lost) lost = thalweg_window_write(file, next_window, rank, &byte, 1);
        if (!lost) lost = thalweg_window_end(file, next_window);
        if (!lost) lost = thalweg_window_wait(file, next_window);
        check(lost == THALWEG_PEER_LOST && strstr(thalweg_last_error()->text, "died") != NULL, "the death of a process is an error of the others");
        thalweg_windows_drop(file);
    }
#ifndef _NOMPI
    MPI_Finalize();
#endif
    return checks_failed != 0;
}
