#include "autograd/context.h"

#include "autograd/autocast_devices.h"
#include "autograd/modes.h"

namespace rl {

constinit thread_local uint64_t modes_context = 0;
constinit thread_local bool modes_borrowed = false;

namespace {

using Packed = uint32_t;
constexpr Packed kGrad = 1, kInference = 2, kAutocast = 4, kCache = 8, kHostOn = 256, kCudaOn = 512;
constexpr int kDTypeShift = 4, kCudaShift = 10;
constexpr Packed kDTypeMask = 15;

Packed pack() {
  return (modes.grad ? kGrad : 0) | (modes.inference ? kInference : 0) |
         (modes.autocast ? kAutocast : 0) | (autocast_state.cache ? kCache : 0) |
         Packed(autocast_state.dtype) << kDTypeShift | (device_autocast.host ? kHostOn : 0) |
         (device_autocast.cuda ? kCudaOn : 0) | Packed(device_autocast.cuda_dtype) << kCudaShift;
}

void unpack(Packed p) {
  modes.grad = p & kGrad;
  modes.inference = p & kInference;
  modes.autocast = p & kAutocast;
  autocast_state.cache = p & kCache;
  autocast_state.dtype = DType(p >> kDTypeShift & kDTypeMask);
  device_autocast = {bool(p & kHostOn), bool(p & kCudaOn), DType(p >> kCudaShift & kDTypeMask)};
}

PyObject* variable = nullptr;  // the packed modes of a context; none or None: those of the thread
constexpr Packed kDefault =
    kGrad | kCache | Packed(DType::BF16) << kDTypeShift | Packed(DType::F16) << kCudaShift;
thread_local Packed of_thread = kDefault;
// What the thread's modes were when they were last those of a context. While they differ, a C++
// scope has set them and contexts do not matter.
thread_local Packed followed = kDefault;

}  // namespace

void load_modes() {
  if (modes_borrowed || pack() != followed) return;
  PyObject* value = nullptr;
  if (PyContextVar_Get(variable, nullptr, &value) < 0) {
    PyErr_Clear();
    return;
  }
  modes_context = PyThreadState_Get()->context_ver;
  followed = value && value != Py_None ? Packed(PyLong_AsUnsignedLong(value)) : of_thread;
  Py_XDECREF(value);
  unpack(followed);
}

bool modes_are_contexts() {
  follow_context();
  return !modes_borrowed && pack() == followed;
}

bool ModeChange::keep() {
  if (!own_) return true;
  followed = pack();
  PyObject* value = followed == of_thread ? Py_NewRef(Py_None) : PyLong_FromUnsignedLong(followed);
  PyObject* token = value ? PyContextVar_Set(variable, value) : nullptr;
  Py_XDECREF(value);
  Py_XDECREF(token);
  return token != nullptr;
}

bool ModeChange::set_for_thread(bool grad, bool* failed) {
  bool before = of_thread & kGrad;
  if (own_) of_thread = grad ? of_thread | kGrad : of_thread & ~kGrad;
  *failed = !keep();
  return before;
}

int init_contexts() {
  variable = PyContextVar_New("rushlight.modes", nullptr);
  return variable ? 0 : -1;
}

}  // namespace rl
