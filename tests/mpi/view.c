/* Datatypes of the standard input (crates/view/examples/datatypes.rs), made with this MPI: size, bounds, what MPI_Pack copies, and
 * what MPI_File_write_at writes through a view of each must be what our library says. view FILE. Left out, as the MPI itself is wrong:
 *   Open MPI 4.1: vectors of negative stride (vector(3, 2, -1, byte) is told to cover bytes 0 to 5, it covers -2 to 1)
 *   MPICH 4.0: datatypes with a part of no bytes, and true bounds of distributed arrays; views of filetypes with a lower bound other than 0, or with a resized
 *     type, struct or array inside of another type (wrong offsets; some writes never return). Open MPI agrees with us on all of these */
#include <inttypes.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 64

static char *word;
static int failed = 0;
/* What the current datatype has in it. */
static int negative, empty, inside, distributed;

static long long next(void)
{
    word = strtok(NULL, " \n");
    return word ? atoll(word) : 0;
}

static void numbers(int n, int *out)
{
    for (int i = 0; i < n; i++) out[i] = (int)next();
}

static MPI_Datatype made(char kind);

static MPI_Datatype inner(void)
{
    int size;
    word = strtok(NULL, " \n");
    inside |= strchr("rsaD", word[0]) != NULL;
    MPI_Datatype of = made(word[0]);
    MPI_Type_size(of, &size);
    empty |= size == 0;
    return of;
}

static MPI_Datatype made(char kind)
{
    MPI_Datatype out = MPI_DATATYPE_NULL, of;
    int n, block, counts[MOST], places[MOST], sizes[MOST], parts[MOST], starts[MOST], kinds[MOST], arguments[MOST], processes[MOST];
    MPI_Aint bytes[MOST];
    MPI_Datatype types[MOST];
    switch (kind) {
    case 'e':
        /* Of bytes: Open MPI rounds the extent of many types up to the alignment of the numbers in them. */
        MPI_Type_contiguous((int)next(), MPI_BYTE, &out);
        return out;
    case 'd':
        of = inner();
        MPI_Type_dup(of, &out);
        break;
    case 'c':
        n = (int)next();
        of = inner();
        MPI_Type_contiguous(n, of, &out);
        break;
    case 'v':
    case 'V': {
        n = (int)next(), block = (int)next();
        long long stride = next();
        negative |= kind == 'v' && stride < 0;
        of = inner();
        if (kind == 'v')
            MPI_Type_vector(n, block, (int)stride, of, &out);
        else
            MPI_Type_create_hvector(n, block, (MPI_Aint)stride, of, &out);
        break;
    }
    case 'i':
    case 'I':
        n = (int)next();
        for (int i = 0; i < n; i++) counts[i] = (int)next(), bytes[i] = places[i] = (int)next();
        of = inner();
        if (kind == 'i')
            MPI_Type_indexed(n, counts, places, of, &out);
        else
            MPI_Type_create_hindexed(n, counts, bytes, of, &out);
        break;
    case 'b':
    case 'B':
        n = (int)next(), block = (int)next();
        for (int i = 0; i < n; i++) bytes[i] = places[i] = (int)next();
        of = inner();
        if (kind == 'b')
            MPI_Type_create_indexed_block(n, block, places, of, &out);
        else
            MPI_Type_create_hindexed_block(n, block, bytes, of, &out);
        break;
    case 's':
        n = (int)next();
        for (int i = 0; i < n; i++) {
            counts[i] = (int)next(), bytes[i] = (MPI_Aint)next();
            types[i] = inner();
        }
        MPI_Type_create_struct(n, counts, bytes, types, &out);
        for (int i = 0; i < n; i++) MPI_Type_free(&types[i]);
        return out;
    case 'a': {
        n = (int)next();
        int order = next() ? MPI_ORDER_FORTRAN : MPI_ORDER_C;
        numbers(n, sizes), numbers(n, parts), numbers(n, starts);
        of = inner();
        MPI_Type_create_subarray(n, sizes, parts, starts, order, of, &out);
        break;
    }
    case 'D': {
        int rank = (int)next(), all = 1;
        distributed = 1;
        n = (int)next();
        int order = next() ? MPI_ORDER_FORTRAN : MPI_ORDER_C;
        int known[] = {MPI_DISTRIBUTE_NONE, MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC};
        for (int i = 0; i < n; i++) {
            sizes[i] = (int)next(), kinds[i] = known[next()], arguments[i] = (int)next(), processes[i] = (int)next();
            if (!arguments[i]) arguments[i] = MPI_DISTRIBUTE_DFLT_DARG;
            all *= processes[i];
        }
        of = inner();
        MPI_Type_create_darray(all, rank, n, sizes, kinds, arguments, processes, order, of, &out);
        break;
    }
    case 'r': {
        long long lower = next(), extent = next();
        of = inner();
        MPI_Type_create_resized(of, (MPI_Aint)lower, (MPI_Aint)extent, &out);
        break;
    }
    default:
        fprintf(stderr, "unknown constructor %c\n", kind);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Type_free(&of);
    return out;
}

static uint64_t hash(const unsigned char *bytes, long long n)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (long long i = 0; i < n; i++) h = (h ^ bytes[i]) * 0x100000001b3u;
    return h;
}

