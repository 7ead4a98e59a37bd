/* Records what a program does to the files below one folder: a library for LD_PRELOAD, for tests only.
 *
 * It stands in for the functions of the C library that change files, so it sees SQLite and Python alike. Each
 * call that changes something below the folder becomes one record of a log (recorder.py reads it), in the order
 * in which the calls took effect, whatever thread or process made them: a lock on the log is held during the
 * call. What a file descriptor stands for is asked of /proc, so descriptors may be copied, inherited and closed
 * as one likes. What is done in other ways, recorder.py notices: the record does not explain what the folder holds.
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

/* As in recorder.py. */
enum kind { CREATE = 1, WRITE, SIZE, FSYNC, RENAME, UNLINK, LINK, MKDIR, RMDIR, MARK, UNSEEN, REFUSED };

struct head {
    uint32_t magic, kind;
    uint64_t inode;
    int64_t offset;
    uint32_t first, second;
};

static char folder[PATH_MAX], log_path[PATH_MAX];
static size_t folder_size;
static long refuse_at = -1, calls;
static int refuse_error;

#define REAL(name) ((__typeof__(&name))real(#name))

static void *real(const char *name) {
    void *found = dlsym(RTLD_NEXT, name);
    if (!found) {
        fprintf(stderr, "recorder: the C library has no %s\n", name);
        abort();
    }
    return found;
}

static void fail(const char *what) {
    fprintf(stderr, "recorder: %s: %s\n", what, strerror(errno));
    abort();
}

/* --- what a path or descriptor stands for */

static int inside(const char *path) {
    return folder_size && !strncmp(path, folder, folder_size) && (path[folder_size] == '/' || !path[folder_size]);
}

static int path_of(int descriptor, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t size = readlink(link, path, PATH_MAX - 1);
    path[size < 0 ? 0 : size] = 0;
    return size > 0;
}

/* The absolute path, without links and dots but in its last part; whether it is below the folder. */
static int place(int at, const char *given, char *path) {
    char whole[2 * PATH_MAX], above[PATH_MAX];
    if (!folder_size || !given) return 0;
    if (given[0] == '/') snprintf(whole, sizeof whole, "%s", given);
    else {
        if (at == AT_FDCWD ? !getcwd(above, sizeof above) : !path_of(at, above)) return 0;
        snprintf(whole, sizeof whole, "%s/%s", above, given);
    }
    size_t size = strlen(whole);
    while (size > 1 && whole[size - 1] == '/') whole[--size] = 0;
    char *last = strrchr(whole, '/') + 1;
    if (!*last || !strcmp(last, ".") || !strcmp(last, "..")) return realpath(whole, path) && inside(path);
    char name[NAME_MAX + 1];
    snprintf(name, sizeof name, "%s", last);
    last[last - whole > 1 ? -1 : 0] = 0;
    if (!realpath(whole, above)) return 0;
    if (snprintf(path, PATH_MAX, "%s/%s", strcmp(above, "/") ? above : "", name) >= PATH_MAX) return 0;
    return inside(path);
}

static int changes(int descriptor, char *path) {
    return folder_size && path_of(descriptor, path) && inside(path);
}

static uint64_t inode_of(int descriptor) {
    struct stat found;
    return fstat(descriptor, &found) ? 0 : found.st_ino;
}

static uint64_t inode_at(const char *path) {
    struct stat found;
    return lstat(path, &found) ? 0 : found.st_ino;
}

static off_t size_of(int descriptor) {
    struct stat found;
    return fstat(descriptor, &found) ? 0 : found.st_size;
}

/* --- the log */

static int begin(void) {
    int log = REAL(open)(log_path, O_WRONLY | O_APPEND | O_CLOEXEC | O_CREAT, 0600);
    if (log < 0) fail(log_path);
    while (flock(log, LOCK_EX))
        if (errno != EINTR) fail("flock");
    return log;
}

static void end(int log) {
    int error = errno;
    REAL(close)(log);
    errno = error;
}

static void all(int log, const void *data, size_t size) {
    const char *at = data;
    while (size) {
        ssize_t some = REAL(write)(log, at, size);
        if (some < 0 && errno == EINTR) continue;
        if (some < 0) fail("the log");
        at += some;
        size -= some;
    }
}

