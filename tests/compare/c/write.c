/* write CASE FILE [XML]: writes one file with the calls of adios.h, described by the XML if there is one. Compiled against
 * ADIOS 1.13 and against Thalweg; what readers say of the two files is compared. Each case is a function below. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mpi.h"
#include "adios.h"

static int rank, size;
static const char *path;

static int64_t group_of(const char *name, enum ADIOS_STATISTICS_FLAG statistics)
{
    int64_t g = 0;
    adios_declare_group(&g, name, "", statistics);
    adios_select_method(g, "MPI", "", "");
    return g;
}

static int64_t open_step(const char *group, int step)
{
    int64_t f = 0;
    adios_open(&f, group, path, step == 0 ? "w" : "a", MPI_COMM_WORLD);
    return f;
}

/* A global array of two dimensions with full statistics, cut along the first; scalars that say where. */
static void global(void)
{
    int64_t g = group_of("global", adios_stat_full);
    adios_define_var(g, "NX", "", adios_integer, "", "", "");
    adios_define_var(g, "nx", "", adios_integer, "", "", "");
    adios_define_var(g, "ox", "", adios_integer, "", "", "");
    adios_define_var(g, "T", "", adios_double, "nx,5", "NX,5", "ox,0");
    adios_define_var(g, "i", "", adios_integer, "5,nx", "5,NX", "0,ox");
    adios_define_attribute(g, "units", "T", adios_string, "K", "");
    adios_define_attribute(g, "deep/er", "T", adios_string, "no attribute of T", "");
    adios_define_attribute(g, "limit", "/", adios_double, "2.5", "");
    for (int step = 0; step < 3; step++) {
        int nx = 3, NX = 3 * size, ox = 3 * rank, i[15];
        double T[15];
        for (int k = 0; k < 15; k++) {
            T[k] = 100 * step + 15 * rank + k + 0.25;
            i[k] = 1000 * rank + 10 * k - step;
        }
        int64_t f = open_step("global", step);
        adios_write(f, "NX", &NX);
        adios_write(f, "nx", &nx);
        adios_write(f, "ox", &ox);
        adios_write(f, "T", T);
        adios_write(f, "i", i);
        adios_close(f);
    }
}

/* Local arrays: as large on each rank, and of a size that each rank has for itself. */
static void local(void)
{
    int64_t g = group_of("local", adios_stat_minmax);
    adios_define_var(g, "n", "", adios_integer, "", "", "");
    adios_define_var(g, "same", "", adios_real, "2,3", "", "");
    adios_define_var(g, "own", "", adios_long, "n", "", "");
    for (int step = 0; step < 2; step++) {
        int n = 2 + rank + step;
        float same[6];
        int64_t own[16];
        for (int k = 0; k < 6; k++) same[k] = (float)(10 * rank + k) + 0.5f * (float)step;
        for (int k = 0; k < n; k++) own[k] = 100 * rank + 10 * step + k;
        int64_t f = open_step("local", step);
        adios_write(f, "n", &n);
        adios_write(f, "same", same);
        adios_write(f, "own", own);
        adios_close(f);
    }
}

/* Texts, and attributes of every shape. */
static void strings(void)
{
    int64_t g = group_of("strings", adios_stat_default);
    adios_define_var(g, "note", "", adios_string, "", "", "");
    adios_define_var(g, "count", "", adios_integer, "", "", "");
    const char *texts[3] = {"one", "", "three, with a comma"};
    const double reals[3] = {1.5, -2, 1e300};
    const int number = -7;
    adios_define_attribute_byvalue(g, "texts", "", adios_string_array, 3, texts);
    adios_define_attribute_byvalue(g, "reals", "/some/path", adios_double, 3, reals);
    adios_define_attribute_byvalue(g, "number", "note", adios_integer, 1, &number);
    adios_define_attribute_byvalue(g, "text", "note", adios_string, 1, "by value");
    adios_define_attribute(g, "byte", "", adios_byte, "-5", "");
    adios_define_attribute(g, "real", "", adios_real, "0.5", "");
    for (int step = 0; step < 2; step++) {
        int count = step + 1;
        int64_t f = open_step("strings", step);
        adios_write(f, "note", step ? "same length" : "eleven char");
        adios_write(f, "count", &count);
        adios_close(f);
    }
}

