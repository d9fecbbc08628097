// torch.cuda: devices, their streams, events and memory. A device is its number.
#include "python/cuda_api.h"

#include <string_view>
#include <utility>

#include "kernels/cuda/allocator.h"
#include "kernels/cuda/compiler.h"
#include "kernels/cuda/cudnn.h"
#include "kernels/cuda/driver.h"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/graph.h"
#include "kernels/cuda/kernels.h"
#include "python/op_object.h"
#include "python/tensor_type.h"
#include "tensor/objects.h"
#include "tensor/tensor.h"

namespace rl {
namespace {

using namespace cuda;

PyObject* none() { return new_reference(Py_None); }

// The GIL is given up while the device is waited for; what kernels complain of is raised after.
template <class Wait>
void waiting(int device, const Wait& wait) {
  use(device);
  if (capture) fail_capturing("a wait for the device");
  Result result;
  Py_BEGIN_ALLOW_THREADS;
  result = wait();
  Py_END_ALLOW_THREADS;
  ok(result, "waiting for the device");
  raise_faults();
}

// _cuda_open(library folders, cache folder) -> (number of devices, why there is none).
PyObject* open(PyObject*, PyObject* args) {
  const char *folders, *cache;
  if (!PyArg_ParseTuple(args, "ss", &folders, &cache)) return nullptr;
  return guarded([&]() -> PyObject* {
    set_folders(folders, cache);
    std::string why;
    int count = open_driver(folders, why);
    return Py_BuildValue("is", count, why.c_str());
  });
}

PyObject* start_devices(PyObject*, PyObject*) {
  return guarded([&]() -> PyObject* {
    start();
    return none();
  });
}

PyObject* started(PyObject*, PyObject*) { return PyBool_FromLong(is_started()); }

// Calls f with the number of a device that is there.
template <class F>
PyObject* with_device(PyObject* o, const F& f) {
  long device = PyLong_AsLong(o);
  if (device == -1 && PyErr_Occurred()) return nullptr;
  return guarded([&]() -> PyObject* {
    check_device(int(device));
    return f(int(device));
  });
}

PyObject* get_chosen(PyObject*, PyObject*) { return PyLong_FromLong(chosen); }
PyObject* choose(PyObject*, PyObject* o) {
  return with_device(o, [](int device) {
    use(device);
    chosen = device;
    return none();
  });
}
// For calls of other libraries in this thread.
PyObject* enter_device(PyObject*, PyObject* o) {
  return with_device(o, [](int device) {
    use(device);
    return none();
  });
}
PyObject* peer_access(PyObject*, PyObject* args) {
  int device, peer;
  if (!PyArg_ParseTuple(args, "ii", &device, &peer)) return nullptr;
  return guarded([&]() -> PyObject* {
    check_device(device);
    check_device(peer);
    return PyBool_FromLong(can_access(device, peer));
  });
}

PyObject* properties(PyObject*, PyObject* o) {
  return with_device(o, [](int device) {
    int ordinal = 0;
    auto fact = [&](int which) { return attribute(which, device); };
    ok(driver.device_get(&ordinal, device), "finding the device");
    devices.of(device).ordinal = ordinal;
    char name[256] = {};
    size_t bytes = 0;
    Uuid uuid{};
    int version = 0;
    ok(driver.device_name(name, sizeof name, ordinal), "asking for the device's name");
    ok(driver.device_memory(&bytes, ordinal), "asking for the device's memory");
    ok(driver.device_uuid(&uuid, ordinal), "asking for the device's number");
    driver.driver_version(&version);
    return Py_BuildValue(
        "{s:s,s:n,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:N,s:i}", "name", name,
        "total_memory", Py_ssize_t(bytes), "major", fact(kMajor), "minor", fact(kMinor),
        "multi_processor_count", fact(kMultiprocessors), "warp_size", fact(kWarpSize),
        "L2_cache_size", fact(kL2Cache), "max_threads_per_multi_processor",
        fact(kMaxThreadsPerMultiprocessor), "max_threads_per_block", fact(kMaxThreadsPerBlock),
        "regs_per_multiprocessor", fact(kRegistersPerMultiprocessor), "shared_memory_per_block",
        fact(kSharedPerBlock), "shared_memory_per_block_optin", fact(kSharedPerBlockOptin),
        "shared_memory_per_multiprocessor", fact(kSharedPerMultiprocessor), "is_integrated",
        fact(kIntegrated), "uuid", PyBytes_FromStringAndSize(uuid.bytes, 16), "driver_version",
        version);
  });
}

PyObject* synchronize(PyObject*, PyObject* o) {
  return with_device(o, [](int device) {
    waiting(device, [] { return driver.wait_context(); });
    return none();
  });
}

// ---- streams and events: their addresses

Stream as_stream(unsigned long long handle) { return reinterpret_cast<Stream>(handle); }
Event as_event(unsigned long long handle) { return reinterpret_cast<Event>(handle); }

template <class F>
PyObject* with_one(PyObject* o, const F& f) {
  unsigned long long handle = PyLong_AsUnsignedLongLong(o);
  if (handle == (unsigned long long)(-1) && PyErr_Occurred()) return nullptr;
  return guarded([&]() -> PyObject* { return f(handle); });
}
// A device, which is in use when f is called, and an address or two.
template <class F>
PyObject* with_two(PyObject* args, const F& f) {
  int device;
  unsigned long long handle;
  if (!PyArg_ParseTuple(args, "iK", &device, &handle)) return nullptr;
  return guarded([&]() -> PyObject* {
    use(device);
    return f(device, handle);
  });
}
template <class F>
PyObject* with_three(PyObject* args, const F& f) {
  int device;
  unsigned long long a, b;
  if (!PyArg_ParseTuple(args, "iKK", &device, &a, &b)) return nullptr;
  return guarded([&]() -> PyObject* {
    use(device);
    return f(a, b);
  });
}

// _cuda_stream_new(device, priority)
PyObject* stream_new(PyObject*, PyObject* args) {
  int device, priority;
  if (!PyArg_ParseTuple(args, "ii", &device, &priority)) return nullptr;
  return guarded([&]() -> PyObject* {
    use(device);
    Stream made;
    ok(driver.stream_create(&made, 1 /* apart from the first stream */, priority),
       "making a stream");
    return PyLong_FromVoidPtr(made);
  });
}
PyObject* stream_get(PyObject*, PyObject* o) {
  return with_device(o, [](int device) {
    return PyLong_FromUnsignedLongLong(reinterpret_cast<unsigned long long>(stream_of(device)));
  });
}
// Its device is chosen with it.
PyObject* stream_set(PyObject*, PyObject* args) {
  return with_two(args, [](int device, auto handle) {
    set_stream(device, as_stream(handle));
    chosen = device;
    return none();
  });
}
PyObject* stream_synchronize(PyObject*, PyObject* args) {
  return with_two(args, [](int device, auto handle) {
    waiting(device, [&] { return driver.stream_wait(as_stream(handle)); });
    return none();
  });
}
PyObject* stream_query(PyObject*, PyObject* args) {
  return with_two(args, [](int, auto handle) {
    Result result = driver.stream_query(as_stream(handle));
    if (result != kNotReady) ok(result, "asking a stream");
    return PyBool_FromLong(result == 0);
  });
}
// _cuda_stream_wait_event(device of the stream, stream, event of any device)
PyObject* stream_wait_event(PyObject*, PyObject* args) {
  return with_three(args, [](auto which, auto event) {
    ok(driver.stream_wait_event(as_stream(which), as_event(event), 0), "waiting for an event");
    return none();
  });
}
PyObject* stream_priorities(PyObject*, PyObject*) {
  return guarded([&]() -> PyObject* {
    use(chosen);
    int least, greatest;
    ok(driver.stream_priorities(&least, &greatest), "asking for priorities");
    return Py_BuildValue("ii", least, greatest);
  });
}
// _cuda_event_new(device, flags)
PyObject* event_new(PyObject*, PyObject* args) {
  return with_two(args, [](int, auto flags) {
    Event made;
    ok(driver.event_create(&made, unsigned(flags)), "making an event");
    return PyLong_FromVoidPtr(made);
  });
}
PyObject* event_delete(PyObject*, PyObject* o) {
  return with_one(o, [](auto handle) {
    driver.event_destroy(as_event(handle));
    return none();
  });
}
// _cuda_event_record(device, event, stream)
PyObject* event_record(PyObject*, PyObject* args) {
  return with_three(args, [](auto event, auto which) {
    ok(driver.event_record(as_event(event), as_stream(which)), "recording an event");
    return none();
  });
}
PyObject* event_synchronize(PyObject*, PyObject* args) {
  return with_two(args, [](int device, auto handle) {
    waiting(device, [&] { return driver.event_wait(as_event(handle)); });
    return none();
  });
}
PyObject* event_query(PyObject*, PyObject* args) {
  return with_two(args, [](int, auto handle) {
    Result result = driver.event_query(as_event(handle));
    if (result != kNotReady) ok(result, "asking an event");
    return PyBool_FromLong(result == 0);
  });
}
PyObject* event_elapsed(PyObject*, PyObject* args) {
  return with_three(args, [](auto start, auto end) {
    float milliseconds = 0;
    ok(driver.event_elapsed(&milliseconds, as_event(start), as_event(end)),
       "measuring the time between events");
    return PyFloat_FromDouble(milliseconds);
  });
}

// ---- graphs: the address of a Capture

Capture& as_capture(unsigned long long handle) { return *reinterpret_cast<Capture*>(handle); }

PyObject* graph_new(PyObject*, PyObject*) { return PyLong_FromVoidPtr(new Capture); }
PyObject* graph_delete(PyObject*, PyObject* o) {
  return with_one(o, [](auto handle) {
    reset(as_capture(handle));
    delete &as_capture(handle);
    return none();
  });
}
PyObject* graph_reset(PyObject*, PyObject* o) {
  return with_one(o, [](auto handle) {
    reset(as_capture(handle));
    return none();
  });
}
// _cuda_graph_begin(graph, pool, mode)
PyObject* graph_begin(PyObject*, PyObject* args) {
  unsigned long long handle;
  long long pool;
  int mode;
  if (!PyArg_ParseTuple(args, "KLi", &handle, &pool, &mode)) return nullptr;
  return guarded([&]() -> PyObject* {
    begin_capture(as_capture(handle), pool, mode);
    return none();
  });
}
PyObject* graph_end(PyObject*, PyObject* o) {
  return with_one(o, [](auto handle) {
    end_capture(as_capture(handle));
    return none();
  });
}
// _cuda_graph_register(graph, generator, which the caller keeps)
PyObject* graph_register(PyObject*, PyObject* args) {
  unsigned long long handle;
  PyObject* o;
  if (!PyArg_ParseTuple(args, "KO", &handle, &o)) return nullptr;
  return guarded([&]() -> PyObject* {
    if (!is_generator(o))
      fail_as(PyExc_TypeError, "CUDAGraph.register_generator_state: expected a Generator, got ",
              Py_TYPE(o)->tp_name);
    as_capture(handle).generators.push_back(reinterpret_cast<Generator*>(o));
    return none();
  });
}
// _cuda_graph_replay(graph, (seed, how far it is beyond the recording) of each source of numbers)
PyObject* graph_replay(PyObject*, PyObject* args) {
  unsigned long long handle, seed, further;
  PyObject* given;
  if (!PyArg_ParseTuple(args, "KO!", &handle, &PyTuple_Type, &given)) return nullptr;
  std::vector<Drawing> sources;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(given); i++) {
    if (!PyArg_ParseTuple(PyTuple_GET_ITEM(given, i), "KK", &seed, &further)) return nullptr;
    sources.push_back({seed, further});
  }
  return guarded([&]() -> PyObject* {
    replay(as_capture(handle), sources);
    return none();
  });
}
// (nodes, whether random numbers are drawn, the driver's graph)
PyObject* graph_facts(PyObject*, PyObject* o) {
  return with_one(o, [](auto handle) {
    Capture& of = as_capture(handle);
    size_t nodes = 0;
    if (of.graph) ok(driver.graph_nodes(of.graph, nullptr, &nodes), "counting a graph's nodes");
    return Py_BuildValue("nOK", Py_ssize_t(nodes), of.random.empty() ? Py_False : Py_True,
                         reinterpret_cast<unsigned long long>(of.graph));
  });
}
PyObject* graph_capturing(PyObject*, PyObject*) {
  return guarded([&]() -> PyObject* {
    if (!is_started() || !stream_of(chosen)) return new_reference(Py_False);
    use(chosen);
    return PyBool_FromLong(is_capturing(stream));
  });
}
PyObject* pool_new(PyObject*, PyObject*) { return PyLong_FromLongLong(new_pool()); }

// ---- memory

PyObject* memory_stats(PyObject*, PyObject* o) {
  long device = PyLong_AsLong(o);
  if (device == -1 && PyErr_Occurred()) return nullptr;
  DeviceMemoryStats s{};
  if (device >= 0 && device < device_count()) s = device_memory_stats(int(device));
  return Py_BuildValue("{s:L,s:L,s:L,s:L,s:L,s:L,s:L,s:L,s:L,s:L,s:L,s:L}", "allocated",
                       s.allocated, "peak_allocated", s.peak_allocated, "reserved", s.reserved,
                       "peak_reserved", s.peak_reserved, "blocks", s.blocks, "allocations",
                       s.allocations, "frees", s.frees, "segments", s.segments,
                       "segment_allocations", s.segment_allocations, "segment_frees",
                       s.segment_frees, "retries", s.retries, "failures", s.failures);
}
PyObject* memory_reset_peak(PyObject*, PyObject* o) {
  return with_device(o, [](int device) {
    reset_peak_device_memory(device);
    return none();
  });
}
// Of all devices.
PyObject* memory_empty(PyObject*, PyObject*) {
  return guarded([&]() -> PyObject* {
    for (int i = 0; i < device_count(); i++) empty_device_cache(i);
    return none();
  });
}
// _cuda_memory_limit(device, bytes)
PyObject* memory_limit(PyObject*, PyObject* args) {
  int device;
  long long bytes;
  if (!PyArg_ParseTuple(args, "iL", &device, &bytes)) return nullptr;
  return guarded([&]() -> PyObject* {
    check_device(device);
    limit_device_memory(device, bytes);
    return none();
  });
}
PyObject* memory_info(PyObject*, PyObject* o) {
  return with_device(o, [](int device) {
    use(device);
    size_t free, total;
    ok(driver.memory_info(&free, &total), "asking for the device's memory");
    return Py_BuildValue("nn", Py_ssize_t(free), Py_ssize_t(total));
  });
}
PyObject* record_stream(PyObject*, PyObject* args) {
  PyObject* o;
  int device;
  unsigned long long handle;
  if (!PyArg_ParseTuple(args, "O!iK", &TensorType, &o, &device, &handle)) return nullptr;
  use_on_stream(as_tensor(o)->storage->data, device, as_stream(handle));
  return none();
}

// Whether copies between pinned memory and devices go on while the program does, from now on in this
// thread; what it was.
PyObject* let_copies_go_on(PyObject*, PyObject* o) {
  return PyBool_FromLong(std::exchange(copies_go_on, o == Py_True));
}

PyObject* host_stats(PyObject*, PyObject*) {
  HostMemoryStats s = host_memory_stats();
  return Py_BuildValue("{s:L,s:L,s:L,s:L,s:L,s:L,s:L,s:L,s:L,s:L}", "allocated", s.allocated,
                       "peak_allocated", s.peak_allocated, "reserved", s.reserved, "peak_reserved",
                       s.peak_reserved, "blocks", s.blocks, "allocations", s.allocations, "frees",
                       s.frees, "segments", s.segments, "segment_allocations",
                       s.segment_allocations, "segment_frees", s.segment_frees);
}
PyObject* host_reset_peak(PyObject*, PyObject*) {
  reset_peak_host_memory();
  return none();
}
PyObject* is_forked(PyObject*, PyObject*) { return PyBool_FromLong(forked); }

// _cuda_pinned(like): an uninitialised tensor of the host in memory that the device reads.
PyObject* pinned(PyObject*, PyObject* o) {
  return guarded([&]() -> PyObject* {
    if (!is_tensor(o)) fail_as(PyExc_TypeError, "_cuda_pinned expects a tensor");
    const Tensor* t = as_tensor(o);
    int64_t bytes = t->numel * itemsize(t->dtype);
    void* data = allocate_pinned(size_t(bytes));
    check(data, "pin_memory: the system has no ", bytes, " bytes that can be pinned");
    PyObject* owner = PyCapsule_New(
        data, nullptr, [](PyObject* c) { release_pinned(PyCapsule_GetPointer(c, nullptr)); });
    if (!owner) throw PythonError{};
    Var like = empty_like(t, t->dtype, Device{Device::Meta});
    Var made =
        wrap_storage(foreign_storage(data, bytes, owner), t->sizes, like->strides, 0, t->dtype);
    return reinterpret_cast<PyObject*>(made.release());
  });
}
PyObject* pinned_query(PyObject*, PyObject* o) {
  return PyBool_FromLong(is_tensor(o) && is_pinned(as_tensor(o)->storage->data));
}

// ---- what there is

PyObject* kernels(PyObject*, PyObject*) {
  int count;
  const KernelState* all = kernel_states(&count);
  PyObject* list = PyList_New(0);
  for (int i = 0; list && i < count; i++) {
    PyObject* item = Py_BuildValue("sO", all[i].name, all[i].there ? Py_True : Py_False);
    if (!item || PyList_Append(list, item) < 0) Py_CLEAR(list);
    Py_XDECREF(item);
  }
  return list;
}
PyObject* set_tf32(PyObject*, PyObject* o) {
  int yes = PyObject_IsTrue(o);
  if (yes < 0) return nullptr;
  allow_tf32 = yes;
  return none();
}
// _cuda_set_cudnn(name of a switch, on)
PyObject* set_cudnn(PyObject*, PyObject* args) {
  const char* name;
  int on;
  if (!PyArg_ParseTuple(args, "sp", &name, &on)) return nullptr;
  CudnnSwitches& s = cudnn_switches;
  const std::pair<std::string_view, bool*> all[] = {
      {"allow_tf32", &s.tf32}, {"attention", &s.attention}, {"deterministic", &s.deterministic}};
  for (auto [own, value] : all)
    if (own == name) {
      *value = on;
      return none();
    }
  return PyErr_Format(PyExc_ValueError, "_cuda_set_cudnn: no switch is named %s", name);
}
PyObject* set_deterministic(PyObject*, PyObject* o) {
  int yes = PyObject_IsTrue(o);
  if (yes < 0) return nullptr;
  deterministic_algorithms = yes;
  return none();
}
PyObject* library_version(PyObject*, PyObject*) {
  return guarded([&]() -> PyObject* { return PyLong_FromLongLong(cudnn_version()); });
}
PyObject* compiler(PyObject*, PyObject*) {
  CompilerStats s = compiler_stats();
  return Py_BuildValue("{s:L,s:L,s:L}", "compiled", s.compiled, "from_disk", s.from_disk, "loaded",
                       s.loaded);
}

}  // namespace

