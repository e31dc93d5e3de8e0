/* Let system calls that write fail on purpose: loaded before libc, armed and asked by faulty.py and killed.py. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static long left = -1, failing = 0, seen = 0;
static int problem = 0, told = -1;

/* From the call after `after` others on, `count` calls fail with `error`, or the process is killed if that is 0;
   a negative `after`: none. */
void fault_arm(long after, long count, int error) { left = after; failing = count; problem = error; seen = 0; }
long fault_seen(void) { return seen; }
/* Calls on files are told to this descriptor, by the name of the call and of the file; negative: to nobody. */
void fault_tell(int to) { told = to; }

static void tell(const char *call, int file) {
    char link[64], path[4096];
    if (told < 0 || file < 0) return;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t n = readlink(link, path, sizeof path - 1);
    path[n < 0 ? 0 : n] = 0;
    const char *base = strrchr(path, '/');
    dprintf(told, "%s %s\n", call, base ? base + 1 : path);
}

static int fails(void) {
    seen++;
    if (left < 0) return 0;
    if (left > 0) { left--; return 0; }
    if (failing == 0) { left = -1; return 0; }
    failing--;
    if (problem == 0) kill(getpid(), SIGKILL);
    errno = problem;
    return 1;
}

#define WRAP(result, name, call, file, parameters, arguments)           \
    result name parameters {                                            \
        static result (*real) parameters;                               \
        if (!real) *(void **)&real = dlsym(RTLD_NEXT, #name);           \
        tell(call, file);                                               \
        return fails() ? -1 : real arguments;                           \
    }

WRAP(ssize_t, pwrite, "write", f, (int f, const void *b, size_t n, off_t o), (f, b, n, o))
WRAP(ssize_t, pwrite64, "write", f, (int f, const void *b, size_t n, off64_t o), (f, b, n, o))
WRAP(int, fsync, "flush", f, (int f), (f))
WRAP(int, fdatasync, "flush", f, (int f), (f))
WRAP(int, ftruncate, "cut", f, (int f, off_t n), (f, n))
WRAP(int, ftruncate64, "cut", f, (int f, off64_t n), (f, n))
WRAP(int, unlink, "remove", -1, (const char *p), (p))
WRAP(int, rename, "rename", -1, (const char *p, const char *q), (p, q))
