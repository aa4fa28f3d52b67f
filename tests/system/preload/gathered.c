/* Writes that the preload door gathers before it sends them to the daemon: gathered FOLDER; gathered leave exit|_exit|exec|dup2|kill FILE;
 * gathered fails FILE; gathered dies FILE; gathered lines FILE COUNT. Prints lines "ok X", "not ok X". */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static int failed = 0;
static char where[4096];

static void check(int good, const char *what)
{
    int number = errno;
    printf("%s %s\n", good ? "ok" : "not ok", what);
    fflush(stdout);
    if (!good) {
        fprintf(stderr, "%s: %s\n", what, strerror(number));
        failed = 1;
    }
    errno = 0;
}

static char joined[8][4200];
static const char *at(const char *name)
{
    static int next = 0;
    char *out = joined[next++ % 8];
    snprintf(out, sizeof joined[0], "%s/%s", where, name);
    return out;
}

/* Writes a text byte by byte: all but the first are gathered. */
static int puts_to(int fd, const char *text)
{
    for (; *text; text++)
        if (write(fd, text, 1) != 1) return 0;
    return 1;
}

static int holds_fd(int fd, const char *text)
{
    char bytes[4096];
    ssize_t got = pread(fd, bytes, sizeof bytes, 0);
    return got == (ssize_t)strlen(text) && !memcmp(bytes, text, (size_t)got);
}

static int holds(const char *name, const char *text)
{
    int fd = open(at(name), O_RDONLY);
    int good = fd >= 0 && holds_fd(fd, text);
    return fd >= 0 && !close(fd) && good;
}

static int ended(pid_t child)
{
    int status = -1;
    waitpid(child, &status, 0);
    return !status;
}