/* An attribute whose value is that of a variable. */
static void bound(void)
{
    int64_t g = group_of("bound", adios_stat_default);
    adios_define_var(g, "order", "", adios_integer, "", "", "");
    adios_define_var(g, "speed", "", adios_double, "", "", "");
    adios_define_attribute(g, "of order", "", adios_integer, "", "order");
    adios_define_attribute(g, "of speed", "/sub", adios_double, "", "speed");
    int order = 4;
    double speed = 2.75;
    int64_t f = open_step("bound", 0);
    adios_write(f, "order", &order);
    adios_write(f, "speed", &speed);
    adios_close(f);
}

static void complex(void)
{
    int64_t g = group_of("complex", adios_stat_default);
    adios_define_var(g, "n", "", adios_integer, "", "", "");
    adios_define_var(g, "N", "", adios_integer, "", "", "");
    adios_define_var(g, "o", "", adios_integer, "", "", "");
    adios_define_var(g, "c", "", adios_complex, "n", "N", "o");
    adios_define_var(g, "z", "", adios_double_complex, "n", "N", "o");
    int n = 2, N = 2 * size, o = 2 * rank;
    float c[4];
    double z[4];
    for (int k = 0; k < 4; k++) c[k] = (float)(rank + k) - 1.5f, z[k] = 10 * rank - k + 0.125;
    int64_t f = open_step("complex", 0);
    adios_write(f, "n", &n);
    adios_write(f, "N", &N);
    adios_write(f, "o", &o);
    adios_write(f, "c", c);
    adios_write(f, "z", z);
    adios_close(f);
}

/* Each second rank has no element; of local arrays none has any, or the first has none, or the others; of a global array none. */
static void empty(void)
{
    int64_t g = group_of("empty", adios_stat_full);
    adios_define_var(g, "n", "", adios_integer, "", "", "");
    adios_define_var(g, "N", "", adios_integer, "", "", "");
    adios_define_var(g, "o", "", adios_integer, "", "", "");
    adios_define_var(g, "v", "", adios_short, "n,2", "N,2", "o,0");
    adios_define_var(g, "own", "", adios_short, "n", "", "");
    adios_define_var(g, "none", "", adios_double, "0", "", "");
    adios_define_var(g, "square", "", adios_double, "z,z", "", "");
    adios_define_var(g, "later", "", adios_short, "m", "", "");
    adios_define_var(g, "gone", "", adios_short, "z", "z", "z");
    adios_define_var(g, "z", "", adios_integer, "", "", "");
    adios_define_var(g, "m", "", adios_integer, "", "", "");
    int z = 0, m = rank == 0 ? 0 : 4;
    int n = rank % 2 ? 0 : 3, N = 3 * ((size + 1) / 2), o = 3 * ((rank + 1) / 2);
    short v[6];
    for (int k = 0; k < 6; k++) v[k] = (short)(10 * rank + k);
    for (int step = 0; step < 2; step++) {
        int64_t f = open_step("empty", step);
        adios_write(f, "n", &n);
        adios_write(f, "N", &N);
        adios_write(f, "o", &o);
        adios_write(f, "z", &z);
        adios_write(f, "m", &m);
        adios_write(f, "v", v);
        adios_write(f, "own", n ? v : NULL);
        adios_write(f, "none", NULL);
        adios_write(f, "square", v);
        adios_write(f, "later", v);
        adios_write(f, "gone", v);
        adios_close(f);
    }
}

