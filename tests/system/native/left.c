/* Programs that end without having closed what they opened: left HOW FILE, with HOW one of
 *   return      a step is open when main returns
 *   exit        exit is called
 *   drop        thalweg_session_drop, no output open
 *   adios       adios_finalize is never called, a file is open
 *   child       a child made by fork exits, then the parent goes on and closes
 * Each has closed 20 steps of one number, `n`. */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "adios.h"
#include <stdio.h>
#include <thalweg.h>

enum { STEPS = 20 };

static void must(int status, const char *what)
{
    if (!status) return;
    fprintf(stderr, "%s: %s\n", what, thalweg_last_error()->text);
    _exit(9);
}

static thalweg_session *begin(void)
{
    thalweg_session *session;
    thalweg_group *group;
    must(thalweg_session_open(&session, NULL), "session");
    must(thalweg_group_declare(&group, session, "g"), "group");
    must(thalweg_group_method(group, "MPI", NULL, NULL), "method");
    must(thalweg_define_scalar(group, "n", THALWEG_INT32), "define");
    must(thalweg_define_local(group, "boxed", THALWEG_FLOAT64, 1), "define");
    must(thalweg_define_global(group, "shaped", THALWEG_FLOAT64, 1, NULL), "define");
    return session;
}

static thalweg_output *step(thalweg_session *session, const char *file, int n)
{
    thalweg_output *output;
    int wrong = -1;
    double value = 0;
    must(thalweg_output_open(&output, session, "g", file, n ? THALWEG_APPEND : THALWEG_WRITE), "open");
    must(thalweg_write(output, "n", &wrong), "write");
    /* The last value counts. */
    must(thalweg_write(output, "n", &n), "write");
    /* What only a box describes is refused without it. */
    if (!thalweg_write(output, "boxed", &value) || !thalweg_write_deferred(output, "shaped", &value)) _exit(8);
    if (!strstr(thalweg_last_error()->text, "needs a box")) _exit(7);
    return output;
}

static void steps(thalweg_session *session, const char *file, int from, int to)
{
    for (int n = from; n < to; n++) must(thalweg_output_close(step(session, file, n)), "close");
}

int main(int argc, char **argv)
{
    if (argc != 3) return 2;
    const char *how = argv[1], *file = argv[2];
    if (!strcmp(how, "adios")) {
        int64_t group, handle;
        adios_init_noxml(0);
        adios_declare_group(&group, "g", "", adios_stat_no);
        adios_select_method(group, "MPI", "", "");
        adios_define_var(group, "n", "", adios_integer, "", "", "");
        for (int n = 0; n <= STEPS; n++) {
            int wrong = -1;
            if (adios_open(&handle, "g", file, n ? "a" : "w", 0)) return 9;
            if (adios_write(handle, "n", &wrong) || adios_write(handle, "n", &n)) return 9;
            if (n < STEPS && adios_close(handle)) return 9;
        }
        return 0;
    }
    thalweg_session *session = begin();
    if (!strcmp(how, "child")) {
        steps(session, file, 0, STEPS / 2);
        pid_t child = fork();
        if (child == 0) exit(0);
        int status;
        if (waitpid(child, &status, 0) != child || status) return 9;
        steps(session, file, STEPS / 2, STEPS);
        must(thalweg_session_close(session), "close the session");
        return 0;
    }
    steps(session, file, 0, STEPS);
    if (!strcmp(how, "drop")) {
        thalweg_session_drop(session);
        _exit(0);
    }
    step(session, file, STEPS);
    if (!strcmp(how, "exit")) exit(0);
    return 0;
}
