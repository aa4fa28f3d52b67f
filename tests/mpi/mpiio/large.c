/* Accesses of more than 2^31 bytes, which need 2.2 GB of memory and of disk, on one rank: counts of MPI 4 where the MPI has them,
 * datatypes of that size, places in the file beyond 2^33. Prints "ok NAME" or "not ok NAME (why)".
 *
 *     large PATH
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define MANY ((MPI_Count)(1LL << 31) + 5000)
#define STEP (1LL << 20)
#define FAR (1LL << 33)

static int wrong;
static char why[256];

static void fail(int line, const char *format, ...) {
    if (!wrong) {
        va_list list;
        int n = snprintf(why, sizeof why, "line %d: ", line);
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
#define IS(got, wanted)                                                                                   \
    do {                                                                                                  \
        long long got_ = (long long)(got), wanted_ = (long long)(wanted);                                 \
        if (got_ != wanted_) fail(__LINE__, "%s is %lld, not %lld", #got, got_, wanted_);                 \
    } while (0)

static void told(const char *name) {
    if (wrong)
        printf("not ok %s (%s)\n", name, why);
    else
        printf("ok %s\n", name);
    fflush(stdout);
    wrong = 0;
}

static MPI_Count elements(const MPI_Status *status) {
    MPI_Count count = -1;
    MPI_Get_elements_x(status, MPI_BYTE, &count);
    return count;
}

/* Memory of MANY bytes, of which only pages that are written take space. */
static char *room(void) {
    char *bytes = mmap(NULL, (size_t)MANY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (bytes == MAP_FAILED) MPI_Abort(MPI_COMM_WORLD, 2);
    return bytes;
}

/* A byte in each MiB, and those around 2^31 and at the end. */
static char value(long long at, int seed) { return (char)((at / STEP * 7 + seed) % 127 + 1); }

static void mark(char *bytes, int seed) {
    for (long long at = 0; at < MANY; at += STEP) bytes[at] = value(at, seed);
    for (long long at = (1LL << 31) - 3; at < (1LL << 31) + 3; at++) bytes[at] = value(at, seed);
    bytes[MANY - 1] = value(MANY - 1, seed);
}

static void is_marked(int line, const char *bytes, int seed) {
    for (long long at = 0; at < MANY; at += STEP)
        if (bytes[at] != value(at, seed) || bytes[at + 7] != 0) return fail(line, "the bytes at %lld are wrong", at);
    for (long long at = (1LL << 31) - 3; at < (1LL << 31) + 3; at++)
        if (bytes[at] != value(at, seed)) return fail(line, "byte %lld is wrong", at);
    if (bytes[MANY - 1] != value(MANY - 1, seed)) fail(line, "the last byte is wrong");
}

/* So many bytes as one datatype, of the functions for `int`. */
static MPI_Datatype whole(void) {
    MPI_Datatype step, rest, all;
    const MPI_Count steps = MANY / STEP;
    MPI_Type_contiguous((int)STEP, MPI_BYTE, &step);
    MPI_Type_contiguous((int)(MANY % STEP), MPI_BYTE, &rest);
    MPI_Type_create_struct(2, (int[]){(int)steps, 1}, (MPI_Aint[]){0, (MPI_Aint)(steps * STEP)}, (MPI_Datatype[]){step, rest}, &all);
    MPI_Type_commit(&all);
    MPI_Type_free(&step);
    MPI_Type_free(&rest);
    return all;
}

int main(int argc, char **argv) {
    MPI_File file;
    MPI_Status status;
    MPI_Offset size = 0;
    MPI_Init(&argc, &argv);
    if (argc != 2) MPI_Abort(MPI_COMM_WORLD, 2);
    OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file));
    char *bytes = room();
    MPI_Datatype all = whole();
    mark(bytes, 1);
    OK(MPI_File_write_at(file, 0, bytes, 1, all, &status));
    IS(elements(&status), MANY);
    munmap(bytes, (size_t)MANY);
    bytes = room();
    OK(MPI_File_sync(file));
    OK(MPI_File_get_size(file, &size));
    IS(size, MANY);
    OK(MPI_File_read_at_all(file, 0, bytes, 1, all, &status));
    IS(elements(&status), MANY);
    is_marked(__LINE__, bytes, 1);
    munmap(bytes, (size_t)MANY);
    told("a datatype of more than 2^31 bytes is written and read");
