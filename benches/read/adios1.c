/* Reads what is asked with ADIOS 1.13, from files that Thalweg wrote.
 *
 *   adios1 ARRAY SERIES ASKED ROUNDS */
#include <adios_read.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define MOST 4096

typedef struct {
    char pattern[32];
    uint64_t offset[3], count[3];
} Asked;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double bytes_read(void)
{
    char line[256];
    double bytes = 0;
    FILE *io = fopen("/proc/self/io", "r");
    while (io && fgets(line, sizeof line, io))
        if (sscanf(line, "rchar: %lf", &bytes) == 1) break;
    if (io) fclose(io);
    return bytes;
}

static void check(int wrong)
{
    if (!wrong) return;
    fprintf(stderr, "%s\n", adios_errmsg());
    exit(1);
}

int main(int argc, char **argv)
{
    static Asked asked[MOST];
    int n = 0, rounds = argc == 5 ? atoi(argv[4]) : 0;
    FILE *text = argc == 5 ? fopen(argv[3], "r") : NULL;
    if (!text) return 2;
    while (n < MOST) {
        Asked *a = &asked[n];
        if (fscanf(text, "%31s %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64, a->pattern, a->offset,
                   a->offset + 1, a->offset + 2, a->count, a->count + 1, a->count + 2) != 7)
            break;
        n++;
    }
    fclose(text);
    adios_read_init_method(ADIOS_READ_METHOD_BP, 0, "verbose=1");
    ADIOS_FILE *files[2];
    for (int f = 0; f < 2; f++) {
        files[f] = adios_read_open_file(argv[1 + f], ADIOS_READ_METHOD_BP, 0);
        check(!files[f]);
    }
    uint64_t most = asked[0].count[0] * asked[0].count[1] * asked[0].count[2];
    /* Memory as numpy gives it to the contenders in Python: in huge pages where the machine has them. */
    double *out = mmap(NULL, most * sizeof *out, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(out == MAP_FAILED || madvise(out, most * sizeof *out, MADV_HUGEPAGE));
    for (uint64_t i = 0; i < most; i++) out[i] = 1;
    for (int round = 0; round <= rounds; round++) {
        for (int i = 0; i < n;) {
            double seconds = 0, bytes = 0, sum = 0, before = bytes_read();
            int first = i;
            for (; i < n && !strcmp(asked[i].pattern, asked[first].pattern); i++) {
                Asked *a = &asked[i];
                int series = !strcmp(a->pattern, "series");
                uint64_t one[3] = {1, 1, 1}, elements = a->count[0] * a->count[1] * a->count[2];
                double start = now();
                ADIOS_SELECTION *sel = adios_selection_boundingbox(3, a->offset, series ? one : a->count);
                check(adios_schedule_read(files[series], sel, "v", 0, series ? (int)a->count[0] : 1, out));
                check(adios_perform_reads(files[series], 1));
                adios_selection_delete(sel);
                seconds += now() - start;
                bytes += (double)elements * sizeof *out;
                for (uint64_t k = 0; round == 0 && k < elements; k++) sum += out[k];
            }
            double ratio = (bytes_read() - before) / bytes;
            if (round == 0)
                printf("value ADIOS1:%s:sum %.17g\n", asked[first].pattern, sum);
            else
                printf("value ADIOS1:%s %.9f\nvalue ADIOS1:%s:ratio %.4f\n", asked[first].pattern, seconds, asked[first].pattern,
                       ratio);
        }
    }
    munmap(out, most * sizeof *out);
    for (int f = 0; f < 2; f++) adios_read_close(files[f]);
    adios_read_finalize_method(ADIOS_READ_METHOD_BP);
    return 0;
}