static void compare(const char *line, const char *what, long long here, long long ours)
{
    if (here == ours) return;
    printf("%s is %lld, ours %lld: %s", what, here, ours, line);
    fflush(stdout);
    failed++;
}

/* What is in the file after a write through the view; -1 where it cannot be read. */
static long long contents(const char *path, unsigned char **bytes)
{
    FILE *file = fopen(path, "rb");
    if (!file) return -1;
    fseek(file, 0, SEEK_END);
    long long length = ftell(file);
    *bytes = calloc(1, (size_t)length + 1);
    rewind(file);
    if (fread(*bytes, 1, (size_t)length, file) != (size_t)length) length = -1;
    fclose(file);
    return length;
}

static void emptied(const char *path, long long length)
{
    FILE *file = fopen(path, "wb");
    for (long long i = 0; i < length; i++) fputc(0, file);
    fclose(file);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    if (argc != 2) MPI_Abort(MPI_COMM_WORLD, 2);
    static char line[1 << 16], kept[1 << 16];
    int types = 0, views = 0;
    while (fgets(line, sizeof line, stdin)) {
        strcpy(kept, line);
        word = strtok(line, " \n");
        negative = empty = inside = distributed = 0;
        MPI_Datatype type = made(word[0]);
#ifdef OPEN_MPI
        int wrong = negative;
#else
        int wrong = empty;
#endif
        if (wrong) {
            MPI_Type_free(&type);
            continue;
        }
        MPI_Type_commit(&type);
        next(); /* the bar */
        long long size = next(), lower = next(), extent = next(), true_lower = next(), true_extent = next();
        MPI_Count n;
        MPI_Aint lb, ex;
        MPI_Type_size_x(type, &n);
        compare(kept, "the size", n, size);
        MPI_Type_get_extent(type, &lb, &ex);
        compare(kept, "the lower bound", lb, lower);
        compare(kept, "the extent", ex, extent);
#ifdef MPICH
        int bounds = !distributed;
#else
        int bounds = 1;
#endif
        if (bounds) {
            MPI_Type_get_true_extent(type, &lb, &ex);
            compare(kept, "the true lower bound", lb, true_lower);
            compare(kept, "the true extent", ex, true_extent);
        }
        long long count = next(), low = next(), high = next();
        uint64_t sum = strtoull(strtok(NULL, " \n"), NULL, 10);
        unsigned char *memory = malloc((size_t)(high - low) + 1), *out = malloc((size_t)(size * count) + 64);
        for (long long i = 0; i < high - low; i++) memory[i] = (unsigned char)(i * 7 + i / 251);
        int position = 0;
        MPI_Pack(memory - low, (int)count, type, out, (int)(size * count) + 64, &position, MPI_COMM_SELF);
        compare(kept, "the packed length", position, size * count);
        compare(kept, "what is packed", (long long)hash(out, size * count), (long long)sum);
        free(out);
        types++;
        int viewed = (int)next();
#ifdef MPICH
        viewed = viewed && lower == 0 && !inside;
#endif
        if (viewed) {
            long long displacement = next(), from = next(), length = next(), offset = next(), end = next();
            sum = strtoull(strtok(NULL, " \n"), NULL, 10);
            unsigned char *bytes = malloc((size_t)length), *there = NULL;
            for (long long i = 0; i < length; i++) bytes[i] = (unsigned char)((from + i) * 13 + 5);
            MPI_File file;
            /* Zeros: MPICH writes what is in its memory between the blocks of a file that was shorter. */
            emptied(argv[1], end);
            if (MPI_File_open(MPI_COMM_SELF, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file) ||
                MPI_File_set_view(file, displacement, MPI_BYTE, type, "native", MPI_INFO_NULL)) {
                printf("the view is refused: %s", kept);
                failed++;
            } else {
                MPI_Offset place = 0;
                MPI_File_get_byte_offset(file, from, &place);
                compare(kept, "the byte offset", place, offset);
                if (MPI_File_write_at(file, from, bytes, (int)length, MPI_BYTE, MPI_STATUS_IGNORE)) {
                    printf("the write is refused: %s", kept);
                    failed++;
                }
                MPI_File_close(&file);
                long long got = contents(argv[1], &there);
                compare(kept, "the length of the file", got, end);
                if (got == end) compare(kept, "what is written", (long long)hash(there, got), (long long)sum);
                views++;
            }
            free(there);
            free(bytes);
        }
        free(memory);
        MPI_Type_free(&type);
    }
    printf("%d types, %d views, %d differences\n", types, views, failed);
    MPI_Finalize();
    return failed > 0;
}
