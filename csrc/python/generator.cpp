// Generator: a source of random numbers. By default a counter, so that any thread can make any part
// of a stream; on request torch's Mersenne Twister, so that a seed gives torch's numbers.
#include <cstdio>
#include <ctime>
#include <memory>

#include "call/recording.h"
#include "kernels/cpu/mersenne.h"
#include "kernels/cuda/graph.h"
#include "python/op_object.h"
#include "tensor/objects.h"

namespace rl {

namespace {

constexpr uint64_t kDefaultSeed = 67280421310721;  // torch's

PyTypeObject GeneratorType = {PyVarObject_HEAD_INIT(nullptr, 0)};
Generator* the_default_generator = nullptr;
bool new_ones_are_torchs = false;

Generator* as_generator(PyObject* o) { return reinterpret_cast<Generator*>(o); }

// Starts the sequence of a seed, of torch's engine or the counter.
void start(Generator* g, uint64_t seed, bool torch) {
  torch = torch && g->device == kHost;
  delete std::exchange(g->mersenne, torch ? new cpu::Mersenne(seed) : nullptr);
  g->seed = seed;
  g->offset = 0;
}

// Calls f(generator), which a recording does again.
template <class F>
void set_state(Generator* g, const F& f) {
  auto* object = reinterpret_cast<PyObject*>(g);
  Py_INCREF(object);
  std::shared_ptr<PyObject> alive(object, Py_DecRef);
  act("random_state", [alive, g, f] { f(g); });
}

PyObject* generator_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  static const char* keywords[] = {"device", nullptr};
  PyObject* device = nullptr;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:Generator", const_cast<char**>(keywords),
                                   &device))
    return nullptr;
  return guarded([&]() -> PyObject* {
    Device of = device ? ready_device(device_value(device), "Generator") : kHost;
    auto* g = as_generator(type->tp_alloc(type, 0));
    if (!g) throw PythonError{};
    g->device = of;
    start(g, kDefaultSeed, new_ones_are_torchs);
    return reinterpret_cast<PyObject*>(g);
  });
}

void generator_dealloc(PyObject* o) {
  delete as_generator(o)->mersenne;
  Py_TYPE(o)->tp_free(o);
}

PyObject* generator_manual_seed(PyObject* o, PyObject* seed) {
  PyObject* index = PyNumber_Index(seed);
  if (!index) return nullptr;
  uint64_t value = PyLong_AsUnsignedLongLongMask(index);
  int overflow = 0;
  PyLong_AsLongLongAndOverflow(index, &overflow);
  bool too_big =
      overflow < 0 ||
      (overflow > 0 &&
       (PyErr_Clear(), PyLong_AsUnsignedLongLong(index) == uint64_t(-1) && PyErr_Occurred()));
  Py_DECREF(index);
  if (too_big) {
    PyErr_SetString(PyExc_RuntimeError,
                    "manual_seed: the seed must lie in [-0x8000_0000_0000_0000, "
                    "0xffff_ffff_ffff_ffff]");
    return nullptr;
  }
  set_state(as_generator(o), [value](Generator* g) { start(g, value, g->mersenne); });
  Py_INCREF(o);
  return o;
}

PyObject* generator_initial_seed(PyObject* o, PyObject*) {
  return PyLong_FromUnsignedLongLong(as_generator(o)->seed);
}

PyObject* generator_seed(PyObject* o, PyObject*) {
  uint64_t seed = uint64_t(std::time(nullptr)) * 0x9e3779b97f4a7c15u ^ uint64_t(std::clock());
  FILE* source = std::fopen("/dev/urandom", "rb");
  if (source) {
    if (std::fread(&seed, sizeof seed, 1, source) != 1) seed ^= 1;
    std::fclose(source);
  }
  seed >>= 11;  // fits a double, as torch's
  start(as_generator(o), seed, as_generator(o)->mersenne);
  return PyLong_FromUnsignedLongLong(seed);
}

// The state, by which the engine is known: (seed, offset) of the counter, bytes of torch's.
PyObject* generator_state(PyObject* o, PyObject*) {
  Generator* g = as_generator(o);
  if (!g->mersenne) return Py_BuildValue("KK", g->seed, g->offset);
  PyObject* bytes = PyBytes_FromStringAndSize(nullptr, cpu::kMersenneBytes);
  if (bytes) cpu::save(*g->mersenne, g->seed, PyBytes_AS_STRING(bytes));
  return bytes;
}

PyObject* generator_set_raw_state(PyObject* o, PyObject* state) {
  Generator* g = as_generator(o);
  if (PyBytes_Check(state)) {
    cpu::Mersenne read(0);
    uint64_t seed;
    if (PyBytes_GET_SIZE(state) != cpu::kMersenneBytes ||
        !cpu::restore(read, seed, PyBytes_AS_STRING(state))) {
      PyErr_SetString(PyExc_RuntimeError, "set_state: these bytes are no state of a generator");
      return nullptr;
    }
    set_state(g, [seed, read](Generator* g) {
      start(g, seed, true);
      *g->mersenne = read;
    });
    Py_RETURN_NONE;
  }
  unsigned long long seed, offset;
  if (!PyArg_ParseTuple(state, "KK", &seed, &offset)) return nullptr;
  // In a region that is recorded, the state of an earlier place in it: as far back when it runs again.
  if (!g->mersenne && g->seed == seed)
    set_state(g, [by = offset - g->offset](Generator* g) { g->offset += by; });
  else
    set_state(g, [seed, offset](Generator* g) {
      start(g, seed, false);
      g->offset = offset;
    });
  Py_RETURN_NONE;
}

PyObject* generator_restart(PyObject* o, PyObject* torch) {
  start(as_generator(o), as_generator(o)->seed, torch == Py_True);
  Py_RETURN_NONE;
}

