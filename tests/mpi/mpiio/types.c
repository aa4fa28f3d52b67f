/* Datatypes of every constructor, also one inside of another: as views, as etypes and in memory, beside a model, which is a list of the
 * places of a datatype's bytes. Prints "ok NAME" or "not ok NAME (why)" from rank 0.
 *
 *     types PATH
 */
#include <mpi.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 1024, TIMES = 3 };

static int rank, ranks, wrong;
static char why[256], path[1024];

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

#define OK(call)                                               \
    do {                                                       \
        int code_ = (call);                                    \
        if (code_ != MPI_SUCCESS) {                            \
            char text_[MPI_MAX_ERROR_STRING];                  \
            int length_;                                       \
            MPI_Error_string(code_, text_, &length_);          \
            fail(__LINE__, "%s: %s", made->name, text_);       \
        }                                                      \
    } while (0)
#define IS(got, wanted)                                                                                              \
    do {                                                                                                             \
        long long got_ = (long long)(got), wanted_ = (long long)(wanted);                                            \
        if (got_ != wanted_) fail(__LINE__, "%s: %s is %lld, not %lld", made->name, #got, got_, wanted_);            \
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

/* The model: where the bytes of a datatype are, in its order, and its bounds. */
typedef struct Map {
    int count;
    long at[MOST], lower, upper;
} Map;

static Map elementary(long size) {
    Map map = {.count = (int)size, .upper = size};
    for (int i = 0; i < map.count; i++) map.at[i] = i;
    return map;
}

static long extent(const Map *map) { return map->upper - map->lower; }

/* Adds `times` of a datatype from this byte on. */
static void add(Map *map, const Map *of, long times, long byte) {
    for (long t = 0; t < times; t++) {
        long start = byte + t * extent(of);
        int is_first = map->count == 0;
        if (is_first || start + of->lower < map->lower) map->lower = start + of->lower;
        if (is_first || start + of->upper > map->upper) map->upper = start + of->upper;
        if (map->count + of->count > MOST) MPI_Abort(MPI_COMM_WORLD, 2);
        for (int i = 0; i < of->count; i++) map->at[map->count++] = start + of->at[i];
    }
}

/* Blocks of these lengths (null: all of `each`), at these places, in units of so many bytes. */
static Map blocks(const Map *of, int n, const int *lengths, int each, const int *places, long unit) {
    Map map = {0};
    for (int i = 0; i < n; i++) add(&map, of, lengths ? lengths[i] : each, places[i] * unit);
    return map;
}

static Map resized(const Map *of, long lower, long size) {
    Map map = *of;
    map.lower = lower;
    map.upper = lower + size;
    return map;
}

/* A datatype, and its model. */
typedef struct Made {
    const char *name;
    MPI_Datatype type;
    Map map;
    int is_file_type; /* its places increase and none is negative */
} Made;

static Made all[64];
static int all_count;

static Made *keep(const char *name, MPI_Datatype type, Map map) {
    Made *made = &all[all_count++];
    long last = -1;
    MPI_Type_commit(&type);
    *made = (Made){name, type, map, map.lower >= 0};
    for (int i = 0; i < map.count; i++) {
        if (map.at[i] <= last) made->is_file_type = 0;
        last = map.at[i];
    }
    return made;
}

static void forget_all(void) {
    for (int i = 0; i < all_count; i++) MPI_Type_free(&all[i].type);
    all_count = 0;
}

static void constructors(void) {
    const int lengths[3] = {2, 1, 3}, places[3] = {1, 4, 6}, byte_places[3] = {4, 20, 36}, block_places[3] = {0, 3, 7};
    const int mixed[3] = {9, 0, 4}, mixed_bytes[3] = {40, 0, 20}, steps[4] = {0, 1, 2, 3};
    MPI_Aint bytes[3] = {4, 20, 36}, members[3] = {4, 8, 24}, unordered[3] = {40, 0, 20};
    MPI_Datatype of[3] = {MPI_INT, MPI_DOUBLE, MPI_SHORT}, type;
    const int each[3] = {1, 2, 2};
    Map integer = elementary(4), real = elementary(8), half = elementary(2), map;
    MPI_Type_dup(MPI_INT, &type);
    keep("dup", type, integer);
    MPI_Type_contiguous(3, MPI_INT, &type);
    keep("contiguous", type, blocks(&integer, 1, NULL, 3, (int[]){0}, 4));
    MPI_Type_vector(3, 2, 4, MPI_INT, &type);
    keep("vector", type, blocks(&integer, 3, NULL, 2, steps, 16));
    MPI_Type_create_hvector(3, 2, 18, MPI_INT, &type);
    keep("hvector", type, blocks(&integer, 3, NULL, 2, steps, 18));
    MPI_Type_create_hvector(3, 2, -18, MPI_INT, &type);
    keep("hvector, backwards", type, blocks(&integer, 3, NULL, 2, steps, -18));
    MPI_Type_indexed(3, lengths, places, MPI_INT, &type);
    keep("indexed", type, blocks(&integer, 3, lengths, 0, places, 4));
    MPI_Type_create_hindexed(3, lengths, bytes, MPI_INT, &type);
    keep("hindexed", type, blocks(&integer, 3, lengths, 0, byte_places, 1));
    MPI_Type_create_indexed_block(3, 2, block_places, MPI_INT, &type);
    keep("indexed block", type, blocks(&integer, 3, NULL, 2, block_places, 4));
    MPI_Type_create_hindexed_block(3, 2, bytes, MPI_INT, &type);
    keep("hindexed block", type, blocks(&integer, 3, NULL, 2, byte_places, 1));
    MPI_Type_indexed(3, lengths, mixed, MPI_INT, &type);
    keep("indexed, not in order", type, blocks(&integer, 3, lengths, 0, mixed, 4));
    MPI_Type_create_hindexed(3, lengths, unordered, MPI_INT, &type);
    keep("hindexed, not in order", type, blocks(&integer, 3, lengths, 0, mixed_bytes, 1));
    MPI_Type_create_hindexed_block(3, 2, unordered, MPI_INT, &type);
    keep("hindexed block, not in order", type, blocks(&integer, 3, NULL, 2, mixed_bytes, 1));
    MPI_Type_create_struct(3, each, members, of, &type);
    map = (Map){0};
    add(&map, &integer, 1, 4);
    add(&map, &real, 2, 8);
    add(&map, &half, 2, 24);
    /* Up to the alignment of a double, from the first member on. */
    keep("struct", type, resized(&map, 4, 24));
    MPI_Type_create_resized(MPI_INT, 0, 12, &type);
    keep("resized", type, resized(&integer, 0, 12));
    MPI_Type_create_resized(MPI_INT, -4, 12, &type);
    keep("resized below 0", type, resized(&integer, -4, 12));
    const int sizes[2] = {4, 5}, part[2] = {2, 3}, start[2] = {1, 1};
    MPI_Type_create_subarray(2, sizes, part, start, MPI_ORDER_C, MPI_INT, &type);
    map = (Map){0};
    for (int i = 1; i < 3; i++) add(&map, &integer, 3, 4 * (i * 5 + 1));
    keep("subarray", type, resized(&map, 0, 80));
    MPI_Type_create_subarray(2, sizes, part, start, MPI_ORDER_FORTRAN, MPI_INT, &type);
    map = (Map){0};
    for (int j = 1; j < 4; j++) add(&map, &integer, 2, 4 * (j * 4 + 1));
    keep("subarray of Fortran", type, resized(&map, 0, 80));
    const int array[2] = {2 * ranks, 5}, kinds[2] = {MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC}, grid[2] = {ranks, 1};
    const int arguments[2] = {MPI_DISTRIBUTE_DFLT_DARG, 2};
    MPI_Type_create_darray(ranks, rank, 2, array, kinds, arguments, grid, MPI_ORDER_C, MPI_INT, &type);
    map = (Map){0};
    add(&map, &integer, 10, 40 * rank);
    keep("darray", type, resized(&map, 0, 40 * ranks));
    const int cyclic[2] = {MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_NONE}, twos[2] = {1, MPI_DISTRIBUTE_DFLT_DARG};
    MPI_Type_create_darray(ranks, rank, 2, array, cyclic, twos, grid, MPI_ORDER_FORTRAN, MPI_INT, &type);
    map = (Map){0};
    for (int j = 0; j < 5; j++)
        for (int i = 0; i < 2; i++) add(&map, &integer, 1, 4 * (j * 2 * ranks + i * ranks + rank));
    keep("darray of Fortran", type, resized(&map, 0, 40 * ranks));
}

/* Constructors inside of constructors. All places are multiples of 4: Open MPI rounds extents up to the alignment of an int. */
static void nested(void) {
    MPI_Datatype inner, middle, outer;
    Map integer = elementary(4), one, two, three = {0};
    MPI_Type_create_indexed_block(2, 1, (int[]){0, 2}, MPI_INT, &inner);
    one = blocks(&integer, 2, NULL, 1, (int[]){0, 2}, 4);
    MPI_Type_create_hvector(2, 1, 32, inner, &middle);
    two = blocks(&one, 2, NULL, 1, (int[]){0, 1}, 32);
    MPI_Type_create_hindexed(2, (int[]){1, 2}, (MPI_Aint[]){4, 60}, middle, &outer);
    keep("hindexed of hvector of indexed block", outer, blocks(&two, 2, (int[]){1, 2}, 0, (int[]){4, 60}, 1));
    MPI_Type_create_resized(middle, 0, 52, &outer);
    two = resized(&two, 0, 52);
    MPI_Type_free(&middle);
    middle = outer;
    MPI_Type_create_hindexed_block(2, 2, (MPI_Aint[]){8, 120}, middle, &outer);
    keep("hindexed block of resized", outer, blocks(&two, 2, NULL, 2, (int[]){8, 120}, 1));
    MPI_Type_dup(outer, &middle);
    MPI_Type_contiguous(2, middle, &outer);
    three = all[all_count - 1].map;
    keep("contiguous of dup of hindexed block", outer, blocks(&three, 1, NULL, 2, (int[]){0}, 1));
    MPI_Type_free(&middle);
    MPI_Type_create_resized(inner, -4, 20, &middle);
    two = resized(&one, -4, 20);
    MPI_Type_vector(2, 2, 3, middle, &outer);
    keep("vector of resized below 0", outer, blocks(&two, 2, NULL, 2, (int[]){0, 3}, 20));
    const MPI_Datatype of[3] = {middle, MPI_CHAR, inner};
    MPI_Datatype members;
    MPI_Type_create_struct(3, (int[]){2, 3, 1}, (MPI_Aint[]){4, 41, 48}, of, &members);
    MPI_Type_free(&middle);
    /* With bounds of its own: a bound that a member was given counts alone for Open MPI, beside all others for MPICH. */
    MPI_Type_create_resized(members, 0, 64, &outer);
    MPI_Type_free(&members);
    three = (Map){0};
    Map letter = elementary(1);
    add(&three, &two, 2, 4);
    add(&three, &letter, 3, 41);
    add(&three, &one, 1, 48);
    three = resized(&three, 0, 64);
    keep("resized struct of resized, char and indexed block", outer, three);
    MPI_Type_create_subarray(1, (int[]){4}, (int[]){2}, (int[]){1}, MPI_ORDER_C, outer, &middle);
    two = (Map){0};
    add(&two, &three, 2, extent(&three));
    keep("subarray of resized struct", middle, resized(&two, 0, 4 * extent(&three)));
    MPI_Type_free(&inner);
}

static void f90(void) {
    MPI_Datatype real, complex, integer, type;
    MPI_Type_create_f90_real(6, 30, &real);
    MPI_Type_create_f90_complex(15, 300, &complex);
    MPI_Type_create_f90_integer(9, &integer);
    Map four = elementary(4), sixteen = elementary(16), map = {0};
    MPI_Type_vector(2, 1, 3, real, &type);
    keep("vector of F90_REAL", type, blocks(&four, 2, NULL, 1, (int[]){0, 3}, 4));
    MPI_Type_create_hindexed(2, (int[]){1, 1}, (MPI_Aint[]){8, 32}, complex, &type);
    keep("hindexed of F90_COMPLEX", type, blocks(&sixteen, 2, NULL, 1, (int[]){8, 32}, 1));
    MPI_Type_create_resized(integer, 0, 10, &type);
    keep("resized F90_INTEGER", type, resized(&four, 0, 10));
    MPI_Type_create_struct(3, (int[]){1, 1, 2}, (MPI_Aint[]){0, 8, 24}, (MPI_Datatype[]){integer, complex, real}, &type);
    add(&map, &four, 1, 0);
    add(&map, &sixteen, 1, 8);
    add(&map, &four, 2, 24);
    keep("struct of F90 types", type, map);
}

#if MPI_VERSION >= 4
static void large(void) {
    const MPI_Count lengths[3] = {2, 1, 3}, places[3] = {1, 4, 6}, bytes[3] = {4, 20, 36}, each[3] = {1, 2, 2}, members[3] = {4, 8, 24};
    const MPI_Datatype of[3] = {MPI_INT, MPI_DOUBLE, MPI_SHORT};
    Map integer = elementary(4), real = elementary(8), half = elementary(2), map = {0};
    MPI_Datatype type;
    MPI_Type_contiguous_c(3, MPI_INT, &type);
    keep("contiguous", type, blocks(&integer, 1, NULL, 3, (int[]){0}, 4));
    MPI_Type_vector_c(3, 2, 4, MPI_INT, &type);
    keep("vector", type, blocks(&integer, 3, NULL, 2, (int[]){0, 1, 2}, 16));
    MPI_Type_create_hvector_c(3, 2, 18, MPI_INT, &type);
    keep("hvector", type, blocks(&integer, 3, NULL, 2, (int[]){0, 1, 2}, 18));
    MPI_Type_indexed_c(3, lengths, places, MPI_INT, &type);
    keep("indexed", type, blocks(&integer, 3, (int[]){2, 1, 3}, 0, (int[]){1, 4, 6}, 4));
    MPI_Type_create_hindexed_c(3, lengths, bytes, MPI_INT, &type);
    keep("hindexed", type, blocks(&integer, 3, (int[]){2, 1, 3}, 0, (int[]){4, 20, 36}, 1));
    MPI_Type_create_indexed_block_c(3, 2, places, MPI_INT, &type);
    keep("indexed block", type, blocks(&integer, 3, NULL, 2, (int[]){1, 4, 6}, 4));
    MPI_Type_create_hindexed_block_c(3, 2, bytes, MPI_INT, &type);
    keep("hindexed block", type, blocks(&integer, 3, NULL, 2, (int[]){4, 20, 36}, 1));
    MPI_Type_create_struct_c(3, each, members, of, &type);
    add(&map, &integer, 1, 4);
    add(&map, &real, 2, 8);
    add(&map, &half, 2, 24);
    keep("struct", type, resized(&map, 4, 24));
    const MPI_Count sizes[2] = {4, 5}, part[2] = {2, 3}, start[2] = {1, 1};
    MPI_Type_create_subarray_c(2, sizes, part, start, MPI_ORDER_FORTRAN, MPI_INT, &type);
    map = (Map){0};
    for (int j = 1; j < 4; j++) add(&map, &integer, 2, 4 * (j * 4 + 1));
    keep("subarray", type, resized(&map, 0, 80));
    const MPI_Count array[2] = {2 * ranks, 5};
    const int cyclic[2] = {MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_NONE}, grid[2] = {ranks, 1}, ones[2] = {1, MPI_DISTRIBUTE_DFLT_DARG};
    MPI_Type_create_darray_c(ranks, rank, 2, array, cyclic, ones, grid, MPI_ORDER_FORTRAN, MPI_INT, &type);
    map = (Map){0};
    for (int j = 0; j < 5; j++)
        for (int i = 0; i < 2; i++) add(&map, &integer, 1, 4 * (j * 2 * ranks + i * ranks + rank));
    keep("darray", type, resized(&map, 0, 40 * ranks));
    MPI_Type_create_resized_c(MPI_INT, -4, 12, &type);
    keep("resized", type, resized(&integer, -4, 12));
}
#endif

/* Never 0, which is what is in holes. */
static unsigned char byte_of(int of, long number) { return (unsigned char)(1 + (of * 57 + number * 7) % 255); }

/* Where a view has its bytes: after each `step` the next instance begins. */
static long place_of(const Map *map, long displacement, long step, long number) {
    return displacement + number / map->count * step + map->at[number % map->count];
}

/* The file has this rank's bytes at these places, and of all ranks not one more. */
static void is_there(MPI_File file, const Made *made, int line, long size, long displacement, long step) {
    unsigned char *bytes = calloc(1, (size_t)size + 1);
    MPI_Status status;
    int got = 0;
    long filled = 0, own = (long)TIMES * made->map.count, wanted = 0;
    OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    OK(MPI_File_read_at(file, 0, bytes, (int)size, MPI_BYTE, &status));
    MPI_Get_count(&status, MPI_BYTE, &got);
    if (got != size) fail(line, "%s: %d bytes read of %ld", made->name, got, size);
    for (long i = 0; i < size; i++) filled += bytes[i] != 0;
    MPI_Allreduce(&own, &wanted, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (filled != wanted) fail(line, "%s: the file has %ld bytes, not %ld", made->name, filled, wanted);
    for (long i = 0; i < own; i++) {
        long at = place_of(&made->map, displacement, step, i);
        if (bytes[at] == byte_of(rank, i)) continue;
        fail(line, "%s: byte %ld, at %ld, is %d, not %d", made->name, i, at, bytes[at], byte_of(rank, i));
        break;
    }
    free(bytes);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void emptied(MPI_File file, const Made *made, long size) {
    OK(MPI_File_set_size(file, 0));
    OK(MPI_File_set_size(file, size));
}

/* Writes and reads through the view that is set. */
static void through_view(MPI_File file, const Made *made) {
    int own = TIMES * made->map.count, first = own / 2 + 1, got = 0;
    unsigned char *bytes = malloc((size_t)own), *back = calloc(1, (size_t)own);
    MPI_Status status;
    for (int i = 0; i < own; i++) bytes[i] = byte_of(rank, i);
    OK(MPI_File_write_at_all(file, 0, bytes, first, MPI_BYTE, &status));
    OK(MPI_File_write_at(file, first, bytes + first, own - first, MPI_BYTE, &status));
    MPI_Get_count(&status, MPI_BYTE, &got);
    IS(got, own - first);
    OK(MPI_File_sync(file));
    OK(MPI_File_read_at_all(file, 0, back, own, MPI_BYTE, &status));
    IS(memcmp(bytes, back, (size_t)own), 0);
    free(bytes);
    free(back);
}

static void as_view(MPI_File file, const Made *made) {
    const Map *map = &made->map;
    /* A range of the file for each rank. */
    long step = extent(map), range = TIMES * step + map->at[map->count - 1] + 1, size = range * ranks, largest = 0;
    MPI_Allreduce(&range, &largest, 1, MPI_LONG, MPI_MAX, MPI_COMM_WORLD);
    size = largest * ranks;
    emptied(file, made, size);
    OK(MPI_File_set_view(file, largest * rank, MPI_BYTE, made->type, "native", MPI_INFO_NULL));
    through_view(file, made);
    is_there(file, made, __LINE__, size, largest * rank, step);
    /* Instances of the ranks in turn. */
    MPI_Datatype wide;
    long room = (map->at[map->count - 1] > map->upper ? map->at[map->count - 1] : map->upper) + 3;
    MPI_Allreduce(&room, &largest, 1, MPI_LONG, MPI_MAX, MPI_COMM_WORLD);
    MPI_Type_create_resized(made->type, 0, largest * ranks, &wide);
    MPI_Type_commit(&wide);
    size = largest * ranks * (TIMES + 1);
    emptied(file, made, size);
    OK(MPI_File_set_view(file, largest * rank, MPI_BYTE, wide, "native", MPI_INFO_NULL));
    through_view(file, made);
    is_there(file, made, __LINE__, size, largest * rank, largest * ranks);
    MPI_Type_free(&wide);
}

/* As etype: offsets and positions count it. */
static void as_etype(MPI_File file, const Made *made) {
    MPI_Offset at = 0, byte = 0;
    MPI_Aint size = 0;
    int own = TIMES * made->map.count;
    unsigned char *bytes = calloc(1, (size_t)own);
    MPI_Status status;
    OK(MPI_File_get_type_extent(file, made->type, &size));
    IS(size, extent(&made->map));
    OK(MPI_File_set_view(file, 5, made->type, made->type, "native", MPI_INFO_NULL));
    OK(MPI_File_get_byte_offset(file, 2, &byte));
    IS(byte, place_of(&made->map, 5, extent(&made->map), 2L * made->map.count));
    OK(MPI_File_read(file, bytes, 2 * made->map.count, MPI_BYTE, &status));
    OK(MPI_File_get_position(file, &at));
    IS(at, 2);
    free(bytes);
}

/* In memory: what MPI_Pack says, and the model; what is in holes stays when it is read. */
static void in_memory(MPI_File file, const Made *made) {
    const Map *map = &made->map;
    long step = extent(map), low = map->lower, high = map->upper;
    int own = TIMES * map->count, packed = 0, got = 0;
    for (int i = 0; i < map->count; i++) {
        if (map->at[i] < low) low = map->at[i];
        if (map->at[i] >= high) high = map->at[i] + 1;
    }
    size_t room = (size_t)(high - low + (TIMES - 1) * step);
    unsigned char *memory = malloc(room), *back = malloc(room), *wanted = malloc((size_t)own), *bytes = calloc(1, (size_t)own);
    MPI_Status status;
    memset(memory, 0xee, room);
    for (int i = 0; i < own; i++) {
        memory[place_of(map, -low, step, i)] = byte_of(rank, i);
        wanted[i] = byte_of(rank, i);
    }
    MPI_Pack(memory - low, TIMES, made->type, bytes, own, &packed, MPI_COMM_SELF);
    IS(packed, own);
    IS(memcmp(bytes, wanted, (size_t)own), 0);
    long largest = own;
    MPI_Allreduce(MPI_IN_PLACE, &largest, 1, MPI_LONG, MPI_MAX, MPI_COMM_WORLD);
    OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    OK(MPI_File_write_at_all(file, largest * rank, memory - low, TIMES, made->type, &status));
    MPI_Get_count(&status, made->type, &got);
    IS(got, TIMES);
    OK(MPI_File_sync(file));
    memset(bytes, 0, (size_t)own);
    OK(MPI_File_read_at(file, largest * rank, bytes, own, MPI_BYTE, &status));
    IS(memcmp(bytes, wanted, (size_t)own), 0);
    memset(back, 0xee, room);
    OK(MPI_File_read_at_all(file, largest * rank, back - low, TIMES, made->type, &status));
    MPI_Get_count(&status, made->type, &got);
    IS(got, TIMES);
    IS(memcmp(memory, back, room), 0);
    free(memory);
    free(back);
    free(wanted);
    free(bytes);
}

static void checked(MPI_File file, const char *name) {
    char text[128];
    int views = 0;
    for (int i = 0; i < all_count; i++)
        if (all[i].is_file_type) {
            as_view(file, &all[i]);
            as_etype(file, &all[i]);
            views++;
        }
    snprintf(text, sizeof text, "%s as views: each byte is where the model has it", name);
    if (views == 0) fail(__LINE__, "no datatype was tried");
    told(text);
    for (int i = 0; i < all_count; i++) in_memory(file, &all[i]);
    snprintf(text, sizeof text, "%s in memory: all bytes are moved, and what is between them stays", name);
    told(text);
    forget_all();
}

int main(int argc, char **argv) {
    const Made none = {.name = "the file"}, *made = &none;
    MPI_File file = MPI_FILE_NULL;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc < 2 || ranks > 20) MPI_Abort(MPI_COMM_WORLD, 2);
    snprintf(path, sizeof path, "%s", argv[1]);
    OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file));
    constructors();
    checked(file, "datatypes of each constructor");
    nested();
    checked(file, "datatypes of datatypes");
    f90();
    checked(file, "F90 datatypes");
#if MPI_VERSION >= 4
    large();
    checked(file, "datatypes of large counts");
#endif
    OK(MPI_File_close(&file));
    told("the file is closed");
    MPI_Finalize();
    return 0;
}