PyMethodDef cuda_functions[] = {
    {"_cuda_open", open, METH_VARARGS, nullptr},
    {"_cuda_start", start_devices, METH_NOARGS, nullptr},
    {"_cuda_started", started, METH_NOARGS, nullptr},
    {"_cuda_chosen", get_chosen, METH_NOARGS, nullptr},
    {"_cuda_choose", choose, METH_O, nullptr},
    {"_cuda_enter", enter_device, METH_O, nullptr},
    {"_cuda_peer_access", peer_access, METH_VARARGS, nullptr},
    {"_cuda_properties", properties, METH_O, nullptr},
    {"_cuda_synchronize", synchronize, METH_O, nullptr},
    {"_cuda_stream_new", stream_new, METH_VARARGS, nullptr},
    {"_cuda_stream_get", stream_get, METH_O, nullptr},
    {"_cuda_stream_set", stream_set, METH_VARARGS, nullptr},
    {"_cuda_stream_synchronize", stream_synchronize, METH_VARARGS, nullptr},
    {"_cuda_stream_query", stream_query, METH_VARARGS, nullptr},
    {"_cuda_stream_wait_event", stream_wait_event, METH_VARARGS, nullptr},
    {"_cuda_stream_priorities", stream_priorities, METH_NOARGS, nullptr},
    {"_cuda_event_new", event_new, METH_VARARGS, nullptr},
    {"_cuda_event_delete", event_delete, METH_O, nullptr},
    {"_cuda_event_record", event_record, METH_VARARGS, nullptr},
    {"_cuda_event_synchronize", event_synchronize, METH_VARARGS, nullptr},
    {"_cuda_event_query", event_query, METH_VARARGS, nullptr},
    {"_cuda_event_elapsed", event_elapsed, METH_VARARGS, nullptr},
    {"_cuda_graph_new", graph_new, METH_NOARGS, nullptr},
    {"_cuda_graph_delete", graph_delete, METH_O, nullptr},
    {"_cuda_graph_reset", graph_reset, METH_O, nullptr},
    {"_cuda_graph_begin", graph_begin, METH_VARARGS, nullptr},
    {"_cuda_graph_end", graph_end, METH_O, nullptr},
    {"_cuda_graph_register", graph_register, METH_VARARGS, nullptr},
    {"_cuda_graph_replay", graph_replay, METH_VARARGS, nullptr},
    {"_cuda_graph_facts", graph_facts, METH_O, nullptr},
    {"_cuda_capturing", graph_capturing, METH_NOARGS, nullptr},
    {"_cuda_pool_new", pool_new, METH_NOARGS, nullptr},
    {"_cuda_memory_stats", memory_stats, METH_O, nullptr},
    {"_cuda_memory_reset_peak", memory_reset_peak, METH_O, nullptr},
    {"_cuda_memory_empty", memory_empty, METH_NOARGS, nullptr},
    {"_cuda_memory_limit", memory_limit, METH_VARARGS, nullptr},
    {"_cuda_memory_info", memory_info, METH_O, nullptr},
    {"_cuda_record_stream", record_stream, METH_VARARGS, nullptr},
    {"_cuda_pinned", pinned, METH_O, nullptr},
    {"_cuda_is_pinned", pinned_query, METH_O, nullptr},
    {"_cuda_copies_go_on", let_copies_go_on, METH_O, nullptr},
    {"_cuda_host_stats", host_stats, METH_NOARGS, nullptr},
    {"_cuda_host_reset_peak", host_reset_peak, METH_NOARGS, nullptr},
    {"_cuda_forked", is_forked, METH_NOARGS, nullptr},
    {"_cuda_kernels", kernels, METH_NOARGS, nullptr},
    {"_cuda_set_tf32", set_tf32, METH_O, nullptr},
    {"_cuda_set_deterministic", set_deterministic, METH_O, nullptr},
    {"_cuda_set_cudnn", set_cudnn, METH_VARARGS, nullptr},
    {"_cuda_cudnn_version", library_version, METH_NOARGS, nullptr},
    {"_cuda_compiler", compiler, METH_NOARGS, nullptr},
    {},
};

}  // namespace rl
