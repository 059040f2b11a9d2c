/* Preloaded into a process of the function. After SIGUSR1 no clock can be read any more. Rust's standard library has no
 * error for that, so whatever the process does next panics: this is the only panic that is known to occur. */
#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t broken;

static void on_signal(int signal) {
    (void)signal;
    broken = 1;
}

__attribute__((constructor)) static void begin(void) {
    signal(SIGUSR1, on_signal);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    if (broken) {
        errno = EINVAL;
        return -1;
    }
    return (int)syscall(SYS_clock_gettime, clock, now);
}