PyObject* generator_is_torchs(PyObject* o, void*) {
  return PyBool_FromLong(as_generator(o)->mersenne != nullptr);
}
PyObject* generator_device(PyObject* o, void*) {
  return guarded([&]() -> PyObject* { return device_object(as_generator(o)->device); });
}

PyMethodDef generator_methods[] = {
    {"manual_seed", generator_manual_seed, METH_O, "Starts the sequence of this seed."},
    {"initial_seed", generator_initial_seed, METH_NOARGS, "The seed in use."},
    {"seed", generator_seed, METH_NOARGS, "Seeds from the system's entropy; returns the seed."},
    {"_raw_state", generator_state, METH_NOARGS, nullptr},
    {"_set_raw_state", generator_set_raw_state, METH_O, nullptr},
    {"_restart", generator_restart, METH_O, "Starts the seed's sequence of torch's engine or not."},
    {},
};
PyGetSetDef generator_getset[] = {
    {"device", generator_device, nullptr, "Where the tensors lie that it fills.", nullptr},
    {"_torch", generator_is_torchs, nullptr, "Whether it draws torch's numbers.", nullptr},
    {},
};

// The defaults of CUDA devices, made when they are first asked for, and the seed that they start with.
cuda::PerDevice<Generator*> of_devices;
uint64_t seed_of_devices = kDefaultSeed;
Generator* cuda_generator(int device) {
  Generator*& made = of_devices.of(device);
  if (!made) {
    PyTypeObject* type = Py_TYPE(the_default_generator);  // the class with all methods
    auto* g = as_generator(type->tp_alloc(type, 0));
    if (!g) throw PythonError{};
    g->device = {Device::CUDA, int8_t(device)};
    start(g, seed_of_devices, false);
    made = g;
  }
  return made;
}
PyObject* cuda_generator_object(PyObject*, PyObject* number) {
  long device = PyLong_AsLong(number);
  if (device == -1 && PyErr_Occurred()) return nullptr;
  return guarded([&]() -> PyObject* {
    check(device >= 0 && device < cuda::kMostDevices, "there is no CUDA device ", device);
    auto* o = reinterpret_cast<PyObject*>(cuda_generator(int(device)));
    Py_INCREF(o);
    return o;
  });
}

PyObject* seed_devices(PyObject*, PyObject* seed) {
  return guarded([&]() -> PyObject* {
    cuda_generator(0);
    for (int i = 0; i < cuda::kMostDevices; i++) {
      Generator* g = of_devices.of(i);
      PyObject* done = g ? generator_manual_seed(reinterpret_cast<PyObject*>(g), seed) : nullptr;
      if (g && !done) throw PythonError{};
      Py_XDECREF(done);
    }
    seed_of_devices = cuda_generator(0)->seed;
    Py_RETURN_NONE;
  });
}

PyObject* set_default_generator(PyObject* module, PyObject* generator) {
  if (!is_generator(generator)) {
    PyErr_SetString(PyExc_TypeError, "expected a Generator");
    return nullptr;
  }
  Py_INCREF(generator);
  Py_DECREF(std::exchange(the_default_generator, as_generator(generator)));
  if (PyModule_AddObjectRef(module, "default_generator", generator) < 0) return nullptr;
  Py_RETURN_NONE;
}

PyObject* use_torch_streams(PyObject*, PyObject* on) {
  bool before = std::exchange(new_ones_are_torchs, on == Py_True);
  return PyBool_FromLong(before);
}

}  // namespace

PyMethodDef generator_functions[] = {
    {"_set_default_generator", set_default_generator, METH_O, nullptr},
    {"_cuda_generator", cuda_generator_object, METH_O, "The default of a CUDA device."},
    {"_cuda_seed_all", seed_devices, METH_O, "Starts the sequences of all CUDA devices anew."},
    {"_use_torch_streams", use_torch_streams, METH_O,
     "Whether new generators draw torch's numbers."},
    {},
};

bool is_generator(PyObject* o) { return PyObject_TypeCheck(o, &GeneratorType); }
Generator* default_generator() { return the_default_generator; }

Generator* generator_on(Device device, Generator* given) {
  if (device.type != Device::CUDA) return given;
  if (given != the_default_generator) {
    check(given->device == device, "Expected a '",
          given->device.type == device.type ? device_text(device) : std::string("cuda"),
          "' device type for generator but found '",
          given->device.type == device.type ? device_text(given->device)
                                            : std::string(kDeviceNames[given->device.type]),
          "'");
    cuda::draw_from(given == cuda_generator(device.index) ? nullptr : given);
    return given;
  }
  cuda::draw_from(nullptr);
  return cuda_generator(device.index);
}
Generator* generator_value(PyObject* o) {
  return o == Py_None ? the_default_generator : as_generator(o);
}

int add_generator_type(PyObject* module) {
  GeneratorType.tp_name = "rushlight._C.Generator";
  GeneratorType.tp_basicsize = sizeof(Generator);
  GeneratorType.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE;
  GeneratorType.tp_doc = "A source of random numbers with a state of its own.";
  GeneratorType.tp_new = generator_new;
  GeneratorType.tp_dealloc = generator_dealloc;
  GeneratorType.tp_methods = generator_methods;
  GeneratorType.tp_getset = generator_getset;
  auto* type = reinterpret_cast<PyObject*>(&GeneratorType);
  if (PyType_Ready(&GeneratorType) < 0 || PyModule_AddObjectRef(module, "Generator", type) < 0)
    return -1;
  the_default_generator = as_generator(PyObject_CallNoArgs(type));
  if (!the_default_generator) return -1;
  return PyModule_AddObjectRef(module, "default_generator",
                               reinterpret_cast<PyObject*>(the_default_generator));
}

}  // namespace rl
