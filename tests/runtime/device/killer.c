/* Preloaded into a device's process: ends it with SIGKILL at the n-th call that writes to, syncs, cuts or removes one of its files, before the call or half way through it.
   What was synced is kept apart, under the file's name and ".synced": what a disk is sure to hold after the power was cut. That of a file that was removed is ".removed" until the folder
   is synced: until then the removal may, or may not, have reached the disk. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static long at, made;
static int halved;

void arm(long n, int half) { at = n; made = 0; halved = half; }
long calls(void) { return made; }

static void die(void) { for (;;) syscall(SYS_kill, getpid(), SIGKILL); }

static int path_of(int fd, char *path, size_t size) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = syscall(SYS_readlink, link, path, size - 16);
    if (n < 0) n = 0;
    path[n] = 0;
    return strstr(path, "/device/disk/") || strstr(path, "/device/world/");
}

static int due(int fd) { char path[4096]; return path_of(fd, path, sizeof path) && ++made == at; }

static int ends(const char *name, const char *with) {
    size_t n = strlen(name), m = strlen(with);
    return n >= m && !strcmp(name + n - m, with);
}

static void forget_removed(const char *folder) {
    DIR *dir = opendir(folder);
    struct dirent *entry;
    while (dir && (entry = readdir(dir)))
        if (ends(entry->d_name, ".removed")) syscall(SYS_unlinkat, dirfd(dir), entry->d_name, 0);
    if (dir) closedir(dir);
}

static void keep(int fd) {
    char path[4096], block[65536];
    if (!path_of(fd, path, sizeof path)) {
        if (ends(path, "/device/disk")) forget_removed(path);
        return;
    }
    if (!strstr(path, "/device/disk/")) return;
    int in = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY); /* fd may be for writing only */
    strcat(path, ".synced");
    int out = syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    long n;
    while (in >= 0 && out >= 0 && (n = syscall(SYS_read, in, block, sizeof block)) > 0) syscall(SYS_write, out, block, n);
    if (in >= 0) syscall(SYS_close, in);
    if (out >= 0) syscall(SYS_close, out);
}

ssize_t write(int fd, const void *data, size_t n) {
    if (due(fd)) { if (halved) syscall(SYS_write, fd, data, n / 2); die(); }
    return syscall(SYS_write, fd, data, n);
}
ssize_t pwrite64(int fd, const void *data, size_t n, off_t from) {
    if (due(fd)) { if (halved) syscall(SYS_pwrite64, fd, data, n / 2, from); die(); }
    return syscall(SYS_pwrite64, fd, data, n, from);
}
ssize_t pwrite(int fd, const void *data, size_t n, off_t from) { return pwrite64(fd, data, n, from); }
int fsync(int fd) { if (due(fd)) die(); int r = syscall(SYS_fsync, fd); if (!r) keep(fd); return r; }
int fdatasync(int fd) { if (due(fd)) die(); int r = syscall(SYS_fdatasync, fd); if (!r) keep(fd); return r; }
int ftruncate64(int fd, off_t n) { if (due(fd)) die(); return syscall(SYS_ftruncate, fd, n); }
int ftruncate(int fd, off_t n) { return ftruncate64(fd, n); }
int unlink(const char *path) {
    if (strstr(path, "/device/disk/")) {
        char from[4096], to[4096];
        if (++made == at) die();
        snprintf(from, sizeof from, "%s.synced", path);
        snprintf(to, sizeof to, "%s.removed", path);
        syscall(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to);
    }
    return syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}
