/* Calls on files through a door: calls FOLDER; calls numbers FOLDER; calls small FOLDER COUNT; calls strided|shifted FILE RANK RANKS UNIT
 * ROUNDS. Prints lines "ok X", "not ok X". */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

static int failed = 0;

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

static char where[4096], joined[8][4200];
static const char *at(const char *name)
{
    static int next = 0;
    char *out = joined[next++ % 8];
    snprintf(out, sizeof joined[0], "%s/%s", where, name);
    return out;
}

static int holds(const char *name, const char *text)
{
    char bytes[256];
    int fd = open(at(name), O_RDONLY);
    if (fd < 0) return 0;
    ssize_t got = read(fd, bytes, sizeof bytes);
    close(fd);
    return got == (ssize_t)strlen(text) && !memcmp(bytes, text, (size_t)got);
}

static int put(const char *name, const char *text)
{
    int fd = open(at(name), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    int good = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    return !close(fd) && good;
}

static void transfers(void)
{
    char bytes[64];
    struct stat about;
    int fd = open(at("t"), O_RDWR | O_CREAT | O_EXCL, 0640);
    check(fd >= 0 && write(fd, "hello world", 11) == 11, "a file is made and written");
    check(open(at("t"), O_RDWR | O_CREAT | O_EXCL, 0640) < 0 && errno == EEXIST, "O_EXCL finds it");
    check(lseek(fd, 6, SEEK_SET) == 6 && read(fd, bytes, 64) == 5 && !memcmp(bytes, "world", 5) && read(fd, bytes, 1) == 0, "read and lseek");
    check(pread(fd, bytes, 5, 0) == 5 && !memcmp(bytes, "hello", 5) && lseek(fd, 0, SEEK_CUR) == 11, "pread leaves the offset");
    check(pwrite(fd, "J", 1, 0) == 1 && lseek(fd, -1, SEEK_END) == 10 && lseek(fd, -20, SEEK_END) < 0 && errno == EINVAL, "pwrite, SEEK_END");
    struct iovec two[2] = {{bytes, 3}, {bytes + 10, 3}};
    check(preadv(fd, two, 2, 0) == 6 && !memcmp(bytes, "Jel", 3) && !memcmp(bytes + 10, "lo ", 3), "preadv");
    check(lseek(fd, 0, SEEK_END) == 11 && writev(fd, two, 2) == 6 && lseek(fd, 11, SEEK_SET) == 11 && readv(fd, two, 2) == 6, "writev and readv");
    check(pwritev(fd, two, 1, 30) == 3 && !fstat(fd, &about) && about.st_size == 33 && S_ISREG(about.st_mode), "pwritev leaves a hole");
    check(pread(fd, bytes, 20, 17) == 16 && bytes[0] == 0 && bytes[12] == 0, "which reads as zeros");
    check(!ftruncate(fd, 4) && !fstat(fd, &about) && about.st_size == 4 && !ftruncate(fd, 8) && pread(fd, bytes, 9, 0) == 8 && !bytes[7], "ftruncate down and up");
    check(!fsync(fd) && !fdatasync(fd) && !posix_fallocate(fd, 0, 100) && !fstat(fd, &about) && about.st_size == 100, "fsync, posix_fallocate");
    check((about.st_mode & 0777) == 0640, "the mode is that of the open");
    struct stat named;
    check(!stat(at("t"), &named) && named.st_ino == about.st_ino && named.st_dev == about.st_dev && named.st_size == 100, "stat and fstat agree");
    struct statx x;
    check(!statx(AT_FDCWD, at("t"), 0, STATX_ALL, &x) && x.stx_size == 100 && x.stx_ino == about.st_ino, "statx too");
    void *volatile nothing = NULL;
    check(write(fd, nothing, 4) < 0 && errno == EFAULT, "EFAULT");
    check(!close(fd) && close(fd) < 0 && errno == EBADF, "closed once");
    fd = open(at("t"), O_RDONLY);
    check(write(fd, "x", 1) < 0 && errno == EBADF && ftruncate(fd, 1) < 0 && errno == EINVAL, "what is open for reading is not written");
    close(fd);
    fd = open(at("t"), O_WRONLY);
    check(read(fd, bytes, 1) < 0 && errno == EBADF && (fcntl(fd, F_GETFL) & O_ACCMODE) == O_WRONLY, "nor the other way round");
    close(fd);
    check(!truncate(at("t"), 3) && holds("t", "Jel"), "truncate");
    check(open(at("none"), O_RDONLY) < 0 && errno == ENOENT && open(at("none/x"), O_CREAT | O_WRONLY, 0600) < 0 && errno == ENOENT, "ENOENT");
    check(open(at("t/x"), O_RDONLY) < 0 && (errno == ENOTDIR || errno == ENOENT), "a file is no folder");
}

static void descriptors(void)
{
    char bytes[64];
    put("d", "0123456789");
    int fd = open(at("d"), O_RDWR), other = dup(fd), third = fcntl(fd, F_DUPFD_CLOEXEC, 20);
    check(read(fd, bytes, 3) == 3 && read(other, bytes, 3) == 3 && bytes[0] == '3' && lseek(third, 0, SEEK_CUR) == 6, "dup shares the offset");
    check(third >= 20 && (fcntl(third, F_GETFD) & FD_CLOEXEC) && !(fcntl(other, F_GETFD) & FD_CLOEXEC), "F_DUPFD_CLOEXEC");
    check(dup2(fd, 33) == 33 && !close(fd) && read(33, bytes, 1) == 1 && bytes[0] == '6', "dup2 outlives its source");
    check(dup3(other, 34, O_CLOEXEC) == 34 && !close(34) && !close(33) && !close(third) && lseek(other, 0, SEEK_SET) == 0, "dup3");
    pid_t child = fork();
    if (!child) {
        check(read(other, bytes, 4) == 4 && !memcmp(bytes, "0123", 4), "a child reads on");
        _exit(failed || write(other, "ab", 2) != 2);
    }
    int status = 1;
    waitpid(child, &status, 0);
    check(!status && lseek(other, 0, SEEK_CUR) == 6 && pread(other, bytes, 10, 0) == 10 && !memcmp(bytes, "0123ab6789", 10), "and the parent sees offset and bytes");
    child = fork();
    if (!child) {
        dup2(other, 1);
        execlp("printf", "printf", "XY", (char *)NULL);
        _exit(1);
    }
    waitpid(child, &status, 0);
    check(!status && lseek(other, 0, SEEK_CUR) == 8 && pread(other, bytes, 10, 0) == 10 && !memcmp(bytes, "0123abXY89", 10), "a program that it becomes writes on");
    check(!close(other), "close after it");
    int a = open(at("log"), O_WRONLY | O_CREAT | O_APPEND, 0644), b = open(at("log"), O_WRONLY | O_APPEND);
    check(write(a, "one", 3) == 3 && write(b, "two", 3) == 3 && write(a, "three", 5) == 5 && (fcntl(a, F_GETFL) & O_APPEND), "O_APPEND of two opens");
    child = fork();
    if (!child) _exit(write(a, "four", 4) != 4);
    waitpid(child, &status, 0);
    check(!status && write(b, "five", 4) == 4 && !close(a) && !close(b) && holds("log", "onetwothreefourfive"), "and of a child");
    fd = open(at("gone"), O_RDWR | O_CREAT, 0600);
    struct stat about;
    check(write(fd, "x", 1) == 1 && !unlink(at("gone")) && pwrite(fd, "yz", 2, 1) == 2 && pread(fd, bytes, 9, 0) == 3 && !fstat(fd, &about) && about.st_nlink == 0 && about.st_size == 3, "a file without a name goes on");
    check(!close(fd) && access(at("gone"), F_OK) < 0, "until it is closed");
    fd = open(at("d"), O_RDONLY);
    check(close_range((unsigned)fd, ~0U, 0) == 0 && lseek(fd, 0, SEEK_CUR) < 0 && errno == EBADF, "close_range");
    fd = open(at("d"), O_RDWR);
    struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 10};
    check(!fcntl(fd, F_SETLK, &range), "a range is locked");
    child = fork();
    if (!child) {
        int again = open(at("d"), O_RDWR);
        _exit(!(fcntl(again, F_SETLK, &range) < 0 && (errno == EAGAIN || errno == EACCES)));
    }
    waitpid(child, &status, 0);
    check(!status, "for another process too");
    check(!flock(fd, LOCK_EX | LOCK_NB) && !close(fd), "flock");
}

