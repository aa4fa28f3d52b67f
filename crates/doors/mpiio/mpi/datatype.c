/* Decodes datatypes of this MPI: walks the constructors that the program called, and says them in the words of thalweg_mpiio.h. */
#include "datatype.h"

#include <limits.h>
#include <stdlib.h>

#define TRY(call)                              \
    do {                                       \
        int code_ = (call);                    \
        if (code_ != MPI_SUCCESS) return code_; \
    } while (0)

int thalweg_mpiio_code(int class) {
    switch (class) {
    case 0: return MPI_SUCCESS;
    case THALWEG_MPIIO_ARGUMENT: return MPI_ERR_ARG;
    case THALWEG_MPIIO_MODE: return MPI_ERR_AMODE;
    case THALWEG_MPIIO_NOT_SAME: return MPI_ERR_NOT_SAME;
    case THALWEG_MPIIO_NO_SUCH_FILE: return MPI_ERR_NO_SUCH_FILE;
    case THALWEG_MPIIO_EXISTS: return MPI_ERR_FILE_EXISTS;
    case THALWEG_MPIIO_BAD_FILE: return MPI_ERR_BAD_FILE;
    case THALWEG_MPIIO_ACCESS: return MPI_ERR_ACCESS;
    case THALWEG_MPIIO_NO_SPACE: return MPI_ERR_NO_SPACE;
    case THALWEG_MPIIO_QUOTA: return MPI_ERR_QUOTA;
    case THALWEG_MPIIO_READ_ONLY: return MPI_ERR_READ_ONLY;
    case THALWEG_MPIIO_IN_USE: return MPI_ERR_FILE_IN_USE;
    case THALWEG_MPIIO_UNSUPPORTED: return MPI_ERR_UNSUPPORTED_OPERATION;
    case THALWEG_MPIIO_IO: return MPI_ERR_IO;
    case THALWEG_MPIIO_NO_MEMORY: return MPI_ERR_NO_MEM;
    case THALWEG_MPIIO_TYPE: return MPI_ERR_TYPE;
    default: return MPI_ERR_OTHER;
    }
}

typedef struct Words {
    int64_t *all;
    uint64_t count, room;
} Words;

static int put(Words *words, int64_t word) {
    if (words->count == words->room) {
        uint64_t room = words->room ? 2 * words->room : 64;
        int64_t *all = realloc(words->all, room * sizeof *all);
        if (!all) return MPI_ERR_NO_MEM;
        words->all = all;
        words->room = room;
    }
    words->all[words->count++] = word;
    return MPI_SUCCESS;
}

/* What the program gave a constructor. Types of the functions for large counts (MPI 4) have counts, and displacements, in `wide`. */
typedef struct Given {
    int ints_count, combiner, types_count;
    int is_large;
    int *ints;
    int64_t *wide; /* addresses, or large counts */
    MPI_Datatype *types;
} Given;

static void forget(Given *given) {
    for (int i = 0; i < given->types_count; i++) {
        int ints, addresses, types, combiner = MPI_COMBINER_NAMED;
        if (!given->types || given->types[i] == MPI_DATATYPE_NULL) continue;
#if MPI_VERSION >= 4
        MPI_Count a, b, c, d;
        (void)ints, (void)addresses, (void)types;
        if (PMPI_Type_get_envelope_c(given->types[i], &a, &b, &c, &d, &combiner) != MPI_SUCCESS) continue;
#else
        if (PMPI_Type_get_envelope(given->types[i], &ints, &addresses, &types, &combiner) != MPI_SUCCESS) continue;
#endif
        int is_predefined = combiner == MPI_COMBINER_NAMED || combiner == MPI_COMBINER_F90_REAL ||
                            combiner == MPI_COMBINER_F90_COMPLEX || combiner == MPI_COMBINER_F90_INTEGER;
        if (!is_predefined) PMPI_Type_free(&given->types[i]);
    }
    free(given->ints);
    free(given->wide);
    free(given->types);
    *given = (Given){0};
}

