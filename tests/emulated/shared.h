// What the parts of the emulated libraries share (cuda.cpp says what they are).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>

#define EXPORT extern "C" __attribute__((visibility("default")))

using Address = unsigned long long;

// The error, when EMULATED_CUDA_FAIL asks for one at this call; else 0.
int failure(const char* what, int error);
// Nothing is compiled or run.
bool is_dry();
// Elements of the libraries' types: 0 float, 1 double, 2 half, others bfloat16.
double load(int type, const void* data, int64_t at);
void store(int type, void* data, int64_t at, double value);
// True when the work is done later: the stream is being recorded, or its work is put off.
bool record_other(void* stream, std::function<int()> work);

// Calls that wait come from threads that do not hold Python's lock: those that run kernels or look at what
// all threads share take turns.
struct Turn {
  Turn() : hold(lock) {}
  static std::recursive_mutex lock;
  std::lock_guard<std::recursive_mutex> hold;
};

// ---- devices (devices.cpp)
inline constexpr int kNoDevice = -1, kAnyDevice = -2, kInvalidContext = 201, kInvalidHandle = 400;
inline constexpr int kNotReady = 600;
// The one that the thread has entered, or kNoDevice.
int entered();
// Whose memory an address is; kAnyDevice: the host's that all see, kNoDevice: the host's own.
int device_of(Address at);
// Says that something of another device was given, and returns the error.
int refused(const char* what, int device);
// The error when the stream is not one of the entered device; else 0.
int foreign(const char* what, void* stream);
// True when what this stream is given is done when something waits for it.
bool put_off(void* stream, std::function<int()> work);
// Does what was put off.
int finish(void* stream);
