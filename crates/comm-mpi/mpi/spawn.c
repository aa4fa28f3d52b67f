/* Starts processes with MPI_Comm_spawn: see thalweg_mpi_spawn.h. Uses a communicator of its own, whose errors are returned. */
#include <dlfcn.h>
#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "thalweg_mpi.h"
#include "thalweg_mpi_spawn.h"

#ifdef OPEN_MPI
#define OF_MPI "openmpi"
#else
#define OF_MPI "mpich"
#endif

typedef struct Spawned {
    MPI_Comm with;
    int count; /* of processes, one per host */
} Spawned;

/* From the folder of this library to that of spawn-MPI; ./dev install tells it where libraries do not lie in PREFIX/lib. */
#ifndef THALWEG_LIBEXEC
#define THALWEG_LIBEXEC "../libexec/thalweg"
#endif

/* The program spawned.c, PREFIX/libexec/thalweg/spawn-MPI. 0: it is not there. */
static int find_program(char *path, size_t room, char *said, size_t said_room) {
    Dl_info about;
    char library[PATH_MAX];
    if (!dladdr((void *)(uintptr_t)&thalweg_mpi_spawner, &about) || !about.dli_fname || !realpath(about.dli_fname, library)) {
        snprintf(said, said_room, "the folder of this library is not known");
        return 0;
    }
    char *slash = strrchr(library, '/');
    if (slash) *slash = 0;
    int length = snprintf(path, room, "%s/" THALWEG_LIBEXEC "/spawn-" OF_MPI, library);
    if (length > 0 && (size_t)length < room && access(path, X_OK) == 0) return 1;
    snprintf(said, said_room, "there is no program %.1000s", path);
    return 0;
}

/* How many nodes the job has; 0: not known. */
static int nodes_of_job(void) {
#ifdef OPEN_MPI
    const char *told = getenv("OMPI_MCA_orte_num_nodes");
    int nodes = told ? atoi(told) : 0;
    return nodes > 0 && nodes < 1 << 20 ? nodes : 0;
#else
    return 0;
#endif
}

/* The command behind `at`, of which `end` is the end; null behind the last one. */
static const char *next_command(const char *at, const char *end) {
    while (at < end && *at) at += strlen(at) + 1;
    return at + 1 < end ? at + 1 : NULL;
}

/* Whether two names are of one host: the same, or the same up to the first dot where one has no more. */
static int same_host(const char *a, const char *b) {
    size_t short_a = strcspn(a, "."), short_b = strcspn(b, ".");
    return strcmp(a, b) == 0 || ((!a[short_a] || !b[short_b]) && short_a == short_b && strncmp(a, b, short_a) == 0);
}

static void tell(const char *what, int code, char *said, size_t room) {
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(code, text, &length);
    snprintf(said, room, "%s: %s", what, text);
    /* One line. */
    for (char *at = said; *at; at++)
        if (*at == '\n') *at = ' ';
}

/* One name per process. */
enum { WIDTH = MPI_MAX_PROCESSOR_NAME + 1 };

/* The process on a command's host; -1: none is there. */
static int process_on(const char *host, const char *names, int count) {
    char here[WIDTH] = "";
    int length = 0, to = 0;
    if (strcmp(host, ".") == 0) {
        if (count == 1) return 0;
        MPI_Get_processor_name(here, &length);
        host = here;
    }
    while (to < count && !same_host(names + (size_t)to * WIDTH, host)) to++;
    return to < count ? to : -1;
}

/* Sends a command, with its number, to a process. */
static int send_command(MPI_Comm with, int to, const char *command, const char *end, int number) {
    const char *words = command + strlen(command) + 1, *last = words;
    char first[16];
    int room = snprintf(first, sizeof first, "%d", number) + 1;
    while (last < end && *last) last += strlen(last) + 1;
    size_t bytes = (size_t)room + (size_t)(last - words);
    char *message = malloc(bytes);
    if (!message) return MPI_ERR_NO_MEM;
    memcpy(message, first, (size_t)room);
    memcpy(message + room, words, (size_t)(last - words));
    int code = MPI_Send(message, (int)bytes, MPI_CHAR, to, THALWEG_SPAWN_COMMAND, with);
    free(message);
    return code;
}

static void let_go(void *of, int end) {
    Spawned *spawned = of;
    char word = end ? THALWEG_SPAWN_END : THALWEG_SPAWN_GO_ON;
    int code = MPI_SUCCESS;
    for (int i = 0; i < spawned->count && code == MPI_SUCCESS; i++)
        code = MPI_Send(&word, 1, MPI_CHAR, i, THALWEG_SPAWN_LET_GO, spawned->with);
    if (code == MPI_SUCCESS) MPI_Comm_disconnect(&spawned->with);
    free(spawned);
}

/* Hands each command to the process on its host. 0, with the reason: a host is none of the job's, before anything has started, or a
 * process cannot be reached. */