static int ask(MPI_Datatype type, Given *given) {
    *given = (Given){0};
#if MPI_VERSION >= 4
    MPI_Count ints = 0, addresses = 0, larges = 0, types = 0;
    TRY(PMPI_Type_get_envelope_c(type, &ints, &addresses, &larges, &types, &given->combiner));
#else
    int ints = 0, addresses = 0, types = 0;
    const int larges = 0;
    TRY(PMPI_Type_get_envelope(type, &ints, &addresses, &types, &given->combiner));
#endif
    if (given->combiner == MPI_COMBINER_NAMED) return MPI_SUCCESS;
    if (ints > INT_MAX || types > INT_MAX) return MPI_ERR_TYPE;
    given->is_large = larges > 0;
    given->ints = calloc((size_t)ints + 1, sizeof *given->ints);
    given->wide = calloc((size_t)(larges > addresses ? larges : addresses) + 1, sizeof *given->wide);
    given->types = malloc(((size_t)types + 1) * sizeof *given->types);
    MPI_Aint *aints = calloc((size_t)addresses + 1, sizeof *aints);
    int code = given->ints && given->wide && given->types && aints ? MPI_SUCCESS : MPI_ERR_NO_MEM;
#if MPI_VERSION >= 4
    MPI_Count *counts = calloc((size_t)larges + 1, sizeof *counts);
    if (!counts) code = MPI_ERR_NO_MEM;
    if (code == MPI_SUCCESS)
        code = PMPI_Type_get_contents_c(type, ints, addresses, larges, types, given->ints, aints, counts, given->types);
    for (MPI_Count i = 0; code == MPI_SUCCESS && i < larges; i++) given->wide[i] = counts[i];
    free(counts);
#else
    if (code == MPI_SUCCESS) code = PMPI_Type_get_contents(type, ints, addresses, types, given->ints, aints, given->types);
#endif
    if (code == MPI_SUCCESS) {
        given->ints_count = (int)ints;
        given->types_count = (int)types;
        if (!given->is_large)
            for (int64_t i = 0; i < (int64_t)addresses; i++) given->wide[i] = aints[i];
    }
    free(aints);
    if (code != MPI_SUCCESS) forget(given);
    return code;
}

static int walk(Words *words, MPI_Datatype type, int representation, int depth);

/* A predefined datatype. Those of two values, as MPI_DOUBLE_INT, may have a gap between them or behind. */
static int named(Words *words, MPI_Datatype type, int representation) {
    if (representation == THALWEG_EXTERNAL32) {
        MPI_Aint size = 0;
        TRY(PMPI_Pack_external_size("external32", 1, type, &size));
        TRY(put(words, THALWEG_MPIIO_ELEMENTARY));
        return put(words, size);
    }
    MPI_Count size = 0, lower = 0, extent = 0, true_lower = 0, true_extent = 0;
    TRY(PMPI_Type_size_x(type, &size));
    TRY(PMPI_Type_get_extent_x(type, &lower, &extent));
    TRY(PMPI_Type_get_true_extent_x(type, &true_lower, &true_extent));
    if (size == MPI_UNDEFINED || size < 0) return MPI_ERR_TYPE;
    if (extent != size || lower != 0) {
        TRY(put(words, THALWEG_MPIIO_RESIZED));
        TRY(put(words, lower));
        TRY(put(words, extent));
    }
    const MPI_Datatype pairs[][2] = {
        {MPI_FLOAT_INT, MPI_FLOAT}, {MPI_DOUBLE_INT, MPI_DOUBLE}, {MPI_LONG_INT, MPI_LONG},
        {MPI_SHORT_INT, MPI_SHORT}, {MPI_LONG_DOUBLE_INT, MPI_LONG_DOUBLE},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        if (type != pairs[i][0]) continue;
        MPI_Count first = 0;
        TRY(PMPI_Type_size_x(pairs[i][1], &first));
        int64_t second = first < (MPI_Count)sizeof(int) ? (int64_t)sizeof(int) : first; /* an int is aligned */
        const int64_t members[] = {THALWEG_MPIIO_STRUCT, 2, 1, 0, THALWEG_MPIIO_ELEMENTARY, first,
                                   1, second, THALWEG_MPIIO_ELEMENTARY, (int64_t)sizeof(int)};
        for (size_t k = 0; k < sizeof members / sizeof members[0]; k++) TRY(put(words, members[k]));
        return MPI_SUCCESS;
    }
    TRY(put(words, THALWEG_MPIIO_ELEMENTARY));
    return put(words, size);
}

/* Number `i` of those that the constructor for large counts has in `wide`, and the other one in `ints`. */
static int64_t count_of(const Given *given, int i) { return given->is_large ? given->wide[i] : given->ints[i]; }

