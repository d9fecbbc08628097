// Included before every file. What glibc and libstdc++ renewed after 2.28 and GCC 8 is bound to the
// version before, so that the extension loads on older systems too. A line whose function a file
// does not call has no effect.
#pragma once

#ifdef __linux__
#include <features.h>
#endif

#if defined(__GLIBC__) && (defined(__x86_64__) || defined(__aarch64__))
#ifdef __x86_64__
#define RL_FIRST "GLIBC_2.2.5"
#else
#define RL_FIRST "GLIBC_2.17"
#endif
#define RL_BIND(called, name, version) __asm__(".symver " #called "," #name "@" version);

// Renewed in 2.29, 2.35 and 2.38.
RL_BIND(exp, exp, RL_FIRST)
RL_BIND(exp2, exp2, RL_FIRST)
RL_BIND(log, log, RL_FIRST)
RL_BIND(log2, log2, RL_FIRST)
RL_BIND(pow, pow, RL_FIRST)
RL_BIND(hypot, hypot, RL_FIRST)
RL_BIND(hypotf, hypotf, RL_FIRST)
RL_BIND(fmod, fmod, RL_FIRST)
RL_BIND(fmodf, fmodf, RL_FIRST)
RL_BIND(__isoc23_strtol, strtol, RL_FIRST)
RL_BIND(__isoc23_strtoul, strtoul, RL_FIRST)

// Moved into libc itself in 2.32 and 2.34.
RL_BIND(dlopen, dlopen, RL_FIRST)
RL_BIND(dlsym, dlsym, RL_FIRST)
RL_BIND(dlerror, dlerror, RL_FIRST)
RL_BIND(pthread_getattr_np, pthread_getattr_np, RL_FIRST)
RL_BIND(pthread_attr_getstack, pthread_attr_getstack, RL_FIRST)
RL_BIND(pthread_mutex_trylock, pthread_mutex_trylock, RL_FIRST)

// std::condition_variable::wait(std::unique_lock<std::mutex>&)
RL_BIND(_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE,
        _ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE, "GLIBCXX_3.4.11")

#undef RL_BIND
#undef RL_FIRST
#endif
