/* spawn-MPI: what spawn.c starts with MPI_Comm_spawn. Tells its host, starts each command that it is sent in a session of its own, tells
 * of commands that end, with what they said last, and leaves when it is let go, or ends them first. */
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "thalweg_mpi_spawn.h"

enum { LONGEST = 3000 }; /* of what a command says before it lets go of its streams */

typedef struct Command {
    struct Command *next;
    int number;
    char **words;
    pid_t process; /* 0: it has ended */
    int streams;   /* where it writes to; -1: it has let go of them */
    size_t length;
    char said[LONGEST + 1];
} Command;

static void run(char **words, int out) {
    int none = open("/dev/null", O_RDWR);
    setsid();
    dup2(none, 0);
    dup2(out, 1);
    dup2(out, 2);
    /* Connections of MPI, which are not to stay open. */
    for (int fd = 3, last = (int)sysconf(_SC_OPEN_MAX); fd < last && fd < 65536; fd++) close(fd);
    /* Doors: servers use no mounts themselves. */
    unsetenv("LD_PRELOAD");
    signal(SIGPIPE, SIG_DFL);
    execvp(words[0], words);
    dprintf(2, "cannot start %s: %s\n", words[0], strerror(errno));
    _exit(127);
}

static void start(Command *command) {
    int pipes[2];
    command->streams = -1;
    if (pipe(pipes) != 0) {
        pipes[0] = pipes[1] = -1;
    }
    command->process = fork();
    if (command->process == 0) run(command->words, pipes[1]);
    if (pipes[1] >= 0) close(pipes[1]);
    command->streams = pipes[0];
    if (pipes[0] >= 0) fcntl(pipes[0], F_SETFL, O_NONBLOCK);
}

/* Takes in what a command has said; the last bytes count. */
static void hear(Command *command) {
    char piece[1024];
    ssize_t got;
    while (command->streams >= 0 && (got = read(command->streams, piece, sizeof piece)) != 0) {
        if (got < 0) {
            if (errno == EINTR) continue;
            if (errno == EAGAIN) return;
            break;
        }
        size_t more = (size_t)got, kept = command->length + more > LONGEST ? LONGEST - more : command->length;
        memmove(command->said, command->said + command->length - kept, kept);
        memcpy(command->said + kept, piece, more);
        command->length = kept + more;
        command->said[command->length] = 0;
    }
    if (command->streams >= 0) close(command->streams);
    command->streams = -1;
}

static void look(Command *command, MPI_Comm parent) {
    int status = 0;
    hear(command);
    if (command->process == 0) return;
    if (command->process > 0 && waitpid(command->process, &status, WNOHANG) != command->process) return;
    if (command->process < 0) status = 127 << 8; /* fork failed */
    command->process = 0;
    hear(command);
    char text[LONGEST + 64];
    int length = snprintf(text, sizeof text, "%d %d\n%s", command->number, status, command->said);
    MPI_Send(text, length, MPI_CHAR, 0, THALWEG_SPAWN_ENDED, parent);
}

/* The command of a message: its number and its words, each with its NUL. Null for want of memory. It is kept until the end. */
static Command *command_of(char *message, int bytes) {
    Command *command = calloc(1, sizeof *command);
    char **words = calloc((size_t)bytes + 1, sizeof *words); /* a word is a byte at least */
    if (!command || !words) return NULL;
    command->number = atoi(message);
    command->words = words;
    for (char *at = message + strlen(message) + 1; at < message + bytes; at += strlen(at) + 1) *words++ = at;
    return command;
}

static Command *receive_command(const MPI_Status *about, MPI_Comm parent) {
    int bytes = 0;
    MPI_Get_count(about, MPI_CHAR, &bytes);
    char *message = calloc(1, (size_t)bytes + 1);
    Command *command = NULL;
    if (message && MPI_Recv(message, bytes, MPI_CHAR, 0, THALWEG_SPAWN_COMMAND, parent, MPI_STATUS_IGNORE) == MPI_SUCCESS)
        command = command_of(message, bytes);
    if (command && command->words[0]) start(command);
    return command;
}

int main(int argc, char **argv) {
    MPI_Comm parent = MPI_COMM_NULL;
    Command *commands = NULL, *at;
    char host[MPI_MAX_PROCESSOR_NAME + 1] = "", word = 0;
    int length = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    if (parent == MPI_COMM_NULL) {
        fprintf(stderr, "usage: this program is started by Thalweg, with MPI_Comm_spawn\n");
        MPI_Finalize();
        return 2;
    }
    MPI_Get_processor_name(host, &length);
    MPI_Send(host, length, MPI_CHAR, 0, THALWEG_SPAWN_HOST, parent);
    while (!word) {
        const struct timespec moment = {0, 5000000};
        MPI_Status about;
        int is_command = 0, is_end = 0;
        for (at = commands; at; at = at->next) look(at, parent);
        MPI_Iprobe(0, THALWEG_SPAWN_COMMAND, parent, &is_command, &about);
        if (is_command) {
            if (!(at = receive_command(&about, parent))) MPI_Abort(parent, 1);
            at->next = commands;
            commands = at;
            continue;
        }
        MPI_Iprobe(0, THALWEG_SPAWN_LET_GO, parent, &is_end, MPI_STATUS_IGNORE);
        if (is_end)
            MPI_Recv(&word, 1, MPI_CHAR, 0, THALWEG_SPAWN_LET_GO, parent, MPI_STATUS_IGNORE);
        else
            nanosleep(&moment, NULL);
    }
    for (at = commands; word == THALWEG_SPAWN_END && at; at = at->next)
        if (at->process > 0) kill(at->process, SIGTERM);
    for (at = commands; word == THALWEG_SPAWN_END && at; at = at->next)
        if (at->process > 0) waitpid(at->process, NULL, 0);
    MPI_Comm_disconnect(&parent);
    MPI_Finalize();
    return 0;
}
