/* SPDX-License-Identifier: Apache-2.0 */
/* The program `crio` of a node: what systemd starts and /proc/<pid>/exe names, as it would be CRI-O's. The stand-in is
   its child, which gets its signals, and ends with it: by the same status, or by the same signal. A subcommand takes
   its place. VERSION and STAND_IN, the file to run, are given when it is compiled. */
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define PYTHON "/usr/bin/python3"

static pid_t child;

static void forward(int number) { kill(child, number); }

int main(int count, char **words) {
    char **command = calloc(count + 2, sizeof *command);
    int at, status, has_verb = 0;
    command[0] = PYTHON;
    command[1] = STAND_IN;
    for (at = 1; at < count; at++) {
        command[at + 1] = words[at];
        /* A word that is no flag and no flag's value: `--flag value` is not written with `=` by whoever calls. */
        if (words[at][0] != '-' && (at == 1 || words[at - 1][0] != '-')) has_verb = 1;
        if (words[at][0] == '-' && (words[at][1] == 'v' || (words[at][1] == '-' && words[at][2] == 'v'))) has_verb = 1;
    }
    setenv("CRIO_VERSION", VERSION, 1);
    if (has_verb) {
        execv(PYTHON, command);
        return 127;
    }
    /* Until the child is there a signal has its default. */
    child = fork();
    if (child < 0) return 127;
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execv(PYTHON, command);
        _exit(127);
    }
    signal(SIGHUP, forward);
    signal(SIGTERM, forward);
    signal(SIGINT, forward);
    while (waitpid(child, &status, 0) != child) continue;
    if (WIFSIGNALED(status)) {
        signal(WTERMSIG(status), SIG_DFL);
        raise(WTERMSIG(status));
    }
    return WEXITSTATUS(status);
}
