/* What a user waits for at a folder, whatever serves it: files of 1 KiB made, read, listed, removed; one long file written.
 *
 *   door NAME FOLDER FILES MIB
 *
 * Says seconds for each file of: create, read, list (as `ls -l`: a look at each name), unlink; of all of: write (with fsync).
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void right(int outcome, const char *what) {
    if (outcome < 0) {
        perror(what);
        exit(1);
    }
}

static const char *name;

static void say(const char *what, double began, int count) {
    printf("value %s/%s %.12f\n", name, what, (now() - began) / count);
    fflush(stdout);
}

int main(int argc, char **argv) {
    if (argc != 5)
        return 2;
    name = argv[1];
    right(chdir(argv[2]), "chdir");
    int files = atoi(argv[3]), mib = atoi(argv[4]);
    char path[64], bytes[1024];
    memset(bytes, 'x', sizeof bytes);
    right(mkdir("files", 0755), "mkdir");
    double began = now();
    for (int i = 0; i < files; i++) {
        snprintf(path, sizeof path, "files/file.%d", i);
        int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0644);
        right(fd, "create");
        right((int)write(fd, bytes, sizeof bytes), "write");
        right(close(fd), "close");
    }
    say("create", began, files);
    /* Whatever is kept of what was just made is to be forgotten. */
    sleep(2);
    began = now();
    for (int i = 0; i < files; i++) {
        snprintf(path, sizeof path, "files/file.%d", i);
        int fd = open(path, O_RDONLY);
        right(fd, "open");
        if (read(fd, bytes, sizeof bytes) != sizeof bytes || bytes[7] != 'x')
            right(-1, "read");
        right(close(fd), "close");
    }
    say("read", began, files);
    sleep(2);
    began = now();
    DIR *folder = opendir("files");
    if (!folder)
        right(-1, "opendir");
    struct dirent *entry;
    int seen = 0;
    char(*names)[64] = calloc((size_t)files + 2, sizeof *names);
    while ((entry = readdir(folder)) && seen < files + 2)
        snprintf(names[seen++], sizeof *names, "files/%.50s", entry->d_name);
    closedir(folder);
    for (int i = 0; i < seen; i++) {
        struct stat about;
        right(lstat(names[i], &about), "lstat");
    }
    if (seen != files + 2)
        right(-1, "names are missing");
    say("list", began, files);
    sleep(2);
    began = now();
    for (int i = 0; i < files; i++) {
        snprintf(path, sizeof path, "files/file.%d", i);
        right(unlink(path), "unlink");
    }
    say("unlink", began, files);
    right(rmdir("files"), "rmdir");
    char *block = malloc(1 << 20);
    memset(block, 'y', 1 << 20);
    began = now();
    int fd = open("long", O_WRONLY | O_CREAT | O_EXCL, 0644);
    right(fd, "create");
    for (int i = 0; i < mib; i++)
        right((int)write(fd, block, 1 << 20), "write");
    right(fsync(fd), "fsync");
    right(close(fd), "close");
    say("write", began, 1);
    right(unlink("long"), "unlink");
    return 0;
}
