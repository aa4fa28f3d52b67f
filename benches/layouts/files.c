/* Writes and reads files, and says how long it took: through the system's calls, or with -DTHALWEG_CALLS through thalweg_file_.
 *
 *   strided NAME PATH UNIT ROUNDS CHECK   all ranks write records of UNIT bytes in turn into one file, then each reads another's
 *   stream NAME PATH MIB CHECK            one rank writes a file in pieces of 1 MiB and reads it
 *   small NAME FOLDER COUNT SIZE          one rank makes files in a new folder
 *
 * Times are from before the first open until after the last close. Caches are dropped before reading where that is allowed.
 * With -DTHALWEG_CALLS files are opened through mounts, else by the system: bare, or through a door. */
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int rank, ranks;

static void stop(const char *doing, const char *why)
{
    fprintf(stderr, "rank %d: %s: %s\n", rank, doing, why);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

#ifdef THALWEG_CALLS
#include "thalweg.h"
typedef thalweg_file *File;

static void must(int outcome, const char *doing)
{
    if (outcome) stop(doing, thalweg_last_error()->text);
}
static File make(const char *path)
{
    File file = NULL;
    must(thalweg_file_open(&file, path, THALWEG_FILE_WRITE | THALWEG_FILE_CREATE, (uint32_t)rank), path);
    return file;
}
static File look(const char *path)
{
    File file = NULL;
    must(thalweg_file_open(&file, path, THALWEG_FILE_READ, 0), path);
    return file;
}
static void put(File file, const void *data, uint64_t bytes, uint64_t offset) { must(thalweg_file_write(file, data, bytes, offset), "write"); }
static void get(File file, void *data, uint64_t bytes, uint64_t offset) { must(thalweg_file_read(file, data, bytes, offset, NULL), "read"); }
static void end(File file) { must(thalweg_file_close(file), "close"); }
static void drop(const char *path) { must(thalweg_file_unlink(path), path); }
static void make_folder(const char *path) { must(thalweg_file_make_folder(path), path); }
#else
typedef int File;

static File opened(const char *path, int flags)
{
    int fd = open(path, flags, 0644);
    if (fd < 0) stop(path, strerror(errno));
    return fd;
}
static File make(const char *path) { return opened(path, O_WRONLY | O_CREAT); }
static File look(const char *path) { return opened(path, O_RDONLY); }
static void put(File file, const void *data, uint64_t bytes, uint64_t offset)
{
    for (uint64_t done = 0; done < bytes;) {
        ssize_t n = pwrite(file, (const char *)data + done, bytes - done, (off_t)(offset + done));
        if (n <= 0) stop("write", strerror(errno));
        done += (uint64_t)n;
    }
}
static void get(File file, void *data, uint64_t bytes, uint64_t offset)
{
    for (uint64_t done = 0; done < bytes;) {
        ssize_t n = pread(file, (char *)data + done, bytes - done, (off_t)(offset + done));
        if (n <= 0) stop("read", n ? strerror(errno) : "the file ends");
        done += (uint64_t)n;
    }
}
static void end(File file)
{
    if (close(file)) stop("close", strerror(errno));
}
static void drop(const char *path)
{
    if (unlink(path)) stop(path, strerror(errno));
}
static void make_folder(const char *path)
{
    if (mkdir(path, 0755)) stop(path, strerror(errno));
}
#endif

/* As all ranks see it. */
static double now(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
    return MPI_Wtime();
}

static void say(const char *name, const char *what, double value)
{
    if (rank == 0) printf("value %s/%s %.9f\n", name, what, value);
}

static void drop_caches(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        sync();
        int fd = open("/proc/sys/vm/drop_caches", O_WRONLY);
        if (fd >= 0) {
            if (write(fd, "1", 1) < 0) perror("drop_caches");
            close(fd);
        }
    }
}

static unsigned char *pattern(uint64_t bytes)
{
    unsigned char *data = malloc(bytes + 256);
    if (!data) stop("memory", "for the data");
    for (uint64_t i = 0; i < bytes + 256; i++) data[i] = (unsigned char)((i * 2654435761u) >> 13);
    return data;
}

/* The bytes of a record begin elsewhere in the pattern for each record. */
static const unsigned char *record(const unsigned char *data, uint64_t number) { return data + number * 37 % 256; }

static void strided(const char *name, const char *path, uint64_t unit, uint64_t rounds, int check)
{
    unsigned char *data = pattern(unit), *back = malloc(unit);
    double start = now();
    /* One makes it, then all open it, as codes do. */
    if (rank != 0) MPI_Barrier(MPI_COMM_WORLD);
    File file = make(path);
    if (rank == 0) MPI_Barrier(MPI_COMM_WORLD);
    double opened = now();
    for (uint64_t round = 0; round < rounds; round++) {
        uint64_t number = round * (uint64_t)ranks + (uint64_t)rank;
        put(file, record(data, number), unit, number * unit);
    }
    double filled = now();
    end(file);
    double closed = now();
    say(name, "write", closed - start);
    say(name, "write-open", opened - start);
    say(name, "write-fill", filled - opened);
    say(name, "write-close", closed - filled);
    drop_caches();
    start = now();
    file = look(path);
    for (uint64_t round = 0; round < rounds; round++) {
        uint64_t number = round * (uint64_t)ranks + (uint64_t)((rank + 1) % ranks);
        get(file, back, unit, number * unit);
        if (check && memcmp(back, record(data, number), unit)) stop(path, "other bytes than were written");
    }
    end(file);
    say(name, "read", now() - start);
    if (rank == 0) drop(path);
    free(data);
    free(back);
}

static void stream(const char *name, const char *path, uint64_t mib, int check)
{
    const uint64_t piece = 1 << 20;
    unsigned char *data = pattern(piece), *back = malloc(piece);
    double start = now();
    File file = make(path);
    for (uint64_t i = 0; i < mib; i++) put(file, record(data, i), piece, i * piece);
    end(file);
    say(name, "write", now() - start);
    start = now();
    file = look(path);
    for (uint64_t i = 0; i < mib; i++) {
        get(file, back, piece, i * piece);
        if (check && memcmp(back, record(data, i), piece)) stop(path, "other bytes than were written");
    }
    end(file);
    say(name, "read", now() - start);
    drop(path);
    free(data);
    free(back);
}

static void small(const char *name, const char *folder, uint64_t count, uint64_t size)
{
    char path[4096];
    unsigned char *data = pattern(size);
    make_folder(folder);
    double start = now();
    for (uint64_t i = 0; i < count; i++) {
        snprintf(path, sizeof path, "%s/file.%llu", folder, (unsigned long long)i);
        File file = make(path);
        put(file, record(data, i), size, 0);
        end(file);
    }
    say(name, "make", now() - start);
    free(data);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc < 4) stop("arguments", "COMMAND NAME PATH ...");
    unsigned long long n[3] = {0, 0, 0};
    for (int i = 4; i < argc && i < 7; i++) n[i - 4] = strtoull(argv[i], NULL, 10);
    if (!strcmp(argv[1], "strided")) strided(argv[2], argv[3], n[0], n[1], (int)n[2]);
    else if (!strcmp(argv[1], "stream")) stream(argv[2], argv[3], n[0], (int)n[1]);
    else if (!strcmp(argv[1], "small")) small(argv[2], argv[3], n[0], n[1]);
    else stop("arguments", argv[1]);
    return MPI_Finalize();
}
