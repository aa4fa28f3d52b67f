/* Ten thousand times: a file opened, looked at, read, closed; an output written now and then. Memory does not grow. */
#include <stdio.h>
#include <thalweg.h>
#include <unistd.h>

static long resident_bytes(void)
{
    long all = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%ld %ld", &all, &resident) != 2) return -1;
    fclose(f);
    return resident * sysconf(_SC_PAGESIZE);
}

static int write_file(void)
{
    thalweg_session *session;
    thalweg_group *group;
    thalweg_output *output;
    const uint64_t shape[1] = {100};
    double t[100] = {1.0};
    return thalweg_session_open(&session, NULL) || thalweg_group_declare(&group, session, "g") ||
           thalweg_group_method(group, "MPI", NULL, NULL) || thalweg_define_global(group, "t", THALWEG_FLOAT64, 1, shape) ||
           thalweg_define_attribute(group, "t/units", THALWEG_STRING, 1, "K") ||
           thalweg_output_open(&output, session, "g", "cycles.bp", THALWEG_WRITE) || thalweg_write(output, "t", t) ||
           thalweg_output_close(output) || thalweg_session_close(session);
}

static int read_file(void)
{
    thalweg_reader *reader;
    const thalweg_variable *variable;
    const thalweg_attribute *attribute;
    thalweg_blocks *blocks;
    double t[100], also[100];
    if (thalweg_reader_open(&reader, "cycles.bp")) return 1;
    int failed = thalweg_reader_variable(reader, "t", &variable) || thalweg_reader_attribute(reader, "t/units", &attribute) ||
                 thalweg_reader_blocks(reader, "t", -1, &blocks) || thalweg_read(reader, "t", -1, NULL, t, sizeof t) ||
                 thalweg_get_deferred(reader, &(thalweg_request){.name = "t", .data = also, .bytes = sizeof also}) ||
                 thalweg_perform(reader) || also[0] != 1.0;
    failed = failed || thalweg_read(reader, "u", -1, NULL, t, sizeof t) != THALWEG_NOT_FOUND; /* errors leave nothing behind either */
    thalweg_blocks_free(blocks);
    thalweg_reader_close(reader);
    return failed;
}

int main(void)
{
    long before = 0;
    for (int n = 0; n < 10000; n++) {
        if ((n % 100 == 0 && write_file()) || read_file()) {
            fprintf(stderr, "cycle %d: %s\n", n, thalweg_last_error()->text);
            return 1;
        }
        if (n == 1000) before = resident_bytes();
    }
    const long grown = resident_bytes() - before;
    printf("%s 9,000 cycles leave nothing behind: %ld KiB\n", before > 0 && grown < (1 << 20) ? "ok" : "not ok", grown / 1024);
    return 0;
}
