/* A file that random operations are done to, held against a copy in memory, in the manner of fsx.
 *
 *     exercise [-s SEED] [-n OPERATIONS] [-l LONGEST] [-o LARGEST] [-w WRITER] [-k FILE] [-x LETTERS] [-b OPERATION] [-v] PATH
 *
 *   -s  which operations: the same seed does the same ones. Default 1
 *   -n  how many. Default 1000
 *   -l  longest the file becomes, in bytes. Default 262144
 *   -o  most bytes of one operation. Default 65536
 *   -w  number of the writer, with thalweg_file_ calls. Default 0
 *   -k  leave PATH, and put a copy of what it should hold into FILE
 *   -x  leave out: m mmap, r rename while open, p path calls (truncate, stat), a O_APPEND, d second descriptors
 *   -b  forget to write from this operation on, which has to be noticed: checks the exerciser
 *   -v  say each operation before it is done
 *
 * Compiled as it is, the calls are those of POSIX; with -DTHALWEG_CALLS they are thalweg_file_ calls. Ends with 0 where file and
 * copy never differed, else with 1 after the operations that came before, and 2 for wrong arguments. A file PATH that is there is removed
 * first; anything else there is refused. Nothing else may use PATH. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#ifdef THALWEG_CALLS
#include "thalweg.h"
#endif

enum { MEMORY = 60, WORDS = 160 };

static const char *path;
static char other[4200];
static uint64_t seed = 1, operations = 1000, longest = 262144, largest = 65536, number, forget;
static uint32_t writer;
static const char *keep, *without = "";
static int verbose, renamed;

static uint8_t *model, *memory;
static uint32_t *wrote; /* which operation each byte of the model is of */
static uint64_t length;
static char told[MEMORY][WORDS];
static uint64_t state;

