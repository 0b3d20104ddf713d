/* Preloaded into every process of a test run (LD_PRELOAD), this counts each call that changes something on disk and,
 * at the call whose number it was given, ends processes or lets the call fail. The control block is a file that all
 * processes map; fault_library.py is the counterpart and explains the modes. Linux and the GNU C library. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>
#include <utime.h>

enum { COUNT, SELF, ALL, MAIN, TORN, FAIL, FAIL_ON, TOLD };
#define PIDS 500

static struct control {
    int armed, mode, at, error, count, fired, main, pids;
    int pid[PIDS];
} *control;
static int record = -1;
static char program[64];

static int armed(void) { return control && control->armed; }

static void note(int number, const char *call, const char *path)
{
    char line[600];
    int length = snprintf(line, sizeof line, "%d %s %s %s\n", number, program, call, path ? path : "-");
    if (length > (int)sizeof line - 1)
        length = sizeof line - 1;
    syscall(SYS_write, record, line, (size_t)length);
}

static void end_all(void)
{
    for (int n = control->pids - 1; n >= 0; n--)
        if (control->pid[n] != getpid())
            kill(control->pid[n], SIGKILL);
    kill(getpid(), SIGKILL);
}

/* Returns -1 with errno set where the call is to fail, 1 where a write is to be cut in two, else 0. */
static int event(const char *call, const char *path, int fails)
{
    int number;
    if (!armed())
        return 0;
    if (path && (!strncmp(path, "/dev/", 5) || !strncmp(path, "/proc/", 6)))
        return 0;
    number = __sync_fetch_and_add(&control->count, 1);
    note(number, call, path);
    if (number < control->at || (number > control->at && control->mode != FAIL_ON))
        return 0;
    if (control->mode != FAIL_ON || fails)
        control->fired = 1;
    switch (control->mode) {
    case SELF: kill(getpid(), SIGKILL); break;
    case ALL: end_all(); break;
    case MAIN: kill(control->main, SIGKILL); usleep(2000); break;
    case TOLD: kill(control->main, control->error); break;
    case TORN: return 1;
    case FAIL:
    case FAIL_ON:
        if (fails) {
            errno = control->error;
            return -1;
        }
    }
    return 0;
}

static const char *name_of(int descriptor, int folder)
{
    static char target[500];
    char link[40];
    ssize_t length;
    struct stat status;
    if (!folder && (fstat(descriptor, &status) || !S_ISREG(status.st_mode)))
        return NULL;
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    length = readlink(link, target, sizeof target - 1);
    if (length < 0)
        return NULL;
    target[length] = 0;
    return target;
}

static const char *at_path(int folder, const char *path)
{
    static char whole[1100];
    if (folder == AT_FDCWD || path[0] == '/')
        return path;
    snprintf(whole, sizeof whole, "%s/%s", name_of(folder, 1), path);
    return whole;
}

/* The program, and the command of a git: `git:commit`. */
static void name_program(void)
{
    char line[2000], *word, *name;
    int file = syscall(SYS_openat, AT_FDCWD, "/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t size = syscall(SYS_read, file, line, sizeof line - 1);
    syscall(SYS_close, file);
    line[size > 0 ? size : 0] = 0;
    name = strrchr(line, '/');
    name = name ? name + 1 : line;
    word = line + strlen(line) + 1;
    if (!strcmp(name, "git"))
        while (word < line + size && *word == '-')
            for (int skip = strcmp(word, "-c") ? 1 : 2; skip; skip--)
                word += strlen(word) + 1;
    else
        word = line + size;
    snprintf(program, sizeof program, word < line + size ? "%.20s:%.30s" : "%.20s", name, word);
    for (char *c = program; *c; c++)
        if (*c == ' ' || *c == '\n')
            *c = '_';
}

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("CRASH_CONTROL");
    char log[500];
    int file, slot;
    if (!path || (file = syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC)) < 0)
        return;
    control = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    syscall(SYS_close, file);
    if (control == MAP_FAILED) {
        control = NULL;
        return;
    }
    snprintf(log, sizeof log, "%s.log", path);
    record = syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (record >= 0 && record < 10) { /* out of the way of those who expect low numbers to be free */
        int high = fcntl(record, F_DUPFD_CLOEXEC, 100);
        syscall(SYS_close, record);
        record = high;
    }
    name_program();
    if (armed()) {
        slot = __sync_fetch_and_add(&control->pids, 1);
        if (slot < PIDS)
            control->pid[slot] = getpid();
        event("start", NULL, 0);
    }
}

__attribute__((destructor)) static void finish(void) { event("end", NULL, 0); }

#define REAL(name) \
    static __typeof__(name) *real; \
    if (!real) \
        real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)
#define CHANGES(flags) ((flags) & (O_CREAT | O_TRUNC))

