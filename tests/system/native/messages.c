/* Messages of the library. A file that has statistics is continued twice by outputs without; each of the two warns, with one kind of
 * warning.
 *
 *   messages HOW FILES FOLDER
 *
 * HOW    stderr   no handler is set
 *        handler  a handler is set, and receives the warning
 *        silent   a handler is set, and receives nothing
 *        back     a handler is set and taken away again
 * FILES  together all ranks write one file, of which rank 0 warns
 *        each     each rank writes a file of its own, and warns of it */
#include "check.h"

struct heard {
    int calls, level;
    char text[512];
};

static void hear(int level, const char *text, void *context)
{
    struct heard *heard = context;
    heard->calls++;
    heard->level = level;
    snprintf(heard->text, sizeof heard->text, "%s", text);
}

static int session_open(thalweg_session **session, int each)
{
#ifdef MPI_VERSION
    return thalweg_session_open_mpi(session, NULL, each ? MPI_COMM_SELF : MPI_COMM_WORLD);
#else
    (void)each;
    return thalweg_session_open(session, NULL);
#endif
}

/* Writes steps `first` to `end` - 1. */
static int write_steps(const char *file, int each, thalweg_statistics statistics, uint64_t first, uint64_t end)
{
    enum { ROWS = 3 };
    const uint64_t shape[1] = {(uint64_t)(each ? ROWS : ROWS * all_ranks)}, offset[1] = {(uint64_t)(each ? 0 : ROWS * my_rank)};
    const uint64_t count[1] = {ROWS};
    const thalweg_box box = {1, NULL, offset, count};
    const double t[ROWS] = {1.0, 2.0, 3.0};
    thalweg_session *session;
    thalweg_group *g;
    if (session_open(&session, each)) return 1;
    int status = thalweg_group_declare(&g, session, "plate") || thalweg_group_method(g, "MPI", NULL, NULL) ||
                 thalweg_group_statistics(g, statistics) || thalweg_define_global(g, "T", THALWEG_FLOAT64, 1, shape);
    for (uint64_t step = first; step < end; step++) {
        thalweg_output *output;
        status = status || thalweg_output_open(&output, session, "plate", file, step == 0 ? THALWEG_WRITE : THALWEG_APPEND) ||
                 thalweg_write_box(output, "T", &box, t) || thalweg_output_close(output);
    }
    return thalweg_session_close(session) || status;
}

int main(int argc, char **argv)
{
#ifdef MPI_VERSION
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &my_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &all_ranks);
#endif
    if (argc < 4) return 2;
    const char *how = argv[1];
    const int each = !strcmp(argv[2], "each"), receives = !strcmp(how, "handler");
    char file[4096];
    if (each)
        snprintf(file, sizeof file, "%s/%s-%d.bp", argv[3], how, my_rank);
    else
        snprintf(file, sizeof file, "%s/%s.bp", argv[3], how);
    struct heard heard = {0, 0, ""};
    if (strcmp(how, "stderr") != 0) thalweg_set_message_handler(hear, &heard);
    if (!strcmp(how, "back")) thalweg_set_message_handler(NULL, NULL);

    /* The first session sets the rank of this process. */
    thalweg_session *session;
    check(!session_open(&session, 0) && !thalweg_session_close(session), "a session of all ranks");
    check(!write_steps(file, each, THALWEG_STATISTICS_FULL, 0, 1) && heard.calls == 0, "a file is begun, without a message");
    check(!write_steps(file, each, THALWEG_STATISTICS_OFF, 1, 3), "a file is continued with other statistics");
    check(heard.calls == (receives && (each || my_rank == 0)), "the handler is called once, on the rank that warns");
    check(heard.calls == 0 ||
              (heard.level == THALWEG_MESSAGE_WARNING &&
               !strcmp(heard.text, "a file keeps the statistics it began with (variable T, file stats=on, asked stats=off)")),
          "with the level and the text");
    thalweg_set_message_handler(NULL, NULL);
#ifdef MPI_VERSION
    MPI_Finalize();
#endif
    return checks_failed != 0;
}
