/* follow FILE STEPS RANKS: reads as a stream what slow.c writes meanwhile, on any number of ranks; waits for the file first.
 * STEPS: how many must come before the stream ends; RANKS: how many write. */
#include <stdint.h>
#include <stdlib.h>

#include "adios_read.h"
#include "check.h"

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    if (argc != 4) return 2;
    int steps = atoi(argv[2]), ranks = atoi(argv[3]), good = 1, came = 0, waited = 0, code = 0;
    adios_read_init_method(ADIOS_READ_METHOD_BP, MPI_COMM_WORLD, "quiet; poll_interval=20");
    ADIOS_FILE *f = adios_read_open(argv[1], ADIOS_READ_METHOD_BP, MPI_COMM_WORLD, ADIOS_LOCKMODE_CURRENT, 20.0f);
    check(MPI_COMM_WORLD, f != NULL, "a stream opens when its first step is there");
    if (!f) exit(1);
    check(MPI_COMM_WORLD, f->current_step == 0, "at its first step");
    do {
        if (code == 0) {
            int v[16] = {0}, step = -1, start_step = f->current_step;
            adios_schedule_read(f, NULL, "v", 0, 1, v);
            adios_schedule_read(f, NULL, "step", 0, 1, &step);
            good &= adios_perform_reads(f, 1) == 0 && step == start_step && start_step == came;
            for (int i = 0; i < 2 * ranks; i++) good &= v[i] == 100 * start_step + i;
            ADIOS_VARINFO *even = adios_inq_var(f, "even");
            good &= (even != NULL) == (start_step % 2 == 0);
            adios_free_varinfo(even);
            came++;
        } else {
            waited++;
        }
        code = adios_advance_step(f, 0, 0.05f);
    } while (code == 0 || (code == err_step_notready && waited < 400));
    check(MPI_COMM_WORLD, good, "every step comes, with its values and no others");
    check(MPI_COMM_WORLD, code == err_end_of_stream, "the stream ends when its writer is done, or gone");
    check(MPI_COMM_WORLD, came == steps, "after the last step");
    check(MPI_COMM_WORLD, waited > 0, "steps that were not there yet were waited for");
    adios_read_close(f);
    adios_read_finalize_method(ADIOS_READ_METHOD_BP);
    MPI_Finalize();
    return checks_failed != 0;
}