#if MPI_VERSION >= 4
    bytes = room();
    mark(bytes, 2);
    OK(MPI_File_write_at_all_c(file, 0, bytes, MANY, MPI_BYTE, &status));
    IS(elements(&status), MANY);
    munmap(bytes, (size_t)MANY);
    bytes = room();
    OK(MPI_File_sync(file));
    OK(MPI_File_seek(file, 0, MPI_SEEK_SET));
    OK(MPI_File_read_c(file, bytes, MANY, MPI_BYTE, &status));
    IS(elements(&status), MANY);
    is_marked(__LINE__, bytes, 2);
    OK(MPI_File_get_position(file, &size));
    IS(size, MANY);
    munmap(bytes, (size_t)MANY);
    told("a count above 2^31 is written and read");
    /* A view whose blocks are longer than 2^31 bytes. */
    MPI_Datatype there, wide;
    MPI_Offset byte = 0;
    MPI_Type_create_hvector_c(2, MANY, FAR, MPI_BYTE, &there);
    MPI_Type_create_resized_c(there, 0, 2 * FAR, &wide);
    MPI_Type_commit(&wide);
    OK(MPI_File_set_view(file, 0, MPI_BYTE, wide, "native", MPI_INFO_NULL));
    OK(MPI_File_get_byte_offset(file, 3 * MANY + 9, &byte));
    IS(byte, 3 * FAR + 9);
    char few[6], got[6] = {0};
    memcpy(few, "abcdef", 6);
    OK(MPI_File_write_at(file, MANY - 3, few, 6, MPI_BYTE, &status));
    OK(MPI_File_read_at(file, MANY - 3, got, 6, MPI_BYTE, &status));
    IS(memcmp(few, got, 6), 0);
    OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    OK(MPI_File_read_at(file, FAR, got, 3, MPI_BYTE, &status));
    IS(memcmp(few + 3, got, 3), 0);
    MPI_Type_free(&there);
    MPI_Type_free(&wide);
    told("a view of blocks longer than 2^31 bytes");
    /* Each short is two bytes the other way round. */
    OK(MPI_File_set_size(file, 0));
    OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "external32", MPI_INFO_NULL));
    bytes = room();
    mark(bytes, 4);
    OK(MPI_File_write_at_all_c(file, 0, bytes, MANY / 2, MPI_SHORT, &status));
    IS(elements(&status), MANY);
    OK(MPI_File_read_at(file, MANY - 2, got, 2, MPI_BYTE, &status));
    IS(got[0], bytes[MANY - 1]);
    OK(MPI_File_write_at_c(file, 0, bytes, MANY, MPI_BYTE, &status));
    IS(elements(&status), MANY);
    munmap(bytes, (size_t)MANY);
    bytes = room();
    OK(MPI_File_read_at_c(file, 0, bytes, MANY, MPI_BYTE, &status));
    IS(elements(&status), MANY);
    is_marked(__LINE__, bytes, 4);
    munmap(bytes, (size_t)MANY);
    told("external32 with a count above 2^31 is converted");
#endif
    /* Converted as a whole, or refused: never in part. */
    OK(MPI_File_set_size(file, 0));
    OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "external32", MPI_INFO_NULL));
    bytes = room();
    mark(bytes, 3);
    int class = MPI_SUCCESS, code = MPI_File_write_at(file, 0, bytes, 1, all, &status);
    if (code != MPI_SUCCESS) MPI_Error_class(code, &class);
    munmap(bytes, (size_t)MANY);
    OK(MPI_File_get_size(file, &size));
    if (class == MPI_SUCCESS) {
        IS(elements(&status), MANY);
        IS(size, MANY);
        bytes = room();
        OK(MPI_File_read_at(file, 0, bytes, 1, all, &status));
        is_marked(__LINE__, bytes, 3);
        munmap(bytes, (size_t)MANY);
    } else {
        IS(class, MPI_ERR_COUNT);
        IS(size, 0);
    }
    told("external32 with a datatype of more than 2^31 bytes is converted or refused");
    MPI_Type_free(&all);
    OK(MPI_File_close(&file));
    told("the file is closed");
    MPI_Finalize();
    return 0;
}
