/* Queries: find blocks or points whose values match, by names of ADIOS 1.13. See docs/guide/query.md. */
#ifndef THALWEG_ADIOS_QUERY_H
#define THALWEG_ADIOS_QUERY_H

#ifdef __cplusplus
extern "C" {
#endif

#include "adios_read.h"

/* MINMAX finds blocks from recorded statistics, without reading values. The other two find points; both are the same here and need no
 * index files. */
enum ADIOS_QUERY_METHOD {
    ADIOS_QUERY_METHOD_MINMAX = 0,
    ADIOS_QUERY_METHOD_FASTBIT = 1,
    ADIOS_QUERY_METHOD_ALACRITY = 2,
    ADIOS_QUERY_METHOD_UNKNOWN = 3,
    ADIOS_QUERY_METHOD_COUNT = ADIOS_QUERY_METHOD_UNKNOWN
};

enum ADIOS_PREDICATE_MODE {
    ADIOS_LT = 0,
    ADIOS_LTEQ = 1,
    ADIOS_GT = 2,
    ADIOS_GTEQ = 3,
    ADIOS_EQ = 4,
    ADIOS_NE = 5
};

enum ADIOS_CLAUSE_OP_MODE {
    ADIOS_QUERY_OP_AND = 0,
    ADIOS_QUERY_OP_OR = 1
};

/* The query's arguments, for programs to read. The library owns all fields until adios_query_free. */
typedef struct {
    char *condition; /* as text */
    void *queryInternal;

    ADIOS_SELECTION *sel; /* the program's */
    void *dataSlice;

    ADIOS_VARINFO *varinfo;
    char *varName;

    ADIOS_FILE *file;
    enum ADIOS_QUERY_METHOD method;

    enum ADIOS_PREDICATE_MODE predicateOp;
    char *predicateValue;
    uint64_t rawDataSize; /* elements of the selection, set by adios_query_evaluate */

    void *left; /* of a combined query */
    void *right;
    enum ADIOS_CLAUSE_OP_MODE combineOp;

    int onTimeStep; /* -1: not evaluated yet */

    uint64_t maxResultsDesired; /* matching blocks; 0 for points, whose number is not known in advance */
    uint64_t resultsReadSoFar;

    int hasParent;
    int deleteSelectionWhenFreed;

    int estimate;
} ADIOS_QUERY;

enum ADIOS_QUERY_RESULT_STATUS {
    ADIOS_QUERY_RESULT_ERROR = -1,
    ADIOS_QUERY_NO_MORE_RESULTS = 0,
    ADIOS_QUERY_HAS_MORE_RESULTS = 1
};

/* Blocks: one selection of type ADIOS_SELECTION_WRITEBLOCK each, numbered within the step; npoints is 0.
 * Points: one selection of type ADIOS_SELECTION_POINTS with all of them, as offsets in its container; for a query over
 * points, as points of the array. No match: no selection.
 * The program frees all memory, which is from malloc: for points free(selections[0].u.points.points), then free(selections) and
 * free(result). Containers are the program's outputBoundary, or are freed with the query. */
typedef struct {
    enum ADIOS_QUERY_METHOD method_used;
    enum ADIOS_QUERY_RESULT_STATUS status;
    int nselections;
    ADIOS_SELECTION *selections; /* an array of structures */
    uint64_t npoints;
} ADIOS_QUERY_RESULT;

#ifndef __INCLUDED_FROM_FORTRAN_API__

int adios_query_is_method_available(enum ADIOS_QUERY_METHOD method);

/* Compares a variable with a number inside a box, points, a block, or everywhere (null). The selection is copied; `sel` keeps the
 * program's pointer. Returns null on failure: an unknown variable, a text variable, a value that is not a number. */
ADIOS_QUERY *adios_query_create(ADIOS_FILE *f, ADIOS_SELECTION *queryBoundary, const char *varName,
                                enum ADIOS_PREDICATE_MODE queryOp, const char *value);

/* Combines two queries by AND or OR, element by element: their selections have the same extents. Free each query separately. */
ADIOS_QUERY *adios_query_combine(ADIOS_QUERY *q1, enum ADIOS_CLAUSE_OP_MODE combineOp, ADIOS_QUERY *q2);

/* Default: MINMAX; points for queries over points or over different blocks. */
void adios_query_set_method(ADIOS_QUERY *q, enum ADIOS_QUERY_METHOD method);

/* Estimates from recorded statistics, without reading values, the number of matching blocks or points. -1 on failure.
 * timeStep: step of the variable, from 0; for a stream always 0, its current step. */
int64_t adios_query_estimate(ADIOS_QUERY *q, int timeStep);

/* Returns the next results, at most batchSize. Call again while the status is ADIOS_QUERY_HAS_MORE_RESULTS; later calls return no
 * results. Another timestep, or adios_query_estimate, restarts the query.
 * outputBoundary: the container of points, with the extents of the query's selections; null: the first selection.
 * Failures have the status ADIOS_QUERY_RESULT_ERROR. Returns null only if memory runs out. */
ADIOS_QUERY_RESULT *adios_query_evaluate(ADIOS_QUERY *q, ADIOS_SELECTION *outputBoundary, int timestep,
                                         uint64_t batchSize);

/* Reads the values of a variable at results of a query that lie in the box `bb` into `data`, which holds that box; other elements keep
 * their values. Returns 0 or the number of the failure. */
int adios_query_read_boundingbox(ADIOS_FILE *f, ADIOS_QUERY *q, const char *varname, int timestep,
                                 unsigned int nselections, ADIOS_SELECTION *selections, ADIOS_SELECTION *bb, void *data);

void adios_query_free(ADIOS_QUERY *q);

/* "<" "<=" ">" ">=" "=" "==" "!=" "<>", LT LE LTEQ GT GE GTEQ EQ NE; ADIOS_NE for anything else. */
enum ADIOS_PREDICATE_MODE adios_query_getOp(const char *opStr);

typedef struct {
    int nmethods;
    char **name;
    enum ADIOS_QUERY_METHOD *methodID;
} ADIOS_AVAILABLE_QUERY_METHODS;

ADIOS_AVAILABLE_QUERY_METHODS *adios_available_query_methods();
void adios_available_query_methods_free(ADIOS_AVAILABLE_QUERY_METHODS *methods);

#endif /* __INCLUDED_FROM_FORTRAN_API__ */

#ifdef __cplusplus
}
#endif

#endif