static void one_process(void)
{
    struct stat about;
    char byte = 0;
    int fd = open(at("f"), O_RDWR | O_CREAT | O_TRUNC, 0644);
    check(fd >= 0 && puts_to(fd, "hello world") && holds("f", "hello world"), "another open reads what was gathered");
    check(puts_to(fd, "!") && holds_fd(fd, "hello world!"), "pread of the descriptor");
    check(puts_to(fd, "!") && !fstat(fd, &about) && about.st_size == 13, "fstat");
    check(puts_to(fd, "!") && !stat(at("f"), &about) && about.st_size == 14, "stat");
    check(puts_to(fd, "!") && lseek(fd, 0, SEEK_END) == 15, "lseek to the end");
    check(puts_to(fd, "!") && lseek(fd, 2, SEEK_SET) == 2 && read(fd, &byte, 1) == 1 && byte == 'l', "lseek and read");
    check(lseek(fd, 0, SEEK_END) == 16 && puts_to(fd, "??") && !ftruncate(fd, 17) && holds("f", "hello world!!!!!?"), "ftruncate");
    check(puts_to(fd, "xy") && !truncate(at("f"), 5) && holds("f", "hello"), "truncate by name");
    check(lseek(fd, 5, SEEK_SET) == 5 && puts_to(fd, ", you") && pwrite(fd, "H", 1, 0) == 1 && puts_to(fd, "!") && holds("f", "Hello, you!"), "pwrite between");
    char *map = mmap(NULL, 11, PROT_READ, MAP_PRIVATE, fd, 0);
    check(map != MAP_FAILED && !memcmp(map, "Hello, you!", 11), "a map, of what was there");
    munmap(map, 11);
    check(puts_to(fd, "!!") && (map = mmap(NULL, 13, PROT_READ, MAP_SHARED, fd, 0)) != MAP_FAILED && !memcmp(map, "Hello, you!!!", 13), "a map, of what was gathered");
    munmap(map, 13);
    int other = dup(fd);
    check(puts_to(fd, "a") && puts_to(other, "b") && !close(fd) && puts_to(other, "c") && !close(other) && holds("f", "Hello, you!!!abc"), "dup and close");
    check(!rename(at("f"), at("g")) && holds("g", "Hello, you!!!abc"), "rename after close");
    fd = open(at("g"), O_WRONLY | O_TRUNC);
    check(puts_to(fd, "12345") && !rename(at("g"), at("h")) && holds("h", "12345") && puts_to(fd, "67") && !close(fd) && holds("h", "1234567"), "rename of an open file");
    fd = open(at("h"), O_WRONLY | O_TRUNC);
    struct timespec then[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    check(puts_to(fd, "12345") && !futimens(fd, then) && !close(fd) && !stat(at("h"), &about) && about.st_mtime == 1000000000 && about.st_size == 5, "times set after the bytes stay");
    int a = open(at("log"), O_WRONLY | O_CREAT | O_APPEND, 0644), b = open(at("log"), O_WRONLY | O_APPEND);
    check(puts_to(a, "one") && puts_to(b, "two") && puts_to(a, "three") && lseek(a, 0, SEEK_CUR) == 11 && !close(b) && !close(a) && holds("log", "onetwothree"), "O_APPEND of two opens, in the order of the calls");
    fd = open(at("gone"), O_RDWR | O_CREAT, 0600);
    check(puts_to(fd, "abc") && !unlink(at("gone")) && puts_to(fd, "de") && holds_fd(fd, "abcde") && !close(fd), "a file without a name");
    fd = open(at("long"), O_RDWR | O_CREAT | O_TRUNC, 0644);
    int good = 1;
    static unsigned char much[200000];
    uint64_t total = 0;
    for (int k = 0; k < 400; k++) {
        size_t count = (size_t)(k * 7919 % 3000) + (k % 50 == 49 ? 150000 : 1);
        for (size_t i = 0; i < count; i++) much[i] = (unsigned char)((total + i) * 31 >> 3);
        struct iovec pieces[2] = {{much, count / 3}, {much + count / 3, count - count / 3}};
        good = good && writev(fd, pieces, 2) == (ssize_t)count;
        total += count;
    }
    check(good && !close(fd), "writes of all lengths");
    fd = open(at("long"), O_RDONLY);
    for (uint64_t done = 0; good && done < total;) {
        ssize_t got = read(fd, much, sizeof much);
        good = got > 0;
        for (ssize_t i = 0; i < got; i++) good = good && much[i] == (unsigned char)((done + (uint64_t)i) * 31 >> 3);
        done += (uint64_t)(got > 0 ? got : 0);
    }
    check(good && read(fd, much, 1) == 0 && !close(fd), "are read as they were written");
}

/* A process that looks at a file when it is told to, and says whether the text is there: nobody forks meanwhile. */
static int ask[2], answer[2];
static pid_t looks(const char *name)
{
    if (pipe(ask) || pipe(answer)) exit(2);
    pid_t child = fork();
    if (child) return child;
    close(ask[1]);
    char text[256];
    while (read(ask[0], text, sizeof text) > 0) {
        char seen = (char)('0' + holds(name, text));
        if (write(answer[1], &seen, 1) != 1) _exit(1);
    }
    _exit(0);
}
static int other_sees(const char *text)
{
    char seen = '0', message[256] = "";
    snprintf(message, sizeof message, "%s", text);
    return write(ask[1], message, sizeof message) == sizeof message && read(answer[0], &seen, 1) == 1 && seen == '1';
}

/* A program that is run by a child that shares the memory. */
static pid_t runs(void)
{
    pid_t child = vfork();
    if (!child) {
        execlp("true", "true", (char *)NULL);
        _exit(1);
    }
    return child;
}

static void processes(void)
{
    int fd = open(at("seen"), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    close(fd);
    pid_t child = looks("seen");
    fd = open(at("seen"), O_WRONLY);
    check(puts_to(fd, "abc") && !fsync(fd) && other_sees("abc"), "another process sees at fsync");
    check(puts_to(fd, "def") && !fdatasync(fd) && other_sees("abcdef"), "and at fdatasync");
    check(puts_to(fd, "ghi") && !close(fd) && other_sees("abcdefghi"), "and at close");
    for (int kind = 0; kind < 2; kind++) {
        fd = open(at("seen"), O_WRONLY | O_TRUNC | (kind ? O_DSYNC : O_SYNC));
        int good = fd >= 0 && fcntl(fd, F_GETFL) & O_DSYNC;
        char text[8] = "";
        for (int k = 0; k < 5; k++) {
            text[k] = (char)('a' + k);
            good = good && write(fd, text + k, 1) == 1 && other_sees(text);
        }
        check(good && !close(fd), kind ? "and at every write with O_DSYNC" : "and at every write with O_SYNC");
    }
    close(ask[1]);
    check(ended(child), "the process that looks ends well");

    fd = open(at("forked"), O_RDWR | O_CREAT | O_TRUNC, 0644);
    int good = puts_to(fd, "parent ");
    child = fork();
    if (!child) _exit(!(holds("forked", "parent ") && puts_to(fd, "child ") && !fsync(fd)));
    check(good && ended(child) && puts_to(fd, "parent again") && holds_fd(fd, "parent child parent again"), "a child goes on at the parent's offset");
    child = fork();
    if (!child) exit(!(puts_to(fd, ", child") && puts_to(fd, " that exits")));
    check(ended(child) && puts_to(fd, ", end") && !close(fd) && holds("forked", "parent child parent again, child that exits, end"), "and one that exits leaves what it wrote");
    fd = open(at("twice"), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    good = puts_to(fd, "once");
    for (int k = 0; k < 4; k++) {
        child = fork();
        if (!child) exit(0);
        good = good && ended(child);
    }
    check(good && !close(fd) && holds("twice", "once"), "children that write nothing write nothing twice");
    int log = open(at("shared"), O_WRONLY | O_CREAT | O_APPEND | O_TRUNC, 0644);
    good = puts_to(log, "a");
    for (int k = 0; k < 3; k++) {
        child = fork();
        if (!child) _exit(!puts_to(log, "bcd"));
        good = good && ended(child) && puts_to(log, "-");
    }
    check(good && !close(log) && holds("shared", "abcd-bcd-bcd-"), "O_APPEND of parent and children, in their order");
    fd = open(at("executed"), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    good = puts_to(fd, "before ");
    child = fork();
    if (!child) {
        puts_to(fd, "in between ");
        dup2(fd, 1);
        execlp("echo", "echo", "after", (char *)NULL);
        _exit(1);
    }
    check(good && ended(child) && puts_to(fd, "last\n") && !close(fd) && holds("executed", "before in between after\nlast\n"), "a child that becomes another program");
    /* A child that shares the memory: what the parent has gathered, and its connections, are still there afterwards. */
    fd = open(at("vforked"), O_RDWR | O_CREAT | O_TRUNC, 0644);
    good = puts_to(fd, "one ");
    for (int k = 0; k < 5; k++) good = good && ended(runs()) && puts_to(fd, "and another ");
    check(good && holds_fd(fd, "one and another and another and another and another and another ") && !close(fd), "vfork and exec");
    fd = open(at("spawned"), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    good = puts_to(fd, "before ");
    char command[4300];
    snprintf(command, sizeof command, "test \"$(cat %s)\" = 'before '", at("spawned"));
    check(good && !system(command) && !close(fd), "a program that is started reads what was gathered");
}

/* Threads that write while another forks: each byte once, in its place. */
static volatile int stop = 0;
static void *writes(void *argument)
{
    long number = (long)argument, count = 0;
    char name[sizeof where + 32]; /* at() is for one thread */
    snprintf(name, sizeof name, "%s/thread.%ld", where, number);
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    while (!stop || count < 1000) {
        char line[32];
        snprintf(line, sizeof line, "%014ld\n", count++);
        if (write(fd, line, 15) != 15) return (void *)1L;
    }
    return (void *)(long)(close(fd) ? 1 : 0);
}
static void threads(void)
{
    pthread_t all[3];
    int good = 1;
    for (long k = 0; k < 3; k++) pthread_create(&all[k], NULL, writes, (void *)k);
    for (int k = 0; k < 40; k++) {
        pid_t child = k % 4 == 3 ? runs() : fork();
        if (!child) {
            if (k % 2) _exit(0);
            exit(0);
        }
        good = good && ended(child);
    }
    stop = 1;
    for (int k = 0; k < 3; k++) {
        void *result = (void *)1L;
        pthread_join(all[k], &result);
        good = good && !result;
    }
    for (int k = 0; good && k < 3; k++) {
        char name[32], line[32];
        snprintf(name, sizeof name, "thread.%d", k);
        FILE *stream = fopen(at(name), "r");
        long count = 0;
        while (stream && fgets(line, sizeof line, stream)) good = good && strlen(line) == 15 && strtol(line, NULL, 10) == count++;
        good = good && count >= 1000 && stream && !fclose(stream);
    }
    check(good, "threads that write while another forks and runs programs: each line once, in its place");
}

/* Leaves a file open, in one way or another. */
static int leave(const char *how, const char *name)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (!puts_to(fd, "synced ") || fsync(fd) || !puts_to(fd, "left")) return 1;
    if (!strcmp(how, "_exit")) _exit(0);
    if (!strcmp(how, "exec")) return execlp("true", "true", (char *)NULL);
    if (!strcmp(how, "kill")) return kill(getpid(), SIGKILL);
    if (!strcmp(how, "dup2")) return dup2(0, fd) != fd;
    return 0;
}

/* Writes until the store is full: the bytes that were taken are told lost, at the latest by fsync and close. */
static int fails(const char *name)
{
    static char line[1000];
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644), refused = 0;
    if (fd < 0) return 2;
    for (int k = 0; k < 4000 && !refused; k++) refused = write(fd, line, sizeof line) != sizeof line;
    check(refused && errno == ENOSPC, "a write meets the full store");
    check(write(fd, line, 10) < 0 && errno == ENOSPC, "bytes are lost: the next write says so");
    check(fsync(fd) < 0 && errno == ENOSPC, "fsync says so");
    check(close(fd) < 0 && errno == ENOSPC, "close says so");
    fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    return failed | (fd < 0);
}

int main(int count, char **argument)
{
    if (count == 4 && !strcmp(argument[1], "leave")) return leave(argument[2], argument[3]);
    if (count == 3 && !strcmp(argument[1], "dies")) {
        const char *go = getenv("GO");
        int fd = open(argument[2], O_WRONLY | O_CREAT | O_TRUNC, 0644);
        if (!puts_to(fd, "written")) return 2;
        close(open(go, O_WRONLY | O_CREAT, 0600));
        while (!access(go, F_OK)) usleep(10000);
        return dup2(0, fd) == fd ? 0 : 2;
    }
    if (count == 3 && !strcmp(argument[1], "fails")) return fails(argument[2]);
    if (count == 4 && !strcmp(argument[1], "lines")) {
        char line[100];
        memset(line, 'x', sizeof line);
        int fd = open(argument[2], O_WRONLY | O_CREAT | O_TRUNC, 0644), good = fd >= 0;
        for (int k = atoi(argument[3]); good && k > 0; k--) good = write(fd, line, sizeof line) == sizeof line;
        return close(fd) || !good;
    }
    if (count != 2) return 2;
    snprintf(where, sizeof where, "%s", argument[1]);
    check(!mkdir(where, 0755), "a folder for it");
    one_process();
    processes();
    threads();
    return failed;
}