/* One name under several paths. */
static void paths(void)
{
    int64_t g = group_of("paths", adios_stat_default);
    adios_define_var(g, "x", "", adios_integer, "", "", "");
    adios_define_var(g, "x", "/a", adios_integer, "", "", "");
    adios_define_var(g, "x", "/a/b", adios_double, "2", "", "");
    adios_define_var(g, "x", "c", adios_byte, "", "", "");
    adios_define_attribute(g, "unit", "/a/x", adios_string, "m", "");
    adios_define_attribute(g, "unit", "/a/b/x", adios_string, "s", "");
    /* Slashes at the ends of paths, and several in a row. */
    static const char *const odd[][2] = {{"y", "/"}, {"y", "a/"}, {"/z", "/"}, {"/z", "a/"}, {"p//q", ""}, {"//q", ""}};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) adios_define_var(g, odd[i][0], odd[i][1], adios_integer, "", "", "");
    int one = 1, two = 2;
    double three[2] = {3, 3.5};
    signed char four = 4;
    int64_t f = open_step("paths", 0);
    adios_write(f, "x", &one);
    adios_write(f, "/a/x", &two);
    adios_write(f, "/a/b/x", three);
    adios_write(f, "c/x", &four);
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        char full[20];
        int value = 10 + (int)i;
        snprintf(full, sizeof full, "%s%s", odd[i][1], odd[i][0]);
        if (adios_write(f, full, &value)) printf("%s: not written\n", full);
    }
    adios_close(f);
}

/* Two groups, step after step, in one file. */
static void groups(void)
{
    int64_t first = group_of("first", adios_stat_default);
    adios_define_var(first, "a", "", adios_integer, "", "", "");
    adios_define_var(first, "x", "/first", adios_double, "3", "", "");
    adios_define_attribute(first, "who", "/first", adios_string, "the first", "");
    int64_t second = group_of("second", adios_stat_default);
    adios_define_var(second, "b", "", adios_long, "", "", "");
    adios_define_attribute(second, "who", "/second", adios_string, "the second", "");
    for (int step = 0; step < 4; step++) {
        int a = 10 + step;
        int64_t b = -step;
        double x[3] = {step, 0.5, -step};
        int64_t f = open_step(step % 2 ? "second" : "first", step);
        if (step % 2) {
            adios_write(f, "b", &b);
        } else {
            adios_write(f, "a", &a);
            adios_write(f, "/first/x", x);
        }
        adios_close(f);
    }
}

/* Twenty steps, some variables in some of them, an array that grows. */
static void steps(void)
{
    int64_t g = group_of("steps", adios_stat_full);
    adios_define_var(g, "n", "", adios_integer, "", "", "");
    adios_define_var(g, "N", "", adios_integer, "", "", "");
    adios_define_var(g, "o", "", adios_integer, "", "", "");
    adios_define_var(g, "t", "", adios_double, "", "", "");
    adios_define_var(g, "grows", "", adios_unsigned_short, "n", "N", "o");
    adios_define_var(g, "third", "", adios_unsigned_long, "", "", "");
    for (int step = 0; step < 20; step++) {
        int n = 1 + step / 5, N = n * size, o = n * rank;
        double t = 0.5 * step;
        unsigned short grows[8];
        uint64_t third = 1000u + (unsigned)step;
        for (int k = 0; k < n; k++) grows[k] = (unsigned short)(100 * step + 10 * rank + k);
        int64_t f = open_step("steps", step);
        adios_write(f, "n", &n);
        adios_write(f, "N", &N);
        adios_write(f, "o", &o);
        adios_write(f, "t", &t);
        adios_write(f, "grows", grows);
        if (step % 3 == 2) adios_write(f, "third", &third);
        adios_close(f);
    }
}