static void note(int log, enum kind kind, uint64_t inode, int64_t offset, const void *first, size_t first_size,
                 const char *second) {
    int error = errno;
    struct head head = {0x4c445052, kind, inode, offset, first_size, strlen(second)};
    all(log, &head, sizeof head);
    all(log, first, first_size);
    all(log, second, head.second);
    errno = error;
}

static void say(int log, enum kind kind, uint64_t inode, int64_t offset, const char *first, const char *second) {
    note(log, kind, inode, offset, first, strlen(first), second);
}

static void unseen(const char *what, const char *path) {
    int log = begin();
    say(log, UNSEEN, 0, 0, what, path);
    end(log);
}

/* Whether this is the call that is to fail: it fails in place of what it would have done. */
static int refused(int log, const char *what, const char *path, uint64_t inode) {
    if (refuse_at < 0 || calls++ != refuse_at) return 0;
    say(log, REFUSED, inode, refuse_error, what, path);
    end(log);
    errno = refuse_error;
    return 1;
}

/* --- for the program under test, by ctypes */

void recorder_begin(const char *below, const char *log, long refuse, int error) {
    if (!realpath(below, folder)) fail(below);
    snprintf(log_path, sizeof log_path, "%s", log);
    setenv("RECORDER_FOLDER", folder, 1);
    setenv("RECORDER_LOG", log_path, 1);
    char text[64];
    snprintf(text, sizeof text, "%ld %d", refuse, error);
    setenv("RECORDER_REFUSE", text, 1);
    refuse_at = refuse;
    refuse_error = error;
    calls = 0;
    folder_size = strlen(folder);
}

void recorder_mark(const char *text) {
    int log = begin();
    say(log, MARK, 0, 0, text, "");
    end(log);
}

/* A program that this one starts is recorded too; its calls are counted by themselves. */
__attribute__((constructor)) static void inherit(void) {
    const char *below = getenv("RECORDER_FOLDER"), *log = getenv("RECORDER_LOG"), *text = getenv("RECORDER_REFUSE");
    long refuse = -1;
    int error = 0;
    if (text) sscanf(text, "%ld %d", &refuse, &error);
    if (below && log) recorder_begin(below, log, refuse, error);
}

/* --- opening */

static int opened(int at, const char *given, int flags, mode_t mode, const char *name) {
    int (*call)(int, const char *, int, ...) = real(name);
    char path[PATH_MAX];
    int writes = (flags & O_ACCMODE) != O_RDONLY || flags & (O_CREAT | O_TRUNC);
    if (!folder_size || !writes || !place(at, given, path)) {
        /* A link outside may lead inside: then what is done through it is seen, but not that it was made. */
        int found = call(at, given, flags, mode);
        if (found >= 0 && writes && flags & (O_CREAT | O_TRUNC) && changes(found, path))
            unseen("a file was made or emptied through a link", path);
        return found;
    }
    int log = begin();
    struct stat before;
    int there = !fstatat(at, given, &before, 0);
    if (refused(log, "open", path, there ? before.st_ino : 0)) return -1;
    int found = call(at, given, flags, mode);
    if (found >= 0) {
        if (!path_of(found, path) || !inside(path)) {
            /* A link that leads out of the folder: not recorded. */
        } else if ((flags & O_TMPFILE) == O_TMPFILE) say(log, UNSEEN, 0, 0, "a file without a name", path);
        else if (!there) say(log, CREATE, inode_of(found), mode, path, "");
        else if (flags & O_TRUNC && before.st_size) say(log, SIZE, inode_of(found), 0, "", path);
    }
    end(log);
    return found;
}

#define MODE                                             \
    mode_t mode = 0;                                     \
    if (flags & (O_CREAT | O_TMPFILE)) {                 \
        va_list more;                                    \
        va_start(more, flags);                           \
        mode = va_arg(more, mode_t);                     \
        va_end(more);                                    \
    }

int open(const char *path, int flags, ...) { MODE return opened(AT_FDCWD, path, flags, mode, "openat"); }
int open64(const char *path, int flags, ...) { MODE return opened(AT_FDCWD, path, flags, mode, "openat64"); }
int openat(int at, const char *path, int flags, ...) { MODE return opened(at, path, flags, mode, "openat"); }
int openat64(int at, const char *path, int flags, ...) { MODE return opened(at, path, flags, mode, "openat64"); }
/* --- writing */