#define OPEN(name) \
    int name(const char *path, int flags, ...) \
    { \
        REAL(name); \
        mode_t mode = 0; \
        if (flags & (O_CREAT | O_TMPFILE)) { \
            va_list rest; \
            va_start(rest, flags); \
            mode = va_arg(rest, mode_t); \
            va_end(rest); \
        } \
        if (CHANGES(flags) && event("open", path, 1) < 0) \
            return -1; \
        return real(path, flags, mode); \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name) \
    int name(int folder, const char *path, int flags, ...) \
    { \
        REAL(name); \
        mode_t mode = 0; \
        if (flags & (O_CREAT | O_TMPFILE)) { \
            va_list rest; \
            va_start(rest, flags); \
            mode = va_arg(rest, mode_t); \
            va_end(rest); \
        } \
        if (CHANGES(flags) && event("open", at_path(folder, path), 1) < 0) \
            return -1; \
        return real(folder, path, flags, mode); \
    }
OPENAT(openat)
OPENAT(openat64)

#define FOPEN(name) \
    FILE *name(const char *path, const char *how) \
    { \
        REAL(name); \
        if (strpbrk(how, "wa") && event("open", path, 1) < 0) \
            return NULL; \
        return real(path, how); \
    }
FOPEN(fopen)
FOPEN(fopen64)

static int cut(int descriptor, const char *call)
{
    const char *path = armed() ? name_of(descriptor, 0) : NULL;
    return path ? event(call, path, 1) : 0;
}

ssize_t write(int descriptor, const void *data, size_t size)
{
    REAL(write);
    int said = cut(descriptor, "write");
    if (said < 0)
        return -1;
    if (said > 0) {
        real(descriptor, data, size / 2);
        end_all();
    }
    return real(descriptor, data, size);
}

#define PWRITE(name, offset_type) \
    ssize_t name(int descriptor, const void *data, size_t size, offset_type offset) \
    { \
        REAL(name); \
        if (cut(descriptor, "pwrite") < 0) \
            return -1; \
        return real(descriptor, data, size, offset); \
    }
PWRITE(pwrite, off_t)
PWRITE(pwrite64, off64_t)

#define DESCRIPTOR(name, arguments, ...) \
    int name arguments \
    { \
        REAL(name); \
        if (armed() && event(#name, name_of(descriptor, 1), 1) < 0) \
            return -1; \
        return real(__VA_ARGS__); \
    }
DESCRIPTOR(fsync, (int descriptor), descriptor)
DESCRIPTOR(fdatasync, (int descriptor), descriptor)
DESCRIPTOR(ftruncate, (int descriptor, off_t size), descriptor, size)
DESCRIPTOR(ftruncate64, (int descriptor, off64_t size), descriptor, size)
DESCRIPTOR(fchmod, (int descriptor, mode_t mode), descriptor, mode)
DESCRIPTOR(fchown, (int descriptor, uid_t user, gid_t group), descriptor, user, group)

#define PATH(name, arguments, ...) \
    int name arguments \
    { \
        REAL(name); \
        if (armed() && event(#name, path, 1) < 0) \
            return -1; \
        return real(__VA_ARGS__); \
    }
PATH(unlink, (const char *path), path)
PATH(rmdir, (const char *path), path)
PATH(mkdir, (const char *path, mode_t mode), path, mode)
PATH(chmod, (const char *path, mode_t mode), path, mode)
PATH(truncate, (const char *path, off_t size), path, size)
PATH(truncate64, (const char *path, off64_t size), path, size)
PATH(rename, (const char *from, const char *path), from, path)
PATH(link, (const char *from, const char *path), from, path)
PATH(symlink, (const char *from, const char *path), from, path)
PATH(utime, (const char *path, const struct utimbuf *times), path, times)

#define AT(name, arguments, ...) \
    int name arguments \
    { \
        REAL(name); \
        if (armed() && event(#name, at_path(folder, path), 1) < 0) \
            return -1; \
        return real(__VA_ARGS__); \
    }
AT(unlinkat, (int folder, const char *path, int flags), folder, path, flags)
AT(mkdirat, (int folder, const char *path, mode_t mode), folder, path, mode)
AT(fchmodat, (int folder, const char *path, mode_t mode, int flags), folder, path, mode, flags)
AT(symlinkat, (const char *from, int folder, const char *path), from, folder, path)
AT(renameat, (int other, const char *from, int folder, const char *path), other, from, folder, path)
AT(renameat2, (int other, const char *from, int folder, const char *path, unsigned flags), other, from, folder, path, flags)
AT(linkat, (int other, const char *from, int folder, const char *path, int flags), other, from, folder, path, flags)
AT(utimensat, (int folder, const char *path, const struct timespec times[2], int flags), folder, path, times, flags)