/* Programs that count on the lowest free number, or close and replace whatever they find: what the door has open for itself stays. */
static void numbers(int lowest)
{
    char bytes[8];
    check(put("n", "numbers") && holds("n", "numbers"), "a file, before numbers are closed");
    int fd = open(at("n"), O_RDWR);
    check(fd == lowest, "an open gets the lowest free number, whatever the door has open");
    for (int n = lowest; n < 4096; n++)
        if (n != fd) close(n);
    check(pread(fd, bytes, 8, 0) == 7 && holds("n", "numbers"), "all numbers closed one by one");
    check(!close_range((unsigned)fd + 1, ~0U, 0) && pread(fd, bytes, 8, 0) == 7 && put("n", "numberS"), "close_range of all");
    closefrom(fd + 1);
    check(pread(fd, bytes, 8, 0) == 7 && !memcmp(bytes, "numberS", 7) && holds("n", "numberS"), "closefrom");
    struct rlimit most;
    int null = open("/dev/null", O_RDONLY), refused = 0;
    getrlimit(RLIMIT_NOFILE, &most);
    for (int n = null + 1; n < 1 << 16 && (rlim_t)n < most.rlim_cur; n++) refused += dup2(null, n) != n;
    check(pread(fd, bytes, 8, 0) == 7 && refused < 64, "another descriptor put in the place of every number");
    closefrom(null);
    check(pread(fd, bytes, 8, 0) == 7 && holds("n", "numberS") && !close(fd) && !unlink(at("n")), "and goes on");
}

