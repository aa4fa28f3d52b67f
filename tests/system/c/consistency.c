/* consistency FILE: under consistency=full ranks that disagree get an error on all of them, with the words that name who differs in
 * what, from adios.h and from thalweg.h; and the next output is written. Needs two ranks. */
#include "check.h"

#include <stdlib.h>
#include <string.h>
#include <thalweg.h>
#include <unistd.h>

static int rank, ranks;
static const char *file;
static char other_file[1024];

/* What a rank opens and writes. */
typedef struct {
    const char *group, *path, *mode;
    int columns;
} Asked;

static void must(int status, const char *doing)
{
    if (status == 0) return;
    fprintf(stderr, "rank %d: %s: %s\n", rank, doing, thalweg_last_error()->text);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static int says(const char *text, const char *word) { return strstr(text, word) != NULL; }

/* By adios.h: what open or close returned. */
static int by_adios(const Asked *asked)
{
    int64_t fd;
    double row[5] = {rank, rank, rank, rank, rank};
    int opened = adios_open(&fd, asked->group, asked->path, asked->mode, MPI_COMM_WORLD);
    if (opened) return opened;
    adios_write(fd, "rows", &ranks);
    adios_write(fd, "columns", &asked->columns);
    adios_write(fd, "rank", &rank);
    adios_write(fd, "t", row);
    return adios_close(fd);
}

static thalweg_session *session;

/* By thalweg.h. */
static int by_thalweg(const Asked *asked)
{
    thalweg_output *output;
    double row[5] = {rank, rank, rank, rank, rank};
    int opened = thalweg_output_open_mpi(&output, session, asked->group, asked->path,
                                         asked->mode[0] == 'w' ? THALWEG_WRITE : THALWEG_APPEND, MPI_COMM_WORLD);
    if (opened) return opened;
    thalweg_write(output, "rows", &ranks);
    thalweg_write(output, "columns", &asked->columns);
    thalweg_write(output, "rank", &rank);
    thalweg_write(output, "t", row);
    return thalweg_output_close(output);
}

typedef struct {
    const char *name;
    int (*output)(const Asked *);
    const char *(*text)(void);
    int number;
} Interface;

static const char *text_of_adios(void) { return adios_get_last_errmsg(); }
static const char *text_of_thalweg(void) { return thalweg_last_error()->text; }

static const Interface interfaces[] = {
    {"adios.h", by_adios, text_of_adios, err_invalid_argument},
    {"thalweg.h", by_thalweg, text_of_thalweg, THALWEG_INVALID_ARGUMENT},
};

/* The last rank asks for something else: all ranks get the number, and the text with all words. */
static void differs(const Interface *by, const char *method, const char *what, Asked odd, const char *words[], int count)
{
    char name[200];
    Asked usual = {"a", file, "a", 4};
    const Asked *asked = rank == ranks - 1 ? &odd : &usual;
    int status = by->output(asked), said = 1;
    for (int i = 0; i < count; i++) said = said && says(by->text(), words[i]);
    if (!said) fprintf(stderr, "rank %d: %s\n", rank, by->text());
    snprintf(name, sizeof name, "%s, %s: ranks that differ in %s are told so, all of them", by->name, method, what);
    check(MPI_COMM_WORLD, status == by->number && said, name);
    snprintf(name, sizeof name, "%s, %s: no other file is made where ranks differ in %s", by->name, method, what);
    MPI_Barrier(MPI_COMM_WORLD);
    check(MPI_COMM_WORLD, access(other_file, F_OK) != 0, name);
    snprintf(name, sizeof name, "%s, %s: the next output after %s", by->name, method, what);
    check(MPI_COMM_WORLD, by->output(&usual) == 0, name);
}

static void all_differences(const Interface *by, const char *method)
{
    char name[200], shape[40], other_shape[40], on[40], paths[3000];
    Asked first = {"a", file, "w", 4};
    snprintf(name, sizeof name, "%s, %s: ranks that agree write", by->name, method);
    check(MPI_COMM_WORLD, by->output(&first) == 0, name);
    snprintf(on, sizeof on, "\"b\" on rank %d", ranks - 1);
    differs(by, method, "the group", (Asked){"b", file, "a", 4}, (const char *[]){"different outputs: group", "\"a\" on rank 0", on}, 3);
    snprintf(on, sizeof on, "\"w\" on rank %d", ranks - 1);
    differs(by, method, "the mode", (Asked){"a", file, "w", 4}, (const char *[]){"different outputs: mode", "\"a\" on rank 0", on}, 3);
    snprintf(paths, sizeof paths, "\"%s\" on rank 0, \"%s\" on rank %d", file, other_file, ranks - 1);
    differs(by, method, "the path", (Asked){"a", other_file, "a", 4}, (const char *[]){"different outputs: path", paths}, 2);
    snprintf(shape, sizeof shape, "[%d, 4] on rank 0", ranks);
    snprintf(other_shape, sizeof other_shape, "[%d, 5] on rank %d", ranks, ranks - 1);
    differs(by, method, "a shape", (Asked){"a", file, "a", 5}, (const char *[]){"\"t\"", shape, other_shape}, 3);
}

/* Steps that are whole: the first, and one after each of four differences. */
static void steps(const Interface *by, const char *method)
{
    char name[200];
    int64_t found = -1;
    if (rank == 0) {
        thalweg_reader *reader;
        must(thalweg_reader_open(&reader, file), "thalweg_reader_open");
        thalweg_file_info info;
        must(thalweg_reader_info(reader, &info), "thalweg_reader_info");
        found = (int64_t)info.steps;
        thalweg_reader_close(reader);
    }
    MPI_Bcast(&found, 1, MPI_INT64_T, 0, MPI_COMM_WORLD);
    snprintf(name, sizeof name, "%s, %s: the steps on which ranks agreed are there, and no others", by->name, method);
    check(MPI_COMM_WORLD, found == 5, name);
}

static void one_method(const char *method, int by_environment)
{
    static char xml[4000];
    const char *consistency = by_environment ? "" : "consistency=full";
    char shown[100];
    snprintf(shown, sizeof shown, "%s%s", method, by_environment ? " by THALWEG_CONSISTENCY" : "");
    snprintf(xml, sizeof xml,
             "<adios-config host-language=\"C\"><adios-group name=\"a\"><var name=\"rows\" type=\"integer\"/>"
             "<var name=\"columns\" type=\"integer\"/><var name=\"rank\" type=\"integer\"/>"
             "<global-bounds dimensions=\"rows,columns\" offsets=\"rank,0\"><var name=\"t\" type=\"double\" dimensions=\"1,columns\"/>"
             "</global-bounds></adios-group><adios-group name=\"b\"><var name=\"rows\" type=\"integer\"/></adios-group>"
             "<method group=\"a\" method=\"%s\">%s</method><method group=\"b\" method=\"%s\">%s</method></adios-config>\n",
             method, consistency, method, consistency);
    if (rank == 0) {
        FILE *out = fopen("consistency.xml", "w");
        fputs(xml, out);
        fclose(out);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (by_environment) setenv("THALWEG_CONSISTENCY", "full", 1);
    must(adios_init("consistency.xml", MPI_COMM_WORLD), "adios_init");
    all_differences(&interfaces[0], shown);
    must(adios_finalize(rank), "adios_finalize");
    steps(&interfaces[0], shown);
    must(thalweg_session_open_text_mpi(&session, xml, NULL, MPI_COMM_WORLD), "thalweg_session_open_text_mpi");
    all_differences(&interfaces[1], shown);
    must(thalweg_session_close(session), "thalweg_session_close");
    steps(&interfaces[1], shown);
    unsetenv("THALWEG_CONSISTENCY");
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc != 2 || ranks < 2) return 2;
    file = argv[1];
    snprintf(other_file, sizeof other_file, "other-%s", file);
    one_method("MPI", 0);
    one_method("POSIX", 0);
    one_method("MPI_AGGREGATE", 0);
    one_method("MPI", 1);
    MPI_Finalize();
    return checks_failed != 0;
}
