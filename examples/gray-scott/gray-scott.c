/* gray-scott: reaction and diffusion of two chemicals in a periodic cube, with its output described in gray-scott.xml.
 *
 *   mpiexec -n 4 ./gray-scott --size 64 --steps 1000 --plotgap 100 --checkpoint 500
 *   mpiexec -n 3 ./gray-scott --size 64 --steps 2000 --restart */
#include "output.h"

#include <adios.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct {
    Settings set;
    int steps, plotgap, checkpoint, restart;
    const char *config, *output, *state;
} Options;

static const char *usage =
    "usage: gray-scott [--size CELLS] [--steps N] [--plotgap N] [--checkpoint N] [--restart]\n"
    "                  [--F X] [--k X] [--Du X] [--Dv X] [--dt X] [--noise X]\n"
    "                  [--config gray-scott.xml] [--output gs.bp] [--state restart.bp]\n"
    "Steps are counted from 0, also after --restart: --steps is the last one. A gap of 0 writes nothing.\n";

static double number(const char *option, const char *text)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end) {
        fprintf(stderr, "gray-scott: --%s: '%s' is not a number\n%s", option, text, usage);
        exit(2);
    }
    return value;
}

static int whole(const char *option, const char *text, int least)
{
    char *end;
    long value = strtol(text, &end, 10);
    if (end == text || *end || value < least || value > 1000000000) {
        fprintf(stderr, "gray-scott: --%s: '%s' is not a whole number from %d up\n%s", option, text, least, usage);
        exit(2);
    }
    return (int)value;
}

static Options options(int argc, char **argv)
{
    Options o = {.set = {.size = 64, .F = 0.02, .k = 0.048, .Du = 0.2, .Dv = 0.1, .dt = 1.0, .noise = 0.01},
                 .steps = 1000, .plotgap = 100, .checkpoint = 500,
                 .config = "gray-scott.xml", .output = "gs.bp", .state = "restart.bp"};
    static const struct option known[] = {
        {"size", 1, 0, 'L'}, {"steps", 1, 0, 's'}, {"plotgap", 1, 0, 'p'}, {"checkpoint", 1, 0, 'c'}, {"restart", 0, 0, 'r'},
        {"F", 1, 0, 'F'}, {"k", 1, 0, 'k'}, {"Du", 1, 0, 'u'}, {"Dv", 1, 0, 'v'}, {"dt", 1, 0, 't'}, {"noise", 1, 0, 'n'},
        {"config", 1, 0, 'C'}, {"output", 1, 0, 'O'}, {"state", 1, 0, 'S'}, {0, 0, 0, 0}};
    int which, index = 0;
    while ((which = getopt_long(argc, argv, "", known, &index)) != -1) {
        const char *name = known[index].name;
        switch (which) {
        case 'L': o.set.size = whole(name, optarg, 1); break;
        case 's': o.steps = whole(name, optarg, 0); break;
        case 'p': o.plotgap = whole(name, optarg, 0); break;
        case 'c': o.checkpoint = whole(name, optarg, 0); break;
        case 'r': o.restart = 1; break;
        case 'F': o.set.F = number(name, optarg); break;
        case 'k': o.set.k = number(name, optarg); break;
        case 'u': o.set.Du = number(name, optarg); break;
        case 'v': o.set.Dv = number(name, optarg); break;
        case 't': o.set.dt = number(name, optarg); break;
        case 'n': o.set.noise = number(name, optarg); break;
        case 'C': o.config = optarg; break;
        case 'O': o.output = optarg; break;
        case 'S': o.state = optarg; break;
        default: fputs(usage, stderr); exit(2);
        }
    }
    if (optind < argc) {
        fprintf(stderr, "gray-scott: unknown option '%s'\n%s", argv[optind], usage);
        exit(2);
    }
    return o;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    Options o = options(argc, argv);
    Solver s;
    solver_create(&s, o.set, MPI_COMM_WORLD);
    double *packed = malloc(2 * solver_cells(&s) * sizeof(double)); /* two fields when a restart is read */
    if (!packed) MPI_Abort(s.comm, 1);
    output_check(&s, adios_init(o.config, s.comm), "configuring from", o.config);

    int first = 0, plots = 0;
    OutputMode fields = OUTPUT_NEW, state = OUTPUT_NEW;
    double begin = MPI_Wtime(), writing = 0.0;
    if (o.restart) {
        first = restart_read(&s, packed, o.state);
        fields = state = OUTPUT_APPEND;
        if (s.rank == 0) printf("carrying on from step %d of %s on %d ranks\n", first, o.state, s.ranks);
    } else {
        solver_start(&s);
    }

    for (int step = first; step <= o.steps; step++) {
        if (step > first) {
            adios_start_calculation(); /* from here the network is ours: a method keeps its bytes back */
            solver_step(&s);
            adios_stop_calculation();
        }
        int old = o.restart && step == first; /* the run before wrote this step */
        double before = MPI_Wtime();
        if (!old && o.plotgap && step % o.plotgap == 0) {
            output_fields(&s, step, packed, o.output, fields);
            fields = OUTPUT_APPEND;
            plots++;
        }
        if (!old && o.checkpoint && step > 0 && step % o.checkpoint == 0) {
            output_restart(&s, step, packed, o.state, state);
            state = OUTPUT_APPEND;
        }
        writing += MPI_Wtime() - before;
        adios_end_iteration();
    }
    double before = MPI_Wtime();
    output_check(&s, adios_finalize(s.rank), "finishing", o.output);
    writing += MPI_Wtime() - before;

    double mine[2] = {MPI_Wtime() - begin, writing}, slowest[2];
    MPI_Reduce(mine, slowest, 2, MPI_DOUBLE, MPI_MAX, 0, s.comm);
    uint64_t fingerprint = solver_fingerprint(&s);
    if (s.rank == 0)
        printf("%d ranks, steps %d to %d, %d outputs of fields: %.2f s, of which output %.3f s\n"
               "fingerprint of the final state: %016" PRIx64 "\n",
               s.ranks, first, o.steps, plots, slowest[0], slowest[1], fingerprint);
    free(packed);
    solver_destroy(&s);
    MPI_Finalize();
    return 0;
}