static void synced(int log, int descriptor, const char *path) {
    if (fcntl(descriptor, F_GETFL) & O_DSYNC) say(log, FSYNC, inode_of(descriptor), 0, "", path);
}

static void written(int log, int descriptor, const char *path, off_t at, const void *data, ssize_t size) {
    if (size > 0) note(log, WRITE, inode_of(descriptor), at, data, size, path);
    if (size > 0) synced(log, descriptor, path);
}

ssize_t write(int descriptor, const void *data, size_t size) {
    char path[PATH_MAX];
    if (!changes(descriptor, path)) return REAL(write)(descriptor, data, size);
    int log = begin();
    if (refused(log, "write", path, inode_of(descriptor))) return -1;
    ssize_t done = REAL(write)(descriptor, data, size);
    if (done > 0) written(log, descriptor, path, lseek(descriptor, 0, SEEK_CUR) - done, data, done);
    end(log);
    return done;
}

static ssize_t write_at(int descriptor, const void *data, size_t size, off64_t at) {
    char path[PATH_MAX];
    if (!changes(descriptor, path)) return REAL(pwrite64)(descriptor, data, size, at);
    int log = begin();
    if (refused(log, "write", path, inode_of(descriptor))) return -1;
    ssize_t done = REAL(pwrite64)(descriptor, data, size, at);
    if (done > 0 && fcntl(descriptor, F_GETFL) & O_APPEND) at = size_of(descriptor) - done;
    written(log, descriptor, path, at, data, done);
    end(log);
    return done;
}

ssize_t pwrite(int descriptor, const void *data, size_t size, off_t at) { return write_at(descriptor, data, size, at); }
ssize_t pwrite64(int descriptor, const void *data, size_t size, off64_t at) { return write_at(descriptor, data, size, at); }

/* Several parts as one: what the kernel would take of them it takes of the whole. */
static ssize_t write_parts(int descriptor, const struct iovec *parts, int count, off64_t at) {
    size_t size = 0;
    for (int i = 0; i < count; i++) size += parts[i].iov_len;
    char *whole = malloc(size ? size : 1), *next = whole;
    if (!whole) fail("malloc");
    for (int i = 0; i < count; i++) next = mempcpy(next, parts[i].iov_base, parts[i].iov_len);
    ssize_t done = at < 0 ? write(descriptor, whole, size) : write_at(descriptor, whole, size, at);
    int error = errno;
    free(whole);
    errno = error;
    return done;
}

ssize_t writev(int descriptor, const struct iovec *parts, int count) {
    char path[PATH_MAX];
    if (!changes(descriptor, path)) return REAL(writev)(descriptor, parts, count);
    return write_parts(descriptor, parts, count, -1);
}

/* --- sizes */

#define CUT(name)                                                                             \
    int name(int descriptor, off_t size) {                                                    \
        char path[PATH_MAX];                                                                  \
        if (!changes(descriptor, path)) return REAL(name)(descriptor, size);                  \
        int log = begin();                                                                    \
        if (refused(log, "truncate", path, inode_of(descriptor))) return -1;                  \
        int found = REAL(name)(descriptor, size);                                             \
        if (!found) say(log, SIZE, inode_of(descriptor), size, "", path);                     \
        end(log);                                                                             \
        return found;                                                                         \
    }
CUT(ftruncate)
CUT(ftruncate64)

/* Room that is kept in advance: the file may grow by zeros. It says what is wrong, and sets no errno. */
#define GROWN(name)                                                                           \
    int name(int descriptor, off_t at, off_t size) {                                          \
        char path[PATH_MAX];                                                                  \
        if (!changes(descriptor, path)) return REAL(name)(descriptor, at, size);              \
        int log = begin();                                                                    \
        off_t before = size_of(descriptor);                                                   \
        if (refused(log, "allocate", path, inode_of(descriptor))) return errno;               \
        int found = REAL(name)(descriptor, at, size);                                         \
        off_t after = size_of(descriptor);                                                    \
        if (after != before) say(log, SIZE, inode_of(descriptor), after, "", path);           \
        end(log);                                                                             \
        return found;                                                                         \
    }
GROWN(posix_fallocate)
GROWN(posix_fallocate64)

/* --- forcing to disk. sync_file_range promises nothing after a power loss, so nothing is noted of it. */