static int distributed(Words *words, const Given *given) {
    /* size, rank, dimensions, (sizes), distributions, arguments, processes, order */
    const int *ints = given->ints;
    int64_t dimensions = ints[2];
    const int *behind = ints + 3 + (given->is_large ? 0 : dimensions);
    const int *kinds = behind, *arguments = behind + dimensions, *processes = behind + 2 * dimensions;
    TRY(put(words, THALWEG_MPIIO_DARRAY));
    TRY(put(words, ints[1]));
    TRY(put(words, dimensions));
    TRY(put(words, behind[3 * dimensions] == MPI_ORDER_FORTRAN));
    for (int64_t d = 0; d < dimensions; d++) {
        TRY(put(words, given->is_large ? given->wide[d] : ints[3 + d]));
        int kind = kinds[d] == MPI_DISTRIBUTE_NONE ? 0 : kinds[d] == MPI_DISTRIBUTE_BLOCK ? 1 : 2;
        TRY(put(words, kind));
        TRY(put(words, kind == 0 || arguments[d] == MPI_DISTRIBUTE_DFLT_DARG ? 0 : arguments[d]));
        TRY(put(words, processes[d]));
    }
    return MPI_SUCCESS;
}

static int constructed(Words *words, const Given *given, MPI_Datatype type, int representation, int depth) {
    const int large = given->is_large;
    const int combiner = given->combiner;
    switch (combiner) {
    case MPI_COMBINER_DUP: TRY(put(words, THALWEG_MPIIO_DUP)); break;
    case MPI_COMBINER_CONTIGUOUS:
        TRY(put(words, THALWEG_MPIIO_CONTIGUOUS));
        TRY(put(words, count_of(given, 0)));
        break;
    case MPI_COMBINER_VECTOR:
    case MPI_COMBINER_HVECTOR:
        TRY(put(words, combiner == MPI_COMBINER_VECTOR ? THALWEG_MPIIO_VECTOR : THALWEG_MPIIO_HVECTOR));
        TRY(put(words, count_of(given, 0)));
        TRY(put(words, count_of(given, 1)));
        TRY(put(words, combiner == MPI_COMBINER_VECTOR ? count_of(given, 2) : given->wide[large ? 2 : 0]));
        break;
    case MPI_COMBINER_INDEXED:
    case MPI_COMBINER_HINDEXED: {
        int64_t count = count_of(given, 0);
        TRY(put(words, combiner == MPI_COMBINER_INDEXED ? THALWEG_MPIIO_INDEXED : THALWEG_MPIIO_HINDEXED));
        TRY(put(words, count));
        for (int64_t i = 0; i < count; i++) {
            TRY(put(words, large ? given->wide[1 + i] : given->ints[1 + i]));
            TRY(put(words, large                              ? given->wide[1 + count + i]
                           : combiner == MPI_COMBINER_INDEXED ? given->ints[1 + count + i]
                                                              : given->wide[i]));
        }
        break;
    }
    case MPI_COMBINER_INDEXED_BLOCK:
    case MPI_COMBINER_HINDEXED_BLOCK: {
        int64_t count = count_of(given, 0);
        TRY(put(words, combiner == MPI_COMBINER_INDEXED_BLOCK ? THALWEG_MPIIO_INDEXED_BLOCK : THALWEG_MPIIO_HINDEXED_BLOCK));
        TRY(put(words, count));
        TRY(put(words, count_of(given, 1)));
        for (int64_t i = 0; i < count; i++)
            TRY(put(words, large                                    ? given->wide[2 + i]
                           : combiner == MPI_COMBINER_INDEXED_BLOCK ? given->ints[2 + i]
                                                                    : given->wide[i]));
        break;
    }
    case MPI_COMBINER_STRUCT: {
        int64_t count = count_of(given, 0);
        /* The extent, which this MPI may have rounded up to an alignment. In external32 files there is none. */
        if (representation == THALWEG_NATIVE) {
            MPI_Count lower = 0, extent = 0;
            TRY(PMPI_Type_get_extent_x(type, &lower, &extent));
            TRY(put(words, THALWEG_MPIIO_RESIZED));
            TRY(put(words, lower));
            TRY(put(words, extent));
        }
        TRY(put(words, THALWEG_MPIIO_STRUCT));
        TRY(put(words, count));
        for (int64_t i = 0; i < count; i++) {
            TRY(put(words, large ? given->wide[1 + i] : given->ints[1 + i]));
            TRY(put(words, given->wide[large ? 1 + count + i : i]));
            TRY(walk(words, given->types[i], representation, depth + 1));
        }
        return MPI_SUCCESS;
    }
    case MPI_COMBINER_SUBARRAY: {
        int64_t dimensions = given->ints[0];
        TRY(put(words, THALWEG_MPIIO_SUBARRAY));
        TRY(put(words, dimensions));
        TRY(put(words, given->ints[large ? 1 : 1 + 3 * dimensions] == MPI_ORDER_FORTRAN));
        for (int64_t i = 0; i < 3 * dimensions; i++) TRY(put(words, large ? given->wide[i] : given->ints[1 + i]));
        break;
    }
    case MPI_COMBINER_DARRAY: TRY(distributed(words, given)); break;
    case MPI_COMBINER_RESIZED:
        TRY(put(words, THALWEG_MPIIO_RESIZED));
        TRY(put(words, given->wide[0]));
        TRY(put(words, given->wide[1]));
        break;
    default: return MPI_ERR_TYPE;
    }
    return given->types_count == 1 ? walk(words, given->types[0], representation, depth + 1) : MPI_ERR_TYPE;
}

