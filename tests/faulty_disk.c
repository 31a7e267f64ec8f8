/* A disk that fails on purpose, loaded before libc (LD_PRELOAD). It counts the calls that change files in one folder,
   lets one of them fail, and keeps a journal of them, from which a test rebuilds what a loss of power would leave.
   Memory that is mapped isn't seen: SQLite keeps nothing there that has to last. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

enum { NONE, EIO_ONCE, NOSPACE_ONCE, SHORT, FULL, DEAD };

static char folder[4096];
static long at, calls;
static int kind, journal = -1, is_full;

#define REAL(type, name, ...) static type (*real)(__VA_ARGS__); \
    if (!real) real = (type (*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name)

void disk_arm(const char *path, long nth, int what, int log) {
    strncpy(folder, path, sizeof folder - 1);
    at = nth, kind = what, journal = log, calls = 0, is_full = 0;
}
long disk_calls(void) { return calls; }
void disk_disarm(void) { folder[0] = 0; }

static int is_watched(const char *path) { return folder[0] && !strncmp(path, folder, strlen(folder)); }

static int name_of(int fd, char *name) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, name, 4095);
    if (length < 0) return 0;
    name[length] = 0;
    return fd != journal && is_watched(name);
}

static void put(const void *data, size_t size) {
    REAL(ssize_t, write, int, const void *, size_t);
    if (real(journal, data, size) < 0) _exit(99);
}

/* op, offset, length of the path, length of the data, path, data */
static void note(char op, int64_t offset, const char *path, const void *data, size_t size) {
    if (journal < 0 || !is_watched(path)) return;
    int64_t head[4] = {op, offset, (int64_t)strlen(path), (int64_t)size};
    put(head, sizeof head);
    put(path, strlen(path));
    put(data, size);
}

void disk_told(const char *words) {  /* what was promised to be stored by now */
    if (journal >= 0) note('t', 0, folder, words, strlen(words));
}

/* The error of this call; 0 for none. */
static int fate(int writes) {
    if (is_full && writes) return ENOSPC;
    if (++calls != at) return 0;
    switch (kind) {
    case DEAD: _exit(42);
    case EIO_ONCE: return EIO;
    case NOSPACE_ONCE: return writes ? ENOSPC : EIO;
    case FULL: is_full = 1; return writes ? ENOSPC : 0;
    case SHORT: is_full = 1; return writes ? -1 : 0;
    }
    return 0;
}

static ssize_t written(int fd, const void *data, size_t size, off64_t offset, int placed) {
    REAL(ssize_t, pwrite64, int, const void *, size_t, off64_t);
    static ssize_t (*plain)(int, const void *, size_t);
    if (!plain) plain = (ssize_t (*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
    char name[4096];
    if (!folder[0] || !name_of(fd, name)) return placed ? real(fd, data, size, offset) : plain(fd, data, size);
    int error = fate(1);
    if (error > 0) { errno = error; return -1; }
    if (error < 0) size = size / 2;
    if (!placed) offset = fcntl(fd, F_GETFL) & O_APPEND ? lseek(fd, 0, SEEK_END) : lseek(fd, 0, SEEK_CUR);
    ssize_t done = placed ? real(fd, data, size, offset) : plain(fd, data, size);
    if (done > 0) note('w', offset, name, data, done);
    return done;
}

ssize_t write(int fd, const void *data, size_t size) { return written(fd, data, size, 0, 0); }
ssize_t pwrite(int fd, const void *data, size_t size, off_t at_) { return written(fd, data, size, at_, 1); }
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at_) { return written(fd, data, size, at_, 1); }

static int synced(int fd, int (*real)(int)) {
    char name[4096];
    if (!folder[0] || !name_of(fd, name)) return real(fd);
    int error = fate(0);
    if (error > 0) { errno = error; return -1; }
    note('s', 0, name, "", 0);
    return 0;  /* the test's disk needs no sync */
}
int fsync(int fd) { REAL(int, fsync, int); return synced(fd, real); }
int fdatasync(int fd) { REAL(int, fdatasync, int); return synced(fd, real); }

static int cut(int fd, off64_t length) {
    REAL(int, ftruncate64, int, off64_t);
    char name[4096];
    if (!folder[0] || !name_of(fd, name)) return real(fd, length);
    int error = fate(0);
    if (error > 0) { errno = error; return -1; }
    int result = real(fd, length);
    if (!result) note('c', length, name, "", 0);
    return result;
}
int ftruncate(int fd, off_t length) { return cut(fd, length); }
int ftruncate64(int fd, off64_t length) { return cut(fd, length); }

int rename(const char *from, const char *to) {
    REAL(int, rename, const char *, const char *);
    if (!is_watched(to)) return real(from, to);
    int error = fate(0);
    if (error > 0) { errno = error; return -1; }
    int result = real(from, to);
    if (!result) note('r', 0, from, to, strlen(to));
    return result;
}

int renameat2(int from_at, const char *from, int to_at, const char *to, unsigned flags) {
    REAL(int, renameat2, int, const char *, int, const char *, unsigned);
    if (!is_watched(to)) return real(from_at, from, to_at, to, flags);
    int error = fate(0);
    if (error > 0) { errno = error; return -1; }
    int result = real(from_at, from, to_at, to, flags);
    if (!result) note('x', 0, from, to, strlen(to));
    return result;
}

int unlink(const char *path) {
    REAL(int, unlink, const char *);
    if (!is_watched(path)) return real(path);
    int error = fate(0);
    if (error > 0) { errno = error; return -1; }
    int result = real(path);
    if (!result) note('u', 0, path, "", 0);
    return result;
}
