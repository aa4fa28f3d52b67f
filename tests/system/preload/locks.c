/* Locks between processes: counters that lose nothing, kinds that are kept apart, owners that keep what is theirs.
 *
 *   locks count KIND FILE TIMES   adds 1 to the number in FILE so many times, under a lock of this KIND each time
 *   locks rules FILE              what a lock excludes and how long it lasts, as the manual pages say
 *   locks hold KIND FILE          locks, says "locked", unlocks when its input ends
 *   locks try KIND FILE           0 where the lock is to be had, 1 where another has it, 2 on any other failure
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

static int failures;

static void say(int right, const char *name) {
    printf("%s %s\n", right ? "ok" : "not ok", name);
    if (!right) {
        printf("  errno %d (%s)\n", errno, strerror(errno));
        failures++;
    }
    fflush(stdout);
}

/* 0, or -1 with errno. */
static int lock(const char *kind, int fd, int type, int wait) {
    if (strcmp(kind, "flock") == 0) {
        int how = type == F_UNLCK ? LOCK_UN : type == F_RDLCK ? LOCK_SH : LOCK_EX;
        return flock(fd, how | (wait ? 0 : LOCK_NB));
    }
    if (strcmp(kind, "lockf") == 0) {
        if (lseek(fd, 0, SEEK_SET) < 0)
            return -1;
        return lockf(fd, type == F_UNLCK ? F_ULOCK : wait ? F_LOCK : F_TLOCK, 0);
    }
    struct flock range = {.l_type = (short)type, .l_whence = SEEK_SET, .l_start = 0, .l_len = 0};
    if (strcmp(kind, "part") == 0)
        range.l_start = 100, range.l_len = 10;
    int ofd = strcmp(kind, "ofd") == 0;
    return fcntl(fd, ofd ? (wait ? F_OFD_SETLKW : F_OFD_SETLK) : (wait ? F_SETLKW : F_SETLK), &range);
}

static int count(const char *kind, const char *path, int times) {
    int fd = open(path, O_RDWR | O_CREAT, 0644);
    if (fd < 0)
        return perror("open"), 2;
    for (int i = 0; i < times; i++) {
        char text[32] = "";
        if (lock(kind, fd, F_WRLCK, 1) != 0)
            return perror("lock"), 2;
        if (pread(fd, text, sizeof text - 1, 0) < 0)
            return perror("pread"), 2;
        int length = snprintf(text, sizeof text, "%08d", atoi(text) + 1);
        if (pwrite(fd, text, (size_t)length, 0) != length)
            return perror("pwrite"), 2;
        if (lock(kind, fd, F_UNLCK, 1) != 0)
            return perror("unlock"), 2;
    }
    return close(fd) == 0 ? 0 : 2;
}