static int walk(Words *words, MPI_Datatype type, int representation, int depth) {
    enum { DEEPEST = 200 };
    Given given;
    if (type == MPI_DATATYPE_NULL || depth > DEEPEST) return MPI_ERR_TYPE;
    TRY(ask(type, &given));
    int is_predefined = given.combiner == MPI_COMBINER_NAMED || given.combiner == MPI_COMBINER_F90_REAL ||
                        given.combiner == MPI_COMBINER_F90_COMPLEX || given.combiner == MPI_COMBINER_F90_INTEGER;
    int code = is_predefined ? named(words, type, representation) : constructed(words, &given, type, representation, depth);
    forget(&given);
    return code;
}

int thalweg_mpiio_pattern_of(MPI_Datatype type, int representation, ThalwegMpiioPattern **pattern) {
    Words words = {0};
    *pattern = NULL;
    int code = walk(&words, type, representation, 0);
    if (code == MPI_SUCCESS && thalweg_core_mpiio_pattern(pattern, words.all, words.count) != 0) code = MPI_ERR_TYPE;
    free(words.all);
    return code;
}

/* What is kept with a datatype, under an attribute. */
static int kept_key = MPI_KEYVAL_INVALID;

static int freed(MPI_Datatype type, int key, void *kept, void *extra) {
    (void)type, (void)key, (void)extra;
    thalweg_core_mpiio_pattern_free(kept);
    return MPI_SUCCESS;
}

int thalweg_mpiio_memory_of(MPI_Datatype type, const ThalwegMpiioPattern **pattern, uint64_t *size) {
    MPI_Count bytes = 0, lower = 0, extent = 0;
    int combiner = MPI_COMBINER_NAMED, found = 0;
    *pattern = NULL;
    if (type == MPI_DATATYPE_NULL) return MPI_ERR_TYPE;
    TRY(PMPI_Type_size_x(type, &bytes));
    TRY(PMPI_Type_get_extent_x(type, &lower, &extent));
    if (bytes == MPI_UNDEFINED || bytes < 0) return MPI_ERR_TYPE;
    *size = (uint64_t)bytes;
    if (bytes == 0) return MPI_SUCCESS;
#if MPI_VERSION >= 4
    MPI_Count a, b, c, d;
    TRY(PMPI_Type_get_envelope_c(type, &a, &b, &c, &d, &combiner));
#else
    int a, b, d;
    TRY(PMPI_Type_get_envelope(type, &a, &b, &d, &combiner));
#endif
    if (combiner == MPI_COMBINER_NAMED && bytes == extent && lower == 0) return MPI_SUCCESS;
    if (kept_key == MPI_KEYVAL_INVALID) TRY(PMPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, freed, &kept_key, NULL));
    void *kept = NULL;
    TRY(PMPI_Type_get_attr(type, kept_key, &kept, &found));
    if (!found) {
        ThalwegMpiioPattern *made = NULL;
        TRY(thalweg_mpiio_pattern_of(type, THALWEG_NATIVE, &made));
        int code = PMPI_Type_set_attr(type, kept_key, made);
        if (code != MPI_SUCCESS) {
            thalweg_core_mpiio_pattern_free(made);
            return code;
        }
        kept = made;
    }
    *pattern = kept;
    return MPI_SUCCESS;
}