/* Small files, one after the other. */
static int small(const char *folder, int count)
{
    char path[4200], bytes[1024];
    memset(bytes, 7, sizeof bytes);
    int good = !mkdir(folder, 0755);
    for (int i = 0; good && i < count; i++) {
        snprintf(path, sizeof path, "%s/file.%d", folder, i);
        int fd = open(path, O_WRONLY | O_CREAT, 0644);
        good = fd >= 0 && write(fd, bytes, sizeof bytes) == (ssize_t)sizeof bytes && !close(fd);
    }
    if (!good) perror(path);
    return !good;
}

static void maps(void)
{
    int page = (int)sysconf(_SC_PAGESIZE), fd = open(at("m"), O_RDWR | O_CREAT | O_TRUNC, 0644);
    char *bytes = malloc((size_t)page * 2);
    memset(bytes, 'a', (size_t)page);
    memset(bytes + page, 'b', (size_t)page);
    check(write(fd, bytes, (size_t)page * 2) == page * 2, "two pages");
    char *map = mmap(NULL, (size_t)page, PROT_READ, MAP_SHARED, fd, page);
    check(map != MAP_FAILED && map[0] == 'b' && map[page - 1] == 'b', "a shared map for reading");
    if (map != MAP_FAILED) munmap(map, (size_t)page);
    map = mmap(NULL, (size_t)page * 2, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    check(map != MAP_FAILED && map[0] == 'a' && (map[0] = 'c') && pread(fd, bytes, 1, 0) == 1 && bytes[0] == 'a', "a private one that is written");
    if (map != MAP_FAILED) munmap(map, (size_t)page * 2);
    map = mmap(NULL, (size_t)page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    int worked = map != MAP_FAILED;
    if (worked) {
        map[0] = 'd';
        msync(map, (size_t)page, MS_SYNC);
        munmap(map, (size_t)page);
    }
    check(worked ? pread(fd, bytes, 1, 0) == 1 && bytes[0] == 'd' : errno == ENODEV, "a map that writes works or is refused");
    close(fd);
    free(bytes);
}

static void names(void)
{
    char bytes[4200];
    struct stat about;
    check(!mkdir(at("f"), 0750) && mkdir(at("f"), 0750) < 0 && errno == EEXIST && !stat(at("f"), &about) && S_ISDIR(about.st_mode) && (about.st_mode & 0777) == 0750, "mkdir");
    put("f/a", "a");
    check(!rename(at("f/a"), at("f/b")) && access(at("f/a"), F_OK) < 0 && errno == ENOENT && holds("f/b", "a"), "rename");
    put("f/c", "c");
    check(!rename(at("f/c"), at("f/b")) && holds("f/b", "c"), "rename over another");
    check(rmdir(at("f")) < 0 && (errno == ENOTEMPTY || errno == EEXIST) && unlink(at("f")) < 0 && (errno == EISDIR || errno == EPERM), "a folder that is not empty stays");
    check(rename(at("f/b"), "/tmp/nowhere.thalweg") < 0 ? errno == EXDEV : !rename("/tmp/nowhere.thalweg", at("f/b")), "a rename out of the mount is one across devices");
    int folder = open(at("f"), O_RDONLY | O_DIRECTORY);
    int fd = openat(folder, "deep", O_CREAT | O_WRONLY, 0644);
    check(folder >= 0 && fd >= 0 && !close(fd) && !fstatat(folder, "deep", &about, 0) && about.st_size == 0 && !renameat(folder, "deep", folder, "deeper") && !unlinkat(folder, "deeper", 0), "calls beside a folder");
    check(openat(folder, "../f/b", O_RDONLY) >= 0 && !faccessat(folder, "b", R_OK, 0) && !mkdirat(folder, "sub", 0700), "and through ..");
    check(read(folder, bytes, 1) < 0 && errno == EISDIR && !fsync(folder), "a folder is not read");
    DIR *list = fdopendir(folder);
    int seen = 0;
    for (struct dirent *entry; list && (entry = readdir(list));) seen += !strcmp(entry->d_name, "b") + 10 * !strcmp(entry->d_name, "sub") + 100 * !strcmp(entry->d_name, ".");
    check(seen == 111 && dirfd(list) == folder, "fdopendir and readdir");
    rewinddir(list);
    check(readdir(list) && !closedir(list) && fcntl(folder, F_GETFD) < 0, "rewinddir, closedir");
    struct dirent **sorted;
    int count = scandir(at("f"), &sorted, NULL, alphasort);
    check(count == 4 && !strcmp(sorted[2]->d_name, "b") && !strcmp(sorted[3]->d_name, "sub"), "scandir");
    glob_t found;
    check(!glob(at("f/*"), 0, NULL, &found) && found.gl_pathc == 2, "glob");
    globfree(&found);
    if (!symlink("b", at("f/link"))) {
        check(readlink(at("f/link"), bytes, sizeof bytes) == 1 && bytes[0] == 'b' && !lstat(at("f/link"), &about) && S_ISLNK(about.st_mode) && holds("f/link", "c"), "a symbolic link");
        check(open(at("f/link"), O_RDONLY | O_NOFOLLOW) < 0 && errno == ELOOP && !unlink(at("f/link")), "not followed where it shall not be");
        check(!symlink(at("f/b"), at("f/whole")) && holds("f/whole", "c") && !stat(at("f/whole"), &about) && about.st_size == 1, "one with an absolute name");
        check(realpath(at("f/whole"), bytes) && !strcmp(bytes, at("f/b")), "realpath");
        unlink(at("f/whole"));
        // `..` counts from where the link before it leads, here f/sub/deep.
        check(!mkdir(at("f/sub/deep"), 0700) && !symlink("sub/deep", at("f/d")) && !symlink("d/../b", at("f/to")), "links with .. in their targets");
        check(open(at("f/to"), O_RDONLY) < 0 && errno == ENOENT && stat(at("f/to"), &about) < 0 && errno == ENOENT, "none of them is read as text");
        check(!realpath(at("f/to"), bytes) && errno == ENOENT && realpath(at("f/d"), bytes) && !strcmp(bytes, at("f/sub/deep")), "nor by realpath");
        check(!symlink("/etc/../etc/passwd", at("f/out")) && !symlink("../../../../../../../../../../../../etc", at("f/up")), "links that lead out of the mount");
        const char *out[] = {"f/out", "f/up/passwd", "f/./up/passwd"};
        for (int n = 0; n < 3; n++) {
            fd = open(at(out[n]), O_RDONLY);
            check(fd >= 0 && read(fd, bytes, 4) == 4 && !close(fd) && !stat(at(out[n]), &about) && S_ISREG(about.st_mode) && realpath(at(out[n]), bytes) && !strcmp(bytes, "/etc/passwd"), out[n]);
        }
        // A folder outside of the mount gets plain files.
        char outside[] = "/tmp/thalweg-outside-XXXXXX";
        check(mkdtemp(outside) && !symlink(outside, at("f/folder")), "a folder outside");
        fd = open(at("f/folder/new"), O_WRONLY | O_CREAT | O_EXCL, 0600);
        check(fd >= 0 && write(fd, "plain", 5) == 5 && !close(fd), "a new file in it");
        snprintf(bytes, sizeof bytes, "%s/new", outside);
        check(!stat(bytes, &about) && about.st_size == 5, "is a plain file");
        fd = open(at("f/folder/new"), O_WRONLY | O_TRUNC);
        check(fd >= 0 && !fstat(fd, &about) && about.st_size == 0 && !close(fd) && !unlink(bytes) && !rmdir(outside) && !unlink(at("f/folder")), "and is cut there");
        check(!unlink(at("f/out")) && !unlink(at("f/up")) && !unlink(at("f/to")) && !unlink(at("f/d")) && !rmdir(at("f/sub/deep")), "and goes on without them");
    } else {
        check(errno == EPERM || errno == EOPNOTSUPP, "no symbolic links, and it says so");
    }
    check(!chmod(at("f/b"), 0604) && !stat(at("f/b"), &about) && (about.st_mode & 0777) == 0604, "chmod");
    struct timespec times[2] = {{1000000000, 5}, {1100000000, 7}};
    check(!utimensat(AT_FDCWD, at("f/b"), times, 0) && !stat(at("f/b"), &about) && about.st_mtim.tv_sec == 1100000000, "utimensat");
    check(mkfifo(at("fifo"), 0600) < 0 ? errno == EPERM : !unlink(at("fifo")), "no pipes in layouts");
    struct statvfs room;
    check(!statvfs(at("f"), &room) && room.f_blocks > 0, "statvfs");
    char template[4200];
    snprintf(template, sizeof template, "%s", at("f/tmpXXXXXX"));
    fd = mkstemp(template);
    check(fd >= 0 && write(fd, "t", 1) == 1 && !close(fd) && !unlink(template), "mkstemp");
    char before[4096], here[4096];
    check(getcwd(before, sizeof before) && !chdir(at("f")) && getcwd(here, sizeof here) && !strcmp(here, at("f")), "chdir and getcwd");
    fd = open("b", O_RDONLY);
    check(fd >= 0 && read(fd, bytes, 1) == 1 && bytes[0] == 'c' && !close(fd) && !access("../f/b", R_OK), "relative names");
    pid_t child = fork();
    if (!child) {
        execlp("test", "test", "-s", "b", (char *)NULL);
        _exit(1);
    }
    int status = 1;
    waitpid(child, &status, 0);
    check(!status, "for other programs too");
    check(!chdir(before) && getcwd(here, sizeof here) && !strcmp(here, before), "and back");
    check(!unlink(at("f/b")) && !rmdir(at("f/sub")) && !rmdir(at("f")) && access(at("f"), F_OK) < 0, "all removed");
}

static void streams(void)
{
    char line[64];
    FILE *f = fopen(at("s"), "w+");
    check(f && fprintf(f, "%d %s\n", 42, "words") == 9 && !fflush(f) && fileno(f) > 2 && lseek(fileno(f), 0, SEEK_CUR) == 9, "fopen, fprintf, fileno");
    rewind(f);
    check(fgets(line, sizeof line, f) && !strcmp(line, "42 words\n") && ftell(f) == 9 && !fgets(line, sizeof line, f) && feof(f), "fgets and ftell");
    check(!fseek(f, 3, SEEK_SET) && fputs("WORDS", f) >= 0 && !fclose(f) && holds("s", "42 WORDS\n"), "fseek and fputs");
    f = fopen(at("s"), "a");
    check(f && fputs("more\n", f) >= 0 && !fclose(f) && holds("s", "42 WORDS\nmore\n"), "append");
    check(!fopen(at("s"), "wx") && errno == EEXIST && !fopen(at("no"), "r") && errno == ENOENT, "fopen fails as open does");
    int fd = open(at("s"), O_RDONLY);
    f = fdopen(fd, "r");
    check(f && fgets(line, sizeof line, f) && !strcmp(line, "42 WORDS\n") && !fclose(f) && fcntl(fd, F_GETFD) < 0, "fdopen");
    fflush(stdout);
    int saved = dup(1);
    fd = open(at("out"), O_WRONLY | O_CREAT, 0644);
    dup2(fd, 1);
    close(fd);
    printf("printed");
    puts(" here");
    fflush(stdout);
    if (system("echo from a shell")) failed = 1;
    dup2(saved, 1);
    close(saved);
    check(holds("out", "printed here\nfrom a shell\n"), "standard output may be a file of a mount");
    f = fopen(at("r"), "w");
    fputs("a", f);
    f = freopen(at("r2"), "w", f);
    check(f && fputs("b", f) >= 0 && !fclose(f) && holds("r", "a") && holds("r2", "b"), "freopen");
}

static void moves(void)
{
    char bytes[64];
    put("from", "0123456789");
    int in = open(at("from"), O_RDONLY), out = open(at("to"), O_RDWR | O_CREAT | O_TRUNC, 0644);
    off_t offset = 2;
    check(sendfile(out, in, &offset, 4) == 4 && offset == 6 && lseek(in, 0, SEEK_CUR) == 0, "sendfile");
    off_t to = 8;
    ssize_t copied = copy_file_range(in, NULL, out, &to, 5, 0);
    check(copied == 5 && to == 13 && lseek(in, 0, SEEK_CUR) == 5 && pread(out, bytes, 20, 0) == 13 && !memcmp(bytes, "2345\0\0\0\0" "01234", 13), "copy_file_range");
    int plain = open("/tmp", O_TMPFILE | O_RDWR, 0600);
    check(plain < 0 || (sendfile(plain, in, NULL, 100) == 5 && pread(plain, bytes, 9, 0) == 5 && bytes[0] == '5'), "to a plain file");
    close(in);
    close(out);
    close(plain);
}

static void extended(void)
{
    char bytes[64];
    put("x", "x");
    if (setxattr(at("x"), "user.k", "value", 5, XATTR_CREATE)) {
        check(errno == EOPNOTSUPP, "no extended attributes, and it says so");
        return;
    }
    int fd = open(at("x"), O_RDWR);
    check(setxattr(at("x"), "user.k", "v", 1, XATTR_CREATE) < 0 && errno == EEXIST && getxattr(at("x"), "user.k", NULL, 0) == 5 && fgetxattr(fd, "user.k", bytes, 64) == 5 && !memcmp(bytes, "value", 5), "extended attributes");
    check(!fsetxattr(fd, "user.l", "", 0, 0) && listxattr(at("x"), bytes, 64) >= 14 && !removexattr(at("x"), "user.k") && getxattr(at("x"), "user.k", bytes, 64) < 0 && errno == ENODATA, "listed and removed");
    close(fd);
}

static void *appender(void *argument)
{
    int fd = *(int *)argument;
    for (int i = 0; i < 200; i++)
        if (write(fd, "0123456", 7) != 7) failed = 1;
    return NULL;
}

static void threads(void)
{
    pthread_t all[4];
    int fds[4];
    struct stat about;
    for (int i = 0; i < 4; i++) {
        fds[i] = open(at("threads"), O_WRONLY | O_CREAT | O_APPEND, 0644);
        pthread_create(&all[i], NULL, appender, &fds[i]);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(all[i], NULL);
        close(fds[i]);
    }
    check(!stat(at("threads"), &about) && about.st_size == 4 * 200 * 7, "appends of four threads never meet");
}

static unsigned char value(unsigned long byte)
{
    return (unsigned char)((byte * 2654435761u) >> 13);
}

static int records(char **argument, int writes)
{
    unsigned long rank = strtoul(argument[3], NULL, 10), ranks = strtoul(argument[4], NULL, 10), unit = strtoul(argument[5], NULL, 10), rounds = strtoul(argument[6], NULL, 10);
    unsigned char *record = malloc(unit);
    int fd = open(argument[2], writes ? O_WRONLY | O_CREAT : O_RDONLY, 0644), good = fd >= 0;
    for (unsigned long round = 0; round < rounds; round++) {
        unsigned long offset = (round * ranks + (writes ? rank : (rank + 1) % ranks)) * unit;
        for (unsigned long i = 0; writes && i < unit; i++) record[i] = value(offset + i);
        ssize_t done = writes ? pwrite(fd, record, unit, (off_t)offset) : pread(fd, record, unit, (off_t)offset);
        good = good && done == (ssize_t)unit;
        for (unsigned long i = 0; !writes && i < unit; i++) good = good && record[i] == value(offset + i);
    }
    free(record);
    return close(fd) || !good;
}

int main(int count, char **argument)
{
    int lowest = open("/dev/null", O_RDONLY);
    close(lowest);
    if (count == 7) return records(argument, !strcmp(argument[1], "strided"));
    if (count == 4 && !strcmp(argument[1], "small")) return small(argument[2], atoi(argument[3]));
    int numbers_alone = count == 3 && !strcmp(argument[1], "numbers");
    if (count != 2 && !numbers_alone) return 2;
    umask(0022);
    snprintf(where, sizeof where, "%s/%s", argument[count - 1], numbers_alone ? "numbers" : "calls");
    check(!mkdir(where, 0755), "a folder for it");
    numbers(lowest);
    if (numbers_alone) return failed;
    transfers();
    descriptors();
    maps();
    names();
    streams();
    moves();
    extended();
    threads();
    return failed;
}
