/* The same bytes by the same ranks with one pwrite each: into one file, or into a file each. */
#include "world.h"

#include <fcntl.h>

static void write_here(const World *w, const Load *load, int fd, uint64_t offset)
{
    uint64_t bytes = load->variables * values(load) * sizeof(double);
    for (uint64_t done = 0; done < bytes;) {
        ssize_t n = pwrite(fd, (const char *)w->data + done, bytes - done, (off_t)(offset + done));
        if (n <= 0) stop(w, "pwrite", strerror(errno));
        done += (uint64_t)n;
    }
    if (close(fd)) stop(w, "close", strerror(errno));
}

static uint64_t place(const World *w, const Load *load) { return (uint64_t)w->rank * load->variables * values(load) * sizeof(double); }

static void write_shared(const World *w, const Load *load, const char *name, const char *path)
{
    (void)name;
    int fd = -1;
    if (w->rank == 0) fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    MPI_Barrier(w->comm);
    if (w->rank != 0) fd = open(path, O_WRONLY);
    if (fd < 0) stop(w, path, strerror(errno));
    write_here(w, load, fd, place(w, load));
}

static void write_each(const World *w, const Load *load, const char *name, const char *path)
{
    (void)name;
    char own[4096];
    snprintf(own, sizeof own, "%s.%d", path, w->rank);
    int fd = open(own, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (fd < 0) stop(w, own, strerror(errno));
    write_here(w, load, fd, 0);
}

static void read_from(const World *w, const Load *load, const char *path, uint64_t start, int variable, double *into)
{
    uint64_t bytes = values(load) * sizeof(double);
    int fd = open(path, O_RDONLY);
    for (uint64_t done = 0; done < bytes;) {
        ssize_t n = pread(fd, (char *)into + done, bytes - done, (off_t)(start + variable * bytes + done));
        if (n <= 0) stop(w, path, "cannot be read back");
        done += (uint64_t)n;
    }
    close(fd);
}

static void read_shared(const World *w, const Load *load, const char *path, int variable, double *into)
{
    read_from(w, load, path, place(w, load), variable, into);
}

static void read_each(const World *w, const Load *load, const char *path, int variable, double *into)
{
    char own[4096];
    snprintf(own, sizeof own, "%s.%d", path, w->rank);
    read_from(w, load, own, 0, variable, into);
}

int main(int argc, char **argv)
{
    World w = world_begin(&argc, &argv);
    static const Contender all[2] = {{"shared", write_shared, read_shared}, {"each", write_each, read_each}};
    take_turns(&w, argv, all, 2);
    free(w.data);
    MPI_Finalize();
    return 0;
}
