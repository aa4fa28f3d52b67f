/* thalweg_file_ calls on a mount: files COMMAND PATH ARGUMENTS. Prints lines "ok X" and "not ok X". */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "thalweg.h"

static int failed = 0;

static void check(int good, const char *what)
{
    if (good)
        printf("ok %s\n", what);
    else
        printf("not ok %s: %s\n", what, thalweg_last_error()->text);
    failed |= !good;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static thalweg_file *opened(const char *path, int flags, uint32_t writer)
{
    thalweg_file *file = NULL;
    if (thalweg_file_open(&file, path, flags, writer)) {
        fprintf(stderr, "%s\n", thalweg_last_error()->text);
        exit(1);
    }
    return file;
}

/* Each call once, in the folder `root`. */
static void calls(const char *root)
{
    char a[4096], b[4096], folder[4096], bytes[64];
    uint64_t got = 0, length = 0;
    thalweg_file_about about;
    snprintf(folder, sizeof folder, "%s/folder/deep", root);
    snprintf(a, sizeof a, "%s/folder/deep/a", root);
    snprintf(b, sizeof b, "%s/folder/b", root);
    const int create = THALWEG_FILE_READ | THALWEG_FILE_WRITE | THALWEG_FILE_CREATE;
    thalweg_file *file = NULL;

    check(thalweg_file_open(&file, a, create, 0) == THALWEG_NOT_FOUND && thalweg_last_errno() == ENOENT && !file,
          "a file in a folder that is not there is not made");
    check(!thalweg_file_make_folder(folder), "folders are made");
    file = opened(a, create | THALWEG_FILE_EXCLUSIVE, 3);
    check(!thalweg_file_write(file, "world", 5, 6) && !thalweg_file_write(file, "hello", 5, 0), "bytes are written anywhere");
    check(!thalweg_file_read(file, bytes, sizeof bytes, 0, &got) && got == 11 && !memcmp(bytes, "hello\0world", 11),
          "what was written is read back before it is closed, the gap as zeros");
    check(!thalweg_file_length(file, &length) && length == 11, "the length counts");
    check(!thalweg_file_sync(file) && !thalweg_file_close(file), "a file is synced and closed");

    check(thalweg_file_open(&file, a, create | THALWEG_FILE_EXCLUSIVE, 0) == THALWEG_ALREADY_EXISTS && thalweg_last_errno() == EEXIST,
          "what is there is not made exclusively");
    file = opened(a, THALWEG_FILE_READ, 0);
    check(thalweg_file_read(file, bytes, 20, 0, NULL) == THALWEG_TORN, "who wants all bytes is told that there are fewer");
    check(!thalweg_file_read(file, bytes, 5, 6, NULL) && !memcmp(bytes, "world", 5), "reads begin anywhere");
    check(thalweg_file_write(file, "x", 1, 0) == THALWEG_INVALID_ARGUMENT && thalweg_last_errno() == EBADF, "a file open for reading is not written");
    check(!thalweg_file_close(file), "a file that was read is closed");

    file = opened(a, THALWEG_FILE_WRITE, 0);
    check(!thalweg_file_truncate(file, 3) && !thalweg_file_truncate(file, 7) && !thalweg_file_close(file), "files are cut and extended");
    file = opened(a, THALWEG_FILE_READ, 0);
    check(!thalweg_file_read(file, bytes, sizeof bytes, 0, &got) && got == 7 && !memcmp(bytes, "hel\0\0\0\0", 7),
          "what was cut off does not come back");
    thalweg_file_close(file);

    check(!thalweg_file_rename(a, b) && thalweg_file_stat(a, &about) == THALWEG_NOT_FOUND, "a file is renamed into another folder");
    check(!thalweg_file_stat(b, &about) && about.length == 7 && !about.is_folder && about.identity != 0, "its length is known there");
    check(!thalweg_file_stat(folder, &about) && about.is_folder, "a folder is one");
    file = opened(b, THALWEG_FILE_WRITE | THALWEG_FILE_TRUNCATE, 0);
    check(!thalweg_file_close(file) && !thalweg_file_stat(b, &about) && about.length == 0, "opening empties where it is to");
    check(thalweg_file_open(&file, folder, THALWEG_FILE_WRITE, 0) != 0 && thalweg_last_errno() == EISDIR, "a folder is not written");
    check(!thalweg_file_unlink(b) && thalweg_file_unlink(b) == THALWEG_NOT_FOUND && thalweg_last_errno() == ENOENT, "a file is removed once");
    check(!thalweg_file_unlink(folder), "an empty folder is removed");
    check(thalweg_file_open(&file, b, 64, 0) == THALWEG_INVALID_ARGUMENT, "unknown flags are refused");
    check(thalweg_file_open(&file, b, THALWEG_FILE_READ | THALWEG_FILE_CREATE, 0) == THALWEG_INVALID_ARGUMENT, "reading makes nothing");
    check(thalweg_file_close(NULL) == THALWEG_INVALID_ARGUMENT && thalweg_file_read(NULL, bytes, 1, 0, &got) == THALWEG_INVALID_ARGUMENT,
          "null pointers are refused");
}

static unsigned char value(uint64_t at)
{
    return (unsigned char)((at * 2654435761u) >> 13);
}

/* Writer `rank` of `ranks`: records of `unit` bytes, each rank's in turn. */
static void strided(const char *path, uint32_t rank, uint32_t ranks, uint64_t unit, uint64_t rounds)
{
    unsigned char *record = malloc(unit);
    thalweg_file *file = opened(path, THALWEG_FILE_WRITE | THALWEG_FILE_CREATE, rank);
    for (uint64_t round = 0; round < rounds; round++) {
        uint64_t offset = (round * ranks + rank) * unit;
        for (uint64_t i = 0; i < unit; i++) record[i] = value(offset + i);
        if (thalweg_file_write(file, record, unit, offset)) {
            check(0, "a record is written");
            break;
        }
    }
    check(!thalweg_file_close(file), "a writer of many closes");
    free(record);
}

/* Reads the records of the next rank. */
static void shifted(const char *path, uint32_t rank, uint32_t ranks, uint64_t unit, uint64_t rounds)
{
    unsigned char *record = malloc(unit);
    thalweg_file *file = opened(path, THALWEG_FILE_READ, 0);
    int good = 1;
    for (uint64_t round = 0; round < rounds; round++) {
        uint64_t offset = (round * ranks + (rank + 1) % ranks) * unit;
        if (thalweg_file_read(file, record, unit, offset, NULL)) good = 0;
        for (uint64_t i = 0; i < unit; i++) good = good && record[i] == value(offset + i);
    }
    check(good, "a reader finds what another rank wrote");
    thalweg_file_close(file);
    free(record);
}

/* Makes `count` files of `size` bytes below `mount` and below the plain folder `plain`; prints the ratio of the times. */
static void small(const char *mount, const char *plain, uint64_t count, size_t size)
{
    char path[4096];
    char *bytes = calloc(1, size);
    double ours = now();
    for (uint64_t i = 0; i < count; i++) {
        thalweg_file *file = NULL;
        snprintf(path, sizeof path, "%s/file.%llu", mount, (unsigned long long)i);
        if (thalweg_file_open(&file, path, THALWEG_FILE_WRITE | THALWEG_FILE_CREATE | THALWEG_FILE_TRUNCATE, 0) ||
            thalweg_file_write(file, bytes, size, 0) || thalweg_file_close(file)) {
            check(0, "a small file is made");
            return;
        }
    }
    ours = now() - ours;
    double bare = now();
    for (uint64_t i = 0; i < count; i++) {
        snprintf(path, sizeof path, "%s/file.%llu", plain, (unsigned long long)i);
        int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
        if (fd < 0 || pwrite(fd, bytes, size, 0) != (ssize_t)size || close(fd)) {
            perror(path);
            exit(1);
        }
    }
    bare = now() - bare;
    fprintf(stderr, "%llu files of %zu bytes: %.2f us each, on the bare filesystem %.2f us: %.1f times faster\n",
            (unsigned long long)count, size, ours / (double)count * 1e6, bare / (double)count * 1e6, bare / ours);
    free(bytes);
}

/* Makes a file, takes the bell of its folder away, so that nobody can ring it at the end, and returns `status`. */
static int unheard(const char *path, int status, const char *bell)
{
    thalweg_file *file = opened(path, THALWEG_FILE_WRITE | THALWEG_FILE_CREATE, 0);
    if (thalweg_file_write(file, "x", 1, 0) || thalweg_file_close(file) || unlink(bell) || mkdir(bell, 0755)) {
        perror(bell);
        return 2;
    }
    return status;
}

/* The first path of the process is used after it has changed its working directory. */
static void elsewhere(const char *path)
{
    thalweg_file *file = NULL;
    check(!chdir("/"), "the working directory changes");
    check(!thalweg_file_open(&file, path, THALWEG_FILE_WRITE | THALWEG_FILE_CREATE, 0), "a file of a mount is opened");
    check(!thalweg_file_write(file, "here", 4, 0) && !thalweg_file_close(file), "it is written");
}

int main(int argc, char **argv)
{
    const char *command = argc > 2 ? argv[1] : "";
    unsigned long long n[4] = {0, 0, 0, 0};
    for (int i = 3; i < argc && i < 7; i++) n[i - 3] = strtoull(argv[i], NULL, 10);
    if (!strcmp(command, "calls")) calls(argv[2]);
    else if (!strcmp(command, "elsewhere")) elsewhere(argv[2]);
    else if (!strcmp(command, "strided")) strided(argv[2], (uint32_t)n[0], (uint32_t)n[1], n[2], n[3]);
    else if (!strcmp(command, "shifted")) shifted(argv[2], (uint32_t)n[0], (uint32_t)n[1], n[2], n[3]);
    else if (!strcmp(command, "small") && argc == 6) small(argv[2], argv[3], n[1], (size_t)n[2]);
    else if (!strcmp(command, "unheard") && argc == 5) return unheard(argv[2], (int)n[0], argv[4]);
    else return 2;
    return failed;
}
