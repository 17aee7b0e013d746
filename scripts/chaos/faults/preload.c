/*
 * Makes system calls of a process fail, and moves its clock: preloaded into PostgreSQL or Node by LD_PRELOAD. What it
 * does is in a file that all these processes map (the environment variable COUNTERSIGN_FAULTS), so that a test changes
 * it while they run. The layout of the file is also in faultShim.ts.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { WRITE = 1, SYNC = 2, OPEN = 4, EXTEND = 8, NAME = 16 };

struct faults {
  int32_t error;      /* The errno of the calls that fail; 0: none fails. */
  int32_t operations; /* Which of the operations above fail. */
  int32_t skip;       /* How many of these calls succeed before the first one fails. */
  int32_t failed;     /* How many calls have failed. */
  int64_t clock;      /* Added to the time of day, in nanoseconds. */
  char path[232];     /* A text that the paths of the files contain. */
};

static struct faults *faults;

__attribute__((constructor)) static void map_faults(void) {
  const char *name = getenv("COUNTERSIGN_FAULTS");
  int (*real_open)(const char *, int, ...) = dlsym(RTLD_NEXT, "open");
  int fd = name == NULL ? -1 : real_open(name, O_RDWR | O_CLOEXEC);
  if (fd < 0) return;
  void *at = mmap(NULL, sizeof(struct faults), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at != MAP_FAILED) faults = at;
  close(fd);
}

static int fails(const char *path, int operation) {
  if (faults == NULL || faults->error == 0 || (faults->operations & operation) == 0) return 0;
  if (path == NULL || strstr(path, faults->path) == NULL) return 0;
  if (__atomic_load_n(&faults->skip, __ATOMIC_SEQ_CST) > 0 &&
      __atomic_fetch_sub(&faults->skip, 1, __ATOMIC_SEQ_CST) > 0)
    return 0;
  __atomic_fetch_add(&faults->failed, 1, __ATOMIC_SEQ_CST);
  errno = faults->error;
  return 1;
}

static int fails_on(int fd, int operation) {
  char link[32], path[4096];
  if (faults == NULL || faults->error == 0 || (faults->operations & operation) == 0) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return 0;
  path[length] = 0;
  return fails(path, operation);
}

#define REAL(name) static __typeof__(name) *real; if (real == NULL) real = dlsym(RTLD_NEXT, #name)

ssize_t write(int fd, const void *data, size_t size) {
  REAL(write);
  return fails_on(fd, WRITE) ? -1 : real(fd, data, size);
}
ssize_t writev(int fd, const struct iovec *list, int count) {
  REAL(writev);
  return fails_on(fd, WRITE) ? -1 : real(fd, list, count);
}
ssize_t pwrite(int fd, const void *data, size_t size, off_t at) {
  REAL(pwrite);
  return fails_on(fd, WRITE) ? -1 : real(fd, data, size, at);
}
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) {
  REAL(pwrite64);
  return fails_on(fd, WRITE) ? -1 : real(fd, data, size, at);
}
ssize_t pwritev(int fd, const struct iovec *list, int count, off_t at) {
  REAL(pwritev);
  return fails_on(fd, WRITE) ? -1 : real(fd, list, count, at);
}
ssize_t pwritev64(int fd, const struct iovec *list, int count, off64_t at) {
  REAL(pwritev64);
  return fails_on(fd, WRITE) ? -1 : real(fd, list, count, at);
}
int fsync(int fd) {
  REAL(fsync);
  return fails_on(fd, SYNC) ? -1 : real(fd);
}
int fdatasync(int fd) {
  REAL(fdatasync);
  return fails_on(fd, SYNC) ? -1 : real(fd);
}
int ftruncate(int fd, off_t size) {
  REAL(ftruncate);
  return fails_on(fd, EXTEND) ? -1 : real(fd, size);
}
int ftruncate64(int fd, off64_t size) {
  REAL(ftruncate64);
  return fails_on(fd, EXTEND) ? -1 : real(fd, size);
}
/* These two return the error. */
int posix_fallocate(int fd, off_t at, off_t size) {
  REAL(posix_fallocate);
  return fails_on(fd, EXTEND) ? errno : real(fd, at, size);
}
int posix_fallocate64(int fd, off64_t at, off64_t size) {
  REAL(posix_fallocate64);
  return fails_on(fd, EXTEND) ? errno : real(fd, at, size);
}

#define IS_WRITE(flags) (((flags) & (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC)) != 0)
#define MODE(last) \
  mode_t mode = 0; \
  if ((flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE) { \
    va_list rest; \
    va_start(rest, last); \
    mode = va_arg(rest, mode_t); \
    va_end(rest); \
  }

int open(const char *path, int flags, ...) {
  REAL(open);
  MODE(flags)
  return IS_WRITE(flags) && fails(path, OPEN) ? -1 : real(path, flags, mode);
}
int open64(const char *path, int flags, ...) {
  REAL(open64);
  MODE(flags)
  return IS_WRITE(flags) && fails(path, OPEN) ? -1 : real(path, flags, mode);
}
int rename(const char *from, const char *to) {
  REAL(rename);
  return fails(to, NAME) ? -1 : real(from, to);
}
int unlink(const char *path) {
  REAL(unlink);
  return fails(path, NAME) ? -1 : real(path);
}

static int64_t added(void) { return faults == NULL ? 0 : __atomic_load_n(&faults->clock, __ATOMIC_RELAXED); }

int clock_gettime(clockid_t clock, struct timespec *time) {
  REAL(clock_gettime);
  int result = real(clock, time);
  if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) && added() != 0) {
    int64_t nanos = (int64_t)time->tv_sec * 1000000000 + time->tv_nsec + added();
    time->tv_sec = nanos / 1000000000;
    time->tv_nsec = nanos % 1000000000;
  }
  return result;
}
int gettimeofday(struct timeval *restrict time, void *restrict zone) {
  struct timespec precise;
  (void)zone;
  if (clock_gettime(CLOCK_REALTIME, &precise) != 0) return -1;
  time->tv_sec = precise.tv_sec;
  time->tv_usec = precise.tv_nsec / 1000;
  return 0;
}
time_t time(time_t *result) {
  struct timespec precise;
  clock_gettime(CLOCK_REALTIME, &precise);
  if (result != NULL) *result = precise.tv_sec;
  return precise.tv_sec;
}