/* A variable written several times in a step: several blocks of a rank. */
static void blocks(void)
{
    int64_t g = group_of("blocks", adios_stat_default);
    adios_define_var(g, "row", "", adios_integer, "", "", "");
    adios_define_var(g, "rows", "", adios_integer, "", "", "");
    adios_define_var(g, "v", "", adios_double, "1,4", "rows,4", "row,0");
    for (int step = 0; step < 2; step++) {
        int rows = 3 * size;
        int64_t f = open_step("blocks", step);
        adios_write(f, "rows", &rows);
        for (int k = 0; k < 3; k++) {
            int row = 3 * rank + k;
            double v[4] = {row, row + 0.25, row + 0.5, -step};
            adios_write(f, "row", &row);
            adios_write(f, "v", v);
        }
        adios_close(f);
    }
}

/* Every kind of mesh, and variables on them. */
static void meshes(void)
{
    int64_t g = group_of("meshes", adios_stat_default);
    adios_define_schema_version(g, "1.1");
    adios_define_var(g, "nx", "", adios_integer, "", "", "");
    adios_define_var(g, "X", "", adios_double, "4", "4", "0");
    adios_define_var(g, "Y", "", adios_double, "4", "4", "0");
    adios_define_var(g, "XY", "", adios_double, "4,2", "4,2", "0,0");
    adios_define_var(g, "cells", "", adios_integer, "2,3", "2,3", "0,0");
    adios_define_var(g, "v", "", adios_double, "4", "4", "0");
    adios_define_var(g, "w", "", adios_double, "4", "4", "0");
    adios_define_var(g, "u", "", adios_double, "4", "4", "0");
    adios_define_mesh_timevarying("no", g, "even");
    adios_define_mesh_uniform("nx,4", "0.5,1", "2,3", "", "2", g, "even");
    adios_define_mesh_timevarying("no", g, "lines");
    adios_define_mesh_rectilinear("nx,nx", "X,Y", "2", g, "lines");
    adios_define_mesh_timevarying("yes", g, "bent");
    adios_define_mesh_structured("2,2", "XY", "2", g, "bent");
    adios_define_mesh_timevarying("no", g, "triangles");
    adios_define_mesh_unstructured("XY", "cells", "2", "triangle", "4", "2", g, "triangles");
    adios_define_var_mesh(g, "v", "even");
    adios_define_var_centering(g, "v", "point");
    adios_define_var_mesh(g, "w", "triangles");
    adios_define_var_centering(g, "w", "cell");
    int nx = 4, cells[6] = {0, 1, 2, 1, 2, 3};
    double X[4] = {0, 1, 2, 3}, XY[8] = {0, 0, 0, 1, 1, 0, 1, 1};
    int64_t f = open_step("meshes", 0);
    if (rank == 0) {
        adios_write(f, "nx", &nx);
        adios_write(f, "X", X);
        adios_write(f, "Y", X);
        adios_write(f, "XY", XY);
        adios_write(f, "cells", cells);
        adios_write(f, "v", X);
        adios_write(f, "w", X);
        adios_write(f, "u", X);
    }
    adios_close(f);
}

/* A link to a variable of another file, as an application writes one. */
static void links(void)
{
    int64_t g = group_of("links", adios_stat_default);
    adios_define_var(g, "x", "", adios_integer, "", "", "");
    adios_define_attribute(g, "/adios_link/far/ref-num", "", adios_integer, "1", "");
    adios_define_attribute(g, "/adios_link/far/objref0", "", adios_string, "/T", "");
    adios_define_attribute(g, "/adios_link/far/extref0", "", adios_string, "other.bp", "");
    adios_define_attribute(g, "/adios_link/far/type0", "", adios_string, "var", "");
    int x = 1;
    int64_t f = open_step("links", 0);
    adios_write(f, "x", &x);
    adios_close(f);
}

