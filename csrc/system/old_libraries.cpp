// What newer headers call and older libraries lack: the linker takes it from here.
#ifdef __linux__
#include <features.h>
#endif

// RL_OWN_LIBRARIES: the C++ library is a static one, of the compiler's version.
#if defined(__GLIBC__) && !defined(RL_OWN_LIBRARIES)
#define RL_LOCAL(type, symbol) extern "C" __attribute__((visibility("hidden"))) type symbol

// glibc 2.32. Zero: counts of references are always atomic.
RL_LOCAL(char, __libc_single_threaded);
char __libc_single_threaded = 0;

// libstdc++ of GCC 11 and 12.
extern "C" [[noreturn]] void __cxa_throw_bad_array_new_length();
RL_LOCAL(void, _ZSt28__throw_bad_array_new_lengthv)() { __cxa_throw_bad_array_new_length(); }

// std::exception_ptr's count of references: up by a copy that is forgotten, down by a destructor.
extern "C" void _ZNSt15__exception_ptr13exception_ptrC1ERKS0_(void* self, const void* other);
extern "C" void _ZNSt15__exception_ptr13exception_ptrD1Ev(void* self);
RL_LOCAL(void, _ZNSt15__exception_ptr13exception_ptr9_M_addrefEv)(void* self) {
  void* copy;
  _ZNSt15__exception_ptr13exception_ptrC1ERKS0_(&copy, self);
}
RL_LOCAL(void, _ZNSt15__exception_ptr13exception_ptr10_M_releaseEv)(void* self) {
  _ZNSt15__exception_ptr13exception_ptrD1Ev(self);
}

// glibc 2.33 made functions of these; before, programs held them, over others with a version of `stat`.
#if defined(__x86_64__) || defined(__aarch64__)
struct stat;
extern "C" int __fxstat(int version, int file, struct stat* found);
extern "C" int __lxstat(int version, const char* path, struct stat* found);
#ifdef __x86_64__
__asm__(".symver __fxstat,__fxstat@GLIBC_2.2.5");
__asm__(".symver __lxstat,__lxstat@GLIBC_2.2.5");
constexpr int kStatVersion = 1;
#else
__asm__(".symver __fxstat,__fxstat@GLIBC_2.17");
__asm__(".symver __lxstat,__lxstat@GLIBC_2.17");
constexpr int kStatVersion = 0;
#endif
RL_LOCAL(int, fstat)(int file, struct stat* found) { return __fxstat(kStatVersion, file, found); }
RL_LOCAL(int, lstat)(const char* path, struct stat* found) {
  return __lxstat(kStatVersion, path, found);
}
#endif
#endif