static int hand_out(Spawned *spawned, const char *words, uint64_t bytes, char *said, uint64_t room) {
    const char *end = words + bytes;
    char *names = calloc((size_t)spawned->count, WIDTH);
    int code = names ? MPI_SUCCESS : MPI_ERR_NO_MEM, number = 0, is_known = 1;
    for (int i = 0; i < spawned->count && code == MPI_SUCCESS; i++)
        code = MPI_Recv(names + (size_t)i * WIDTH, WIDTH - 1, MPI_CHAR, i, THALWEG_SPAWN_HOST, spawned->with, MPI_STATUS_IGNORE);
    for (const char *at = words; at && code == MPI_SUCCESS && is_known; at = next_command(at, end))
        if (process_on(at, names, spawned->count) < 0) {
            snprintf(said, room, "host %.200s is none of the job's %d", at, spawned->count);
            is_known = 0;
        }
    for (const char *at = words; at && code == MPI_SUCCESS && is_known; at = next_command(at, end))
        code = send_command(spawned->with, process_on(at, names, spawned->count), at, end, number++);
    if (code != MPI_SUCCESS) tell("a process that it started cannot be reached", code, said, room);
    free(names);
    return code == MPI_SUCCESS && is_known;
}

static void *spawn(const char *words, uint64_t bytes, char *said, uint64_t room) {
    char program[PATH_MAX + 64], here[MPI_MAX_PROCESSOR_NAME + 1];
    int level = MPI_THREAD_SINGLE, is_main = 1, length = 0, count = 1;
    *said = 0;
    if (thalweg_mpi_table()->ready() != THALWEG_MPI_READY) {
        snprintf(said, room, "it has not been initialised, or was finalised");
        return NULL;
    }
    if (MPI_Query_thread(&level) == MPI_SUCCESS && level < MPI_THREAD_MULTIPLE && MPI_Is_thread_main(&is_main) == MPI_SUCCESS && !is_main) {
        snprintf(said, room, "this thread may not call it");
        return NULL;
    }
    for (const char *at = words; at; at = next_command(at, words + bytes))
        if (strcmp(at, ".") != 0) count = nodes_of_job();
    if (count == 0) {
        snprintf(said, room, "servers are on other hosts, and this MPI does not say how many nodes the job has");
        return NULL;
    }
    if (!find_program(program, sizeof program, said, room)) return NULL;
    MPI_Comm own = MPI_COMM_NULL;
    MPI_Info info = MPI_INFO_NULL;
    Spawned *spawned = malloc(sizeof *spawned);
    int code = spawned ? MPI_Comm_dup(MPI_COMM_SELF, &own) : MPI_ERR_NO_MEM;
    if (code == MPI_SUCCESS) code = MPI_Comm_set_errhandler(own, MPI_ERRORS_RETURN);
    if (code == MPI_SUCCESS) code = MPI_Info_create(&info);
    if (code == MPI_SUCCESS && count == 1) {
        code = MPI_Get_processor_name(here, &length);
        if (code == MPI_SUCCESS) code = MPI_Info_set(info, "host", here);
    }
    /* Open MPI's own; others ignore it. The processes take no slots, as they do nothing but wait. */
    if (code == MPI_SUCCESS) code = MPI_Info_set(info, "map_by", count == 1 ? "node:OVERSUBSCRIBE" : "ppr:1:node:OVERSUBSCRIBE");
    if (code == MPI_SUCCESS) code = MPI_Comm_spawn(program, MPI_ARGV_NULL, count, info, 0, own, &spawned->with, MPI_ERRCODES_IGNORE);
    if (code == MPI_SUCCESS) code = MPI_Comm_set_errhandler(spawned->with, MPI_ERRORS_RETURN);
    if (code != MPI_SUCCESS) {
        tell("MPI_Comm_spawn", code, said, room);
        free(spawned);
        spawned = NULL;
    }
    if (info != MPI_INFO_NULL) MPI_Info_free(&info);
    if (own != MPI_COMM_NULL) MPI_Comm_free(&own);
    if (spawned) {
        spawned->count = count;
        if (!hand_out(spawned, words, bytes, said, room)) {
            let_go(spawned, 1);
            spawned = NULL;
        }
    }
    return spawned;
}

static int ended(void *of, int *which, int *status, char *said, uint64_t room) {
    Spawned *spawned = of;
    int any = 0, bytes = 0, behind = 0;
    MPI_Status about;
    *said = 0;
    if (MPI_Iprobe(MPI_ANY_SOURCE, THALWEG_SPAWN_ENDED, spawned->with, &any, &about) != MPI_SUCCESS || !any) return 0;
    MPI_Get_count(&about, MPI_CHAR, &bytes);
    char *text = bytes >= 0 ? calloc(1, (size_t)bytes + 1) : NULL;
    if (!text) return 0;
    int code = MPI_Recv(text, bytes, MPI_CHAR, about.MPI_SOURCE, THALWEG_SPAWN_ENDED, spawned->with, MPI_STATUS_IGNORE);
    int known = code == MPI_SUCCESS && sscanf(text, "%d %d\n%n", which, status, &behind) >= 2;
    if (known) snprintf(said, room, "%s", text + behind);
    free(text);
    return known;
}

const ThalwegMpiSpawner *thalweg_mpi_spawner(void) {
    static const ThalwegMpiSpawner spawner = {spawn, ended, let_go};
    return &spawner;
}