/* Arrays that are stored smaller. */
static void squeezed(void)
{
    int64_t g = group_of("squeezed", adios_stat_minmax);
    adios_define_var(g, "N", "", adios_integer, "", "", "");
    adios_define_var(g, "o", "", adios_integer, "", "", "");
    int64_t z = adios_define_var(g, "z", "", adios_double, "200,2", "N,2", "o,0");
    adios_set_transform(z, "zlib:5");
    int64_t b = adios_define_var(g, "b", "", adios_integer, "200", "N", "o");
    adios_set_transform(b, "bzip2");
    adios_define_var(g, "plain", "", adios_integer, "200", "N", "o");
    for (int step = 0; step < 2; step++) {
        int N = 200 * size, o = 200 * rank, n[200];
        double v[400];
        for (int k = 0; k < 400; k++) v[k] = 200 * rank + k / 10 + step;
        for (int k = 0; k < 200; k++) n[k] = rank + k / 50 - step;
        int64_t f = open_step("squeezed", step);
        adios_write(f, "N", &N);
        adios_write(f, "o", &o);
        adios_write(f, "z", v);
        adios_write(f, "b", n);
        adios_write(f, "plain", n);
        adios_close(f);
    }
}

/* Every transform that both have, chosen in transforms.xml. */
static void transforms(void)
{
    static const char *const reals[] = {"plain",         "identity", "zlib",     "bzip2",         "lz4",
                                        "blosc",         "shuffled", "accurate", "precise",       "rated"};
    for (int step = 0; step < 2; step++) {
        int n = 20, N = 20 * size, o = 20 * rank;
        double v[800];
        float f[20];
        int64_t whole[400];
        for (int k = 0; k < 800; k++) v[k] = 0.125 * (k / 40) + rank + 10 * step;
        for (int k = 0; k < 20; k++) f[k] = (float)(k + rank) * 0.5f;
        for (int k = 0; k < 400; k++) whole[k] = 1000 * rank + k / 20 - step;
        int64_t file = open_step("transforms", step);
        adios_write(file, "n", &n);
        adios_write(file, "N", &N);
        adios_write(file, "o", &o);
        for (size_t i = 0; i < sizeof reals / sizeof *reals; i++) adios_write(file, reals[i], v);
        adios_write(file, "single", f);
        adios_write(file, "whole", whole);
        adios_write(file, "local", whole);
        adios_close(file);
    }
}

/* Arrays joined over time: a time dimension, which a block has one element of. */
static void joined(void)
{
    int64_t g = 0;
    adios_declare_group(&g, "joined", "iteration", adios_stat_full);
    adios_select_method(g, "MPI", "", "");
    adios_define_var(g, "n", "", adios_integer, "", "", "");
    adios_define_var(g, "N", "", adios_integer, "", "", "");
    adios_define_var(g, "o", "", adios_integer, "", "", "");
    adios_define_var(g, "field", "", adios_double, "iteration,n,2", "N,2", "o,0");
    adios_define_var(g, "line", "", adios_integer, "iteration,n", "N", "o");
    adios_define_var(g, "own", "", adios_real, "iteration,3", "", "");
    for (int step = 0; step < 5; step++) {
        int n = 2, N = 2 * size, o = 2 * rank, line[2];
        double field[4];
        float own[3];
        for (int k = 0; k < 4; k++) field[k] = 100 * step + 4 * rank + k + 0.5;
        for (int k = 0; k < 2; k++) line[k] = 10 * step - 2 * rank - k;
        for (int k = 0; k < 3; k++) own[k] = (float)(10 * step + rank) + 0.25f * (float)k;
        int64_t f = open_step("joined", step);
        adios_write(f, "n", &n);
        adios_write(f, "N", &N);
        adios_write(f, "o", &o);
        adios_write(f, "field", field);
        adios_write(f, "line", line);
        adios_write(f, "own", own);
        adios_close(f);
    }
}

/* A variable on a mesh that lies in another file: the one that `meshes` writes, whose name has the same end. */
static void far_mesh(void)
{
    int64_t g = group_of("far_mesh", adios_stat_default);
    char other[1000];
    snprintf(other, sizeof other, "meshes%s", path + strlen("far_mesh"));
    adios_define_schema_version(g, "1.1");
    adios_define_var(g, "v", "", adios_double, "4", "4", "0");
    adios_define_mesh_file(g, "even", other);
    adios_define_var_mesh(g, "v", "even");
    double v[4] = {1, 2, 3, 4};
    int64_t f = open_step("far_mesh", 0);
    if (rank == 0) adios_write(f, "v", v);
    adios_close(f);
}

