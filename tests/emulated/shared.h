// What the parts of the emulated libraries share (cuda.cpp says what they are).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#define EXPORT extern "C" __attribute__((visibility("default")))

using Address = unsigned long long;

// The error, when EMULATED_CUDA_FAIL asks for one at this call; else 0.
int failure(const char* what, int error);
// Nothing is compiled or run.
bool is_dry();
// Elements of the libraries' types: 0 float, 1 double, 2 half, others bfloat16.
double load(int type, const void* data, int64_t at);
void store(int type, void* data, int64_t at, double value);
// True when the stream is being recorded: the work is done when the graph is launched.
bool record_other(void* stream, std::function<int()> work);
