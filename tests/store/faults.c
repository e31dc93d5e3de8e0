/* Let system calls that write fail on purpose: loaded before libc, armed and asked by faulty.py and killed.py. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <sys/types.h>
#include <unistd.h>

static long left = -1, failing = 0, seen = 0;
static int problem = 0;

/* From the call after `after` others on, `count` calls fail with `error`, or the process is killed if that is 0;
   a negative `after`: none. */
void fault_arm(long after, long count, int error) { left = after; failing = count; problem = error; seen = 0; }
long fault_seen(void) { return seen; }

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

#define WRAP(result, name, parameters, arguments)                       \
    result name parameters {                                            \
        static result (*real) parameters;                               \
        if (!real) *(void **)&real = dlsym(RTLD_NEXT, #name);           \
        return fails() ? -1 : real arguments;                           \
    }

WRAP(ssize_t, pwrite, (int f, const void *b, size_t n, off_t o), (f, b, n, o))
WRAP(ssize_t, pwrite64, (int f, const void *b, size_t n, off64_t o), (f, b, n, o))
WRAP(int, fsync, (int f), (f))
WRAP(int, fdatasync, (int f), (f))
WRAP(int, ftruncate, (int f, off_t n), (f, n))
WRAP(int, ftruncate64, (int f, off64_t n), (f, n))
WRAP(int, unlink, (const char *p), (p))
WRAP(int, rename, (const char *p, const char *q), (p, q))