/* Every choice of statistics, in statistics.xml and in calls: a group each, a step after the other. */
static void statistics(void)
{
    static const char *const in_xml[] = {"absent", "off", "on", "full", "standard", "bounds"};
    static const struct {
        const char *name;
        enum ADIOS_STATISTICS_FLAG choice;
    } in_calls[] = {{"call_no", adios_stat_no},
                    {"call_minmax", adios_stat_minmax},
                    {"call_full", adios_stat_full},
                    {"call_default", adios_stat_default}};
    static const char *const names[] = {"NX", "nx", "ox", "T", "zlib", "own", "one", "text"};
    enum { xml = sizeof in_xml / sizeof *in_xml, calls = sizeof in_calls / sizeof *in_calls };
    for (int k = 0; k < calls; k++) {
        int64_t g = group_of(in_calls[k].name, in_calls[k].choice);
        char n[8][100], nx[300], NX[300], ox[300];
        for (int i = 0; i < 8; i++) snprintf(n[i], sizeof n[i], "%s/%s", in_calls[k].name, names[i]);
        snprintf(NX, sizeof NX, "%s,2", n[0]);
        snprintf(nx, sizeof nx, "%s,2", n[1]);
        snprintf(ox, sizeof ox, "%s,0", n[2]);
        for (int i = 0; i < 3; i++) adios_define_var(g, n[i], "", adios_integer, "", "", "");
        adios_define_var(g, n[3], "", adios_double, nx, NX, ox);
        adios_set_transform(adios_define_var(g, n[4], "", adios_double, nx, NX, ox), "zlib");
        adios_define_var(g, n[5], "", adios_unsigned_long, n[1], "", "");
        adios_define_var(g, n[6], "", adios_short, "1", "", "");
        adios_define_var(g, n[7], "", adios_string, "", "", "");
    }
    for (int step = 0; step < xml + calls; step++) {
        const char *group = step < xml ? in_xml[step] : in_calls[step - xml].name;
        int nx = 3, NX = 3 * size, ox = 3 * rank;
        double T[6];
        uint64_t own[3];
        short one = (short)(rank - step);
        for (int k = 0; k < 6; k++) T[k] = 10 * step + 6 * rank + k + 0.25;
        for (int k = 0; k < 3; k++) own[k] = (uint64_t)(100 * rank + 10 * k + step);
        const void *values[] = {&NX, &nx, &ox, T, T, own, &one, "some words"};
        int64_t f = open_step(group, step);
        for (int i = 0; i < 8; i++) {
            char name[100];
            snprintf(name, sizeof name, "%s/%s", group, names[i]);
            adios_write(f, name, values[i]);
        }
        adios_close(f);
    }
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {{"global", global}, {"local", local},   {"strings", strings}, {"bound", bound},   {"complex", complex},
             {"empty", empty},   {"paths", paths},   {"groups", groups},   {"steps", steps},   {"blocks", blocks},
             {"meshes", meshes}, {"links", links},   {"squeezed", squeezed},
             {"transforms", transforms}, {"joined", joined}, {"far_mesh", far_mesh},
             {"statistics", statistics}};

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc < 3) return 2;
    path = argv[2];
    if (argc > 3) {
        adios_init(argv[3], MPI_COMM_WORLD);
    } else {
        adios_init_noxml(MPI_COMM_WORLD);
        adios_set_max_buffer_size(10);
    }
    int found = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (strcmp(argv[1], cases[i].name) == 0) cases[i].run(), found = 1;
    adios_finalize(rank);
    MPI_Finalize();
    return found ? 0 : 2;
}
