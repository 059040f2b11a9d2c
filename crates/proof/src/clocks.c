/* Preloaded into a process of the function.
 *
 * After SIGUSR1 no clock can be read any more. Rust's standard library has no error for that, so whatever the process
 * does next panics: this is the only panic that is known to occur.
 *
 * The file that PROOF_CLOCK_AHEAD names holds the milliseconds by which the wall clock is ahead; the monotonic clock
 * stays as it is. So a process sees hours pass as after a freeze in which only the wall clock ran on. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t broken;
static int ahead = -1;

static void on_signal(int signal) {
    (void)signal;
    broken = 1;
}

__attribute__((constructor)) static void begin(void) {
    signal(SIGUSR1, on_signal);
    const char *path = getenv("PROOF_CLOCK_AHEAD");
    if (path) {
        ahead = open(path, O_RDONLY | O_CLOEXEC);
    }
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    if (broken) {
        errno = EINVAL;
        return -1;
    }
    int answer = (int)syscall(SYS_clock_gettime, clock, now);
    int64_t millis;
    if (answer == 0 && clock == CLOCK_REALTIME && ahead >= 0 && pread(ahead, &millis, sizeof millis, 0) == sizeof millis) {
        now->tv_sec += millis / 1000;
        now->tv_nsec += millis % 1000 * 1000000;
        if (now->tv_nsec >= 1000000000) {
            now->tv_sec += 1;
            now->tv_nsec -= 1000000000;
        }
    }
    return answer;
}