static uint64_t random64(void)
{
    uint64_t z = (state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static uint64_t below(uint64_t end)
{
    return end ? random64() % end : 0;
}

/* Small as often as large. */
static uint64_t some_length(uint64_t most)
{
    return most ? 1 + below(below(4) ? 1 + below(most) : most) : 0;
}

static int has(char letter)
{
    return !strchr(without, letter);
}

static const char *name(void)
{
    return renamed ? other : path;
}

__attribute__((format(printf, 1, 2))) static void tell(const char *format, ...)
{
    va_list arguments;
    char *line = told[number % MEMORY];
    int at = snprintf(line, WORDS, "%8llu  ", (unsigned long long)number);
    va_start(arguments, format);
    vsnprintf(line + at, WORDS - (size_t)at, format, arguments);
    va_end(arguments);
    if (verbose) {
        puts(line);
        fflush(stdout);
    }
}

__attribute__((noreturn, format(printf, 1, 2))) static void fail(const char *format, ...)
{
    va_list arguments;
    fprintf(stderr, "exercise of %s, seed %llu: the last operations were\n", path, (unsigned long long)seed);
    for (uint64_t n = number > MEMORY ? number - MEMORY + 1 : 1; n <= number; n++) fprintf(stderr, "%s\n", told[n % MEMORY]);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fprintf(stderr, "\nThe file should hold %llu bytes. Again with: exercise -s %llu -n %llu -l %llu -o %llu%s%s %s\n",
            (unsigned long long)length, (unsigned long long)seed, (unsigned long long)number, (unsigned long long)longest,
            (unsigned long long)largest, *without ? " -x " : "", without, path);
    exit(1);
}

/* What was read of `count` bytes from `offset`, `got` of them, against the model. */
static void compare(const char *how, uint64_t offset, uint64_t count, uint64_t got)
{
    uint64_t there = offset < length ? length - offset : 0;
    uint64_t wanted = count < there ? count : there;
    for (uint64_t i = 0; i < got && i < wanted; i++)
        if (memory[i] != model[offset + i]) {
            uint64_t differ = 0;
            for (uint64_t j = i; j < got && j < wanted; j++) differ += memory[j] != model[offset + j];
            fail("%s: byte %llu is 0x%02x and should be 0x%02x, as of operation %u; %llu bytes differ from there to byte %llu", how,
                 (unsigned long long)(offset + i), memory[i], model[offset + i], wrote[offset + i], (unsigned long long)differ,
                 (unsigned long long)(offset + wanted));
        }
    if (got != wanted)
        fail("%s: %llu bytes from byte %llu and not %llu", how, (unsigned long long)got, (unsigned long long)offset,
             (unsigned long long)wanted);
}

static void set_length(uint64_t to)
{
    for (uint64_t i = length; i < to; i++) {
        model[i] = 0;
        wrote[i] = (uint32_t)number;
    }
    length = to;
}

/* The bytes of one write, in the model and in `memory`. */
static void make(uint64_t offset, uint64_t count)
{
    if (offset > length) set_length(offset);
    for (uint64_t i = 0; i < count; i++) {
        memory[i] = model[offset + i] = (uint8_t)(random64() >> 13);
        wrote[offset + i] = (uint32_t)number;
    }
    if (length < offset + count) length = offset + count;
}

#ifdef THALWEG_CALLS

static thalweg_file *file;

static void must(int status, const char *what)
{
    if (status) fail("%s: %s", what, thalweg_last_error()->text);
}

static void open_file(int fresh)
{
    must(thalweg_file_open(&file, name(), THALWEG_FILE_READ | THALWEG_FILE_WRITE | THALWEG_FILE_CREATE | (fresh ? THALWEG_FILE_TRUNCATE : 0), writer),
         "open");
}

static void close_file(void)
{
    must(thalweg_file_close(file), "close");
    file = NULL;
}

static void put(uint64_t offset, uint64_t count)
{
    must(thalweg_file_write(file, memory, count, offset), "write");
}

static void append(uint64_t count)
{
    uint64_t end = 0;
    must(thalweg_file_length(file, &end), "length");
    if (end != length) fail("the file ends at byte %llu", (unsigned long long)end);
    make(length, count);
    put(end, count);
}

static void get(uint64_t offset, uint64_t count, const char *how)
{
    uint64_t got = 0;
    must(thalweg_file_read(file, memory, count, offset, &got), "read");
    compare(how, offset, count, got);
}

/* Through a handle of its own. */
static void get_apart(uint64_t offset, uint64_t count)
{
    thalweg_file *apart = NULL;
    uint64_t got = 0;
    must(thalweg_file_open(&apart, name(), THALWEG_FILE_READ, writer), "open for reading");
    must(thalweg_file_read(apart, memory, count, offset, &got), "read");
    must(thalweg_file_close(apart), "close");
    compare("read through another handle", offset, count, got);
}

static void cut(uint64_t to)
{
    must(thalweg_file_truncate(file, to), "truncate");
}

static void sync_file(void)
{
    must(thalweg_file_sync(file), "sync");
}

static void look(void)
{
    uint64_t end = 0;
    thalweg_file_about about;
    must(thalweg_file_length(file, &end), "length");
    if (end != length) fail("the length is %llu", (unsigned long long)end);
    if (!has('p')) return;
    must(thalweg_file_stat(name(), &about), "stat");
    if (about.length != length) fail("stat says that the length is %llu", (unsigned long long)about.length);
}

static void move(const char *from, const char *to)
{
    must(thalweg_file_rename(from, to), "rename");
}

static void remove_file(const char *which)
{
    must(thalweg_file_unlink(which), "unlink");
}

static void clear(void)
{
    (void)thalweg_file_unlink(path);
    (void)thalweg_file_unlink(other);
}

#else

static int file = -1;
static int appending;

static void must(int good, const char *what)
{
    if (!good) fail("%s: %s", what, strerror(errno));
}

static void open_file(int fresh)
{
    appending = !fresh && has('a') && below(5) == 0;
    file = open(name(), O_RDWR | O_CREAT | (fresh ? O_TRUNC : 0) | (appending ? O_APPEND : 0), 0644);
    must(file >= 0, "open");
}

static void close_file(void)
{
    must(close(file) == 0, "close");
    file = -1;
}

/* Both positions and both ways to pass memory. */
static void put(uint64_t offset, uint64_t count)
{
    int at_position = below(3) == 0, in_pieces = below(4) == 0;
    if (at_position) must(lseek(file, (off_t)offset, SEEK_SET) == (off_t)offset, "lseek");
    for (uint64_t done = 0; done < count;) {
        uint64_t half = in_pieces ? below(count - done) : 0;
        struct iovec pieces[2] = {{memory + done, half}, {memory + done + half, count - done - half}};
        ssize_t wrote_now;
        if (in_pieces)
            wrote_now = at_position ? writev(file, pieces, 2) : pwritev(file, pieces, 2, (off_t)(offset + done));
        else
            wrote_now = at_position ? write(file, memory + done, count - done) : pwrite(file, memory + done, count - done, (off_t)(offset + done));
        must(wrote_now > 0, "write");
        done += (uint64_t)wrote_now;
    }
    if (at_position) must(lseek(file, 0, SEEK_CUR) == (off_t)(offset + count), "the position after a write");
}

static void append(uint64_t count)
{
    make(length, count);
    if (appending) {
        for (uint64_t done = 0; done < count;) {
            ssize_t now = write(file, memory + done, count - done);
            must(now > 0, "write at the end");
            done += (uint64_t)now;
        }
        return;
    }
    off_t end = lseek(file, 0, SEEK_END);
    must(end >= 0, "lseek to the end");
    if ((uint64_t)end != length - count) fail("the file ends at byte %llu", (unsigned long long)end);
    put((uint64_t)end, count);
}

static void get_from(int from, uint64_t offset, uint64_t count, const char *how)
{
    int at_position = below(3) == 0, in_pieces = below(4) == 0;
    uint64_t done = 0;
    if (at_position) must(lseek(from, (off_t)offset, SEEK_SET) == (off_t)offset, "lseek");
    while (done < count) {
        uint64_t half = in_pieces ? below(count - done) : 0;
        struct iovec pieces[2] = {{memory + done, half}, {memory + done + half, count - done - half}};
        ssize_t now;
        if (in_pieces)
            now = at_position ? readv(from, pieces, 2) : preadv(from, pieces, 2, (off_t)(offset + done));
        else
            now = at_position ? read(from, memory + done, count - done) : pread(from, memory + done, count - done, (off_t)(offset + done));
        must(now >= 0, "read");
        if (now == 0) break;
        done += (uint64_t)now;
    }
    if (at_position) must(lseek(from, 0, SEEK_CUR) == (off_t)(offset + done), "the position after a read");
    compare(how, offset, count, done);
}

static void get(uint64_t offset, uint64_t count, const char *how)
{
    if (has('m') && below(4) == 0 && offset < length) {
        uint64_t start = offset & ~(uint64_t)4095;
        uint64_t end = offset + count < length ? offset + count : length;
        struct stat about;
        must(fstat(file, &about) == 0, "fstat");
        if ((uint64_t)about.st_size < length) fail("before mmap, fstat says that the length is %llu", (unsigned long long)about.st_size);
        uint8_t *mapped = mmap(NULL, end - start, PROT_READ, below(2) ? MAP_PRIVATE : MAP_SHARED, file, (off_t)start);
        must(mapped != MAP_FAILED, "mmap");
        memcpy(memory, mapped + (offset - start), end - offset);
        /* What is mapped of the last page behind the end of the file is zeros. */
        for (uint64_t i = end; end == length && i % 4096; i++)
            if (mapped[i - start]) fail("mmap: byte %llu, behind the end, is 0x%02x", (unsigned long long)i, mapped[i - start]);
        must(munmap(mapped, end - start) == 0, "munmap");
        compare("mmap", offset, count, end - offset);
        return;
    }
    get_from(file, offset, count, how);
}

static void get_apart(uint64_t offset, uint64_t count)
{
    int of_file = file >= 0 && below(2), apart = of_file ? dup(file) : open(name(), O_RDONLY);
    must(apart >= 0, of_file ? "dup" : "open for reading");
    get_from(apart, offset, count, of_file ? "read through a dup" : "read through another descriptor");
    must(close(apart) == 0, "close");
}

static void cut(uint64_t to)
{
    if (has('p') && below(3) == 0) must(truncate(name(), (off_t)to) == 0, "truncate");
    else must(ftruncate(file, (off_t)to) == 0, "ftruncate");
}

static void sync_file(void)
{
    must((below(2) ? fsync(file) : fdatasync(file)) == 0, "fsync");
}

static void look(void)
{
    struct stat about;
    must(fstat(file, &about) == 0, "fstat");
    if ((uint64_t)about.st_size != length) fail("fstat says that the length is %llu", (unsigned long long)about.st_size);
    if (!has('p')) return;
    must(stat(name(), &about) == 0, "stat");
    if ((uint64_t)about.st_size != length) fail("stat says that the length is %llu", (unsigned long long)about.st_size);
}

static void move(const char *from, const char *to)
{
    must(rename(from, to) == 0, "rename");
}

static void remove_file(const char *which)
{
    must(unlink(which) == 0, "unlink");
}

static void clear(void)
{
    (void)unlink(path);
    (void)unlink(other);
}

#endif

static void operate(void)
{
    uint64_t kind = below(100), offset = 0, count = 0;
#ifndef THALWEG_CALLS
    if (appending && kind < 30) kind = 30;
#endif
    if (kind < 30) {
        offset = below(4) ? below(length + 1) : below(longest);
        count = some_length(longest - offset < largest ? longest - offset : largest);
        if (!count) return;
        tell("write %llu bytes at %llu%s", (unsigned long long)count, (unsigned long long)offset, offset > length ? ", behind the end" : "");
        make(offset, count);
        if (!forget || number < forget) put(offset, count);
    } else if (kind < 38) {
        count = some_length(longest - length < largest / 4 ? longest - length : largest / 4);
        if (!count) return;
        tell("append %llu bytes at %llu", (unsigned long long)count, (unsigned long long)length);
        append(count);
    } else if (kind < 68) {
        offset = below(8) ? below(length + 1) : below(longest);
        count = some_length(longest - offset < largest ? longest - offset : largest);
        if (!count) return;
        tell("read %llu bytes at %llu", (unsigned long long)count, (unsigned long long)offset);
        get(offset, count, "read");
    } else if (kind < 74 && has('d')) {
        offset = below(length + 1);
        count = some_length(largest);
        tell("read %llu bytes at %llu, opened apart", (unsigned long long)count, (unsigned long long)offset);
        get_apart(offset, count);
    } else if (kind < 80) {
        offset = below(5) ? below(length + 1) : 0;
        tell("truncate down to %llu", (unsigned long long)offset);
        cut(offset);
        set_length(offset);
    } else if (kind < 85) {
        offset = length + below(longest - length + 1);
        tell("truncate up to %llu", (unsigned long long)offset);
        cut(offset);
        set_length(offset);
    } else if (kind < 90) {
        tell("stat");
        look();
    } else if (kind < 93) {
        tell("sync");
        sync_file();
    } else if (kind < 98) {
        int fresh = below(12) == 0;
        tell(fresh ? "close and open emptied" : "close and open");
        close_file();
        open_file(fresh);
        if (fresh) set_length(0);
        look();
    } else if (kind == 98 && has('r')) {
        tell("rename");
        move(name(), renamed ? path : other);
        renamed = !renamed;
    } else if (kind == 99 && below(4) == 0) {
        tell("close, remove and make");
        close_file();
        remove_file(name());
        renamed = 0;
        set_length(0);
        open_file(0);
        look();
    } else {
        tell("read all %llu bytes", (unsigned long long)length);
        get(0, longest, "read");
    }
}

static uint64_t a_number(const char *text)
{
    char *end = NULL;
    uint64_t value = strtoull(text, &end, 10);
    if (!*text || *end) {
        fprintf(stderr, "exercise: %s is no number\n", text);
        exit(2);
    }
    return value;
}

int main(int argc, char **argv)
{
    int option;
    while ((option = getopt(argc, argv, "s:n:l:o:w:k:x:b:v")) != -1) switch (option) {
        case 's': seed = a_number(optarg); break;
        case 'n': operations = a_number(optarg); break;
        case 'l': longest = a_number(optarg); break;
        case 'o': largest = a_number(optarg); break;
        case 'w': writer = (uint32_t)a_number(optarg); break;
        case 'k': keep = optarg; break;
        case 'x': without = optarg; break;
        case 'b': forget = a_number(optarg); break;
        case 'v': verbose = 1; break;
        default: return 2;
        }
    if (optind + 1 != argc || !longest || !largest) {
        fprintf(stderr, "exercise [-s SEED] [-n OPERATIONS] [-l LONGEST] [-o LARGEST] [-w WRITER] [-k FILE] [-x LETTERS] [-b OPERATION] [-v] PATH\n");
        return 2;
    }
    path = argv[optind];
    snprintf(other, sizeof other, "%s.renamed", path);
    state = seed;
    model = calloc(longest, 1);
    memory = calloc(longest > largest ? longest : largest, 1);
    wrote = calloc(longest, sizeof *wrote);
    if (!model || !memory || !wrote) return 2;
    struct stat there;
    for (int i = 0; i < 2; i++)
        if (lstat(i ? other : path, &there) == 0 && !S_ISREG(there.st_mode)) {
            /* It is removed below, and not ours to remove. */
            fprintf(stderr, "exercise: %s is there and no file\n", i ? other : path);
            return 2;
        }
    clear();
    tell("open");
    open_file(1);
    for (number = 1; number <= operations; number++) operate();
    tell("read all at the end");
    get(0, longest, "read at the end");
    close_file();
    if (renamed) move(other, path);
    renamed = 0;
    get_apart(0, longest);
    if (keep) {
        FILE *copy = fopen(keep, "wb");
        if (!copy || fwrite(model, 1, length, copy) != length || fclose(copy)) {
            perror(keep);
            return 1;
        }
    } else {
        remove_file(path);
    }
    free(model);
    free(memory);
    free(wrote);
    return 0;
}
