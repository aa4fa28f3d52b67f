/* Opens a file with ADIOS 1.13 and lists all blocks of one variable.
 *
 *   adios1 FILE VARIABLE LABEL */
#include <adios_read.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* A field of /proc/self/status, in bytes. */
static long field(const char *name)
{
    char line[256];
    long kib = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        if (!strncmp(line, name, strlen(name))) sscanf(line + strlen(name) + 1, "%ld", &kib);
    if (status) fclose(status);
    return 1024 * kib;
}

int main(int argc, char **argv)
{
    if (argc != 4) return 2;
    adios_read_init_method(ADIOS_READ_METHOD_BP, 0, "");
    long memory = field("VmRSS");
    double before = now();
    ADIOS_FILE *file = adios_read_open_file(argv[1], ADIOS_READ_METHOD_BP, 0);
    double opened = now() - before;
    if (!file) {
        fprintf(stderr, "%s\n", adios_errmsg());
        return 1;
    }
    ADIOS_VARINFO *v = adios_inq_var(file, argv[2]);
    if (!v || adios_inq_var_blockinfo(file, v)) {
        fprintf(stderr, "%s\n", adios_errmsg());
        return 1;
    }
    uint64_t sum = 0;
    for (int b = 0; b < v->sum_nblocks; b++) sum += v->blockinfo[b].start[0] + v->blockinfo[b].count[0];
    double listed = now() - before;
    printf("value %s:open %.9f\nvalue %s:list %.9f\n", argv[3], opened, argv[3], listed);
    printf("value %s:memory %ld\n", argv[3], field("VmHWM") - memory);
    printf("value %s:blocks %d\nvalue %s:sum %" PRIu64 "\n", argv[3], v->sum_nblocks, argv[3], sum);
    adios_free_varinfo(v);
    adios_read_close(file);
    adios_read_finalize_method(ADIOS_READ_METHOD_BP);
    return 0;
}