/* Runs in a child, which gives back 0 for yes. */
static int child(int (*body)(const char *), const char *path) {
    pid_t pid = fork();
    if (pid == 0)
        _exit(body(path));
    int status = 0;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static int free_for(const char *kind, int type, const char *path) {
    int fd = open(path, O_RDWR);
    if (fd < 0)
        return 2;
    int taken = lock(kind, fd, type, 0);
    int number = errno;
    close(fd);
    errno = number;
    return taken == 0 ? 0 : number == EAGAIN || number == EACCES ? 1 : 2;
}
static int flock_free(const char *path) { return free_for("flock", F_WRLCK, path); }
static int flock_shared(const char *path) { return free_for("flock", F_RDLCK, path); }
static int range_free(const char *path) { return free_for("fcntl", F_WRLCK, path); }
static int range_shared(const char *path) { return free_for("fcntl", F_RDLCK, path); }
static int part_free(const char *path) { return free_for("part", F_WRLCK, path); }
static int tells_pid(const char *path) {
    struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int fd = open(path, O_RDWR);
    if (fd < 0 || fcntl(fd, F_GETLK, &range) != 0)
        return 2;
    close(fd);
    return range.l_type == F_WRLCK && range.l_start == 0 && range.l_len == 0 ? 0 : 1;
}

static int shared_fd;
static int inherited_flock(const char *path) {
    (void)path;
    /* The description has the lock already: a child that shares it is not excluded. */
    return flock(shared_fd, LOCK_EX | LOCK_NB) == 0 ? 0 : 1;
}
static int takes_and_leaves(const char *path) {
    (void)path;
    return flock(shared_fd, LOCK_EX) == 0 ? 0 : 1;
}

static void on_alarm(int number) { (void)number; }

static void rules(const char *path) {
    int fd = open(path, O_RDWR | O_CREAT, 0644), second = open(path, O_RDWR);
    say(fd >= 0 && second >= 0, "opens");
    say(flock(fd, LOCK_EX) == 0, "flock");
    say(flock(second, LOCK_EX | LOCK_NB) == -1 && errno == EWOULDBLOCK, "flock excludes another open of the same process");
    say(!child(flock_free, path) && !child(flock_shared, path), "flock excludes other processes");
    say(child(range_free, path), "flock and fcntl do not meet");
    shared_fd = fd;
    say(child(inherited_flock, path), "a child shares the flock");
    say(!child(flock_free, path), "and leaves it to the parent");
    int twice = dup(fd);
    close(fd);
    say(!child(flock_free, path), "a flock stays until the last descriptor is closed");
    close(twice);
    say(child(flock_free, path), "and ends with it");
    shared_fd = second;
    say(child(takes_and_leaves, path) && !child(flock_free, path), "a lock that a child takes stays with the description");
    say(flock(second, LOCK_SH) == 0 && child(flock_shared, path) && !child(flock_free, path), "a lock made shared");
    say(flock(second, LOCK_UN) == 0 && child(flock_free, path), "unlocked");

    fd = open(path, O_RDWR);
    say(lock("fcntl", fd, F_WRLCK, 0) == 0 && !child(range_free, path) && !child(range_shared, path), "fcntl excludes other processes");
    say(lock("fcntl", second, F_WRLCK, 0) == 0, "and not its own");
    say(child(flock_free, path), "fcntl and flock do not meet");
    say(child(tells_pid, path), "F_GETLK tells of it");
    close(open(path, O_RDONLY));
    say(child(range_free, path), "any close of the process ends it");
    say(lock("fcntl", fd, F_RDLCK, 0) == 0 && child(range_shared, path) && !child(range_free, path), "a shared range");
    say(lock("part", fd, F_WRLCK, 0) == 0 && !child(range_shared, path), "a part made exclusive");
    say(lock("fcntl", fd, F_UNLCK, 0) == 0 && lock("part", fd, F_WRLCK, 0) == 0 && !child(part_free, path), "a part alone");
    struct flock before = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 100};
    say(fcntl(second, F_OFD_SETLK, &before) == 0, "another part is free for a description");
    before.l_len = 101;
    say(fcntl(second, F_OFD_SETLK, &before) == -1 && (errno == EAGAIN || errno == EACCES), "the same is not: a process and a description meet");
    say(lock("fcntl", fd, F_UNLCK, 0) == 0 && !child(range_free, path), "what a description locked stays");
    close(second);
    say(child(range_free, path), "until it is closed");
    close(fd);

    /* A signal ends a wait. */
    fd = open(path, O_RDWR);
    flock(fd, LOCK_EX);
    lock("fcntl", fd, F_WRLCK, 0);
    for (int kind = 0; kind < 2; kind++) {
        pid_t pid = fork();
        if (pid == 0) {
            struct sigaction action = {.sa_handler = on_alarm};
            sigaction(SIGALRM, &action, NULL);
            int own = open(path, O_RDWR);
            alarm(1);
            int taken = lock(kind ? "fcntl" : "flock", own, F_WRLCK, 1);
            _exit(taken == -1 && errno == EINTR ? 0 : 1);
        }
        int status = 0;
        waitpid(pid, &status, 0);
        say(WIFEXITED(status) && WEXITSTATUS(status) == 0, kind ? "a signal ends a wait for a range" : "a signal ends a wait for a flock");
    }
    close(fd);

    /* Who is killed holds nothing. */
    int told[2];
    if (pipe(told) != 0)
        exit(2);
    pid_t pid = fork();
    if (pid == 0) {
        int own = open(path, O_RDWR);
        char byte = lock("flock", own, F_WRLCK, 1) == 0 && lock("fcntl", own, F_WRLCK, 1) == 0;
        if (write(told[1], &byte, 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    char byte = 0;
    say(read(told[0], &byte, 1) == 1 && byte && !child(flock_free, path) && !child(range_free, path), "a child holds both");
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    say(child(flock_free, path) && child(range_free, path), "and nothing once it is killed");

    fd = open(path, O_RDONLY);
    say(lock("fcntl", fd, F_WRLCK, 0) == -1 && errno == EBADF, "an exclusive range wants a file open for writing");
    say(flock(fd, LOCK_EX | LOCK_NB) == 0, "a flock does not");
    close(fd);
}

int main(int argc, char **argv) {
    if (argc == 5 && strcmp(argv[1], "count") == 0)
        return count(argv[2], argv[3], atoi(argv[4]));
    if (argc == 3 && strcmp(argv[1], "rules") == 0)
        return rules(argv[2]), failures ? 1 : 0;
    if (argc == 4 && strcmp(argv[1], "try") == 0)
        return free_for(argv[2], F_WRLCK, argv[3]);
    if (argc == 4 && strcmp(argv[1], "hold") == 0) {
        int fd = open(argv[3], O_RDWR | O_CREAT, 0644);
        if (fd < 0 || lock(argv[2], fd, F_WRLCK, 1) != 0)
            return perror("hold"), 2;
        puts("locked");
        fflush(stdout);
        while (getchar() != EOF)
            ;
        return 0;
    }
    return 2;
}