#define FORCE(name)                                                                \
    int name(int descriptor) {                                                     \
        char path[PATH_MAX];                                                       \
        if (!changes(descriptor, path)) return REAL(name)(descriptor);             \
        int log = begin();                                                         \
        if (refused(log, "fsync", path, inode_of(descriptor))) return -1;          \
        int found = REAL(name)(descriptor);                                        \
        if (!found) say(log, FSYNC, inode_of(descriptor), 0, "", path);            \
        end(log);                                                                  \
        return found;                                                              \
    }
FORCE(fsync)
FORCE(fdatasync)

/* --- names */

static int renamed(int from_at, const char *from, int to_at, const char *to, unsigned flags) {
    char old[PATH_MAX], new[PATH_MAX];
    int left = place(from_at, from, old), came = place(to_at, to, new);
    if (!left && !came) return flags ? REAL(renameat2)(from_at, from, to_at, to, flags) : REAL(renameat)(from_at, from, to_at, to);
    int log = begin();
    uint64_t inode = left ? inode_at(old) : 0, replaced = came ? inode_at(new) : 0;
    if (refused(log, "rename", left ? old : new, inode)) return -1;
    int found = flags ? REAL(renameat2)(from_at, from, to_at, to, flags) : REAL(renameat)(from_at, from, to_at, to);
    if (!found) {
        if (!left || !came) say(log, UNSEEN, 0, 0, "a rename into or out of the folder", left ? old : new);
        else if (flags & ~RENAME_NOREPLACE) say(log, UNSEEN, 0, 0, "a rename with flags", new);
        else if (inode != replaced) say(log, RENAME, inode, 0, old, new); /* of one file's two names: nothing happens */
    }
    end(log);
    return found;
}

int rename(const char *from, const char *to) { return renamed(AT_FDCWD, from, AT_FDCWD, to, 0); }
int renameat(int from_at, const char *from, int to_at, const char *to) { return renamed(from_at, from, to_at, to, 0); }
int renameat2(int from_at, const char *from, int to_at, const char *to, unsigned flags) { return renamed(from_at, from, to_at, to, flags); }

static int removed(int at, const char *given, int flags) {
    char path[PATH_MAX];
    if (!place(at, given, path)) return REAL(unlinkat)(at, given, flags);
    int log = begin();
    if (refused(log, "unlink", path, inode_at(path))) return -1;
    int found = REAL(unlinkat)(at, given, flags);
    if (!found) say(log, flags & AT_REMOVEDIR ? RMDIR : UNLINK, 0, 0, path, "");
    end(log);
    return found;
}

int unlink(const char *path) { return removed(AT_FDCWD, path, 0); }
int unlinkat(int at, const char *path, int flags) { return removed(at, path, flags); }
int rmdir(const char *path) { return removed(AT_FDCWD, path, AT_REMOVEDIR); }
int remove(const char *path) {
    struct stat found;
    return removed(AT_FDCWD, path, !lstat(path, &found) && S_ISDIR(found.st_mode) ? AT_REMOVEDIR : 0);
}

static int linked(int from_at, const char *from, int to_at, const char *to, int flags) {
    char old[PATH_MAX], new[PATH_MAX];
    int left = place(from_at, from, old);
    if (!place(to_at, to, new)) return REAL(linkat)(from_at, from, to_at, to, flags);
    int log = begin();
    if (refused(log, "link", new, 0)) return -1;
    int found = REAL(linkat)(from_at, from, to_at, to, flags);
    if (!found && left && !flags) say(log, LINK, inode_at(new), 0, old, new);
    else if (!found) say(log, UNSEEN, 0, 0, "a link to a file without a name here", new);
    end(log);
    return found;
}

int link(const char *from, const char *to) { return linked(AT_FDCWD, from, AT_FDCWD, to, 0); }
int linkat(int from_at, const char *from, int to_at, const char *to, int flags) { return linked(from_at, from, to_at, to, flags); }

int mkdirat(int at, const char *given, mode_t mode) {
    char path[PATH_MAX];
    if (!place(at, given, path)) return REAL(mkdirat)(at, given, mode);
    int log = begin();
    if (refused(log, "mkdir", path, 0)) return -1;
    int found = REAL(mkdirat)(at, given, mode);
    if (!found) say(log, MKDIR, inode_at(path), mode, path, "");
    end(log);
    return found;
}

int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }
