// The extension module.
#include <cstring>

#include "autograd/structured.h"
#include "call/memory_format.h"
#include "call/registry.h"
#include "call/write.h"
#include "kernels/cpu/blas.h"
#include "kernels/cpu/parallel.h"
#include "python/cuda_api.h"
#include "python/module_type.h"
#include "python/op_object.h"
#include "python/overrides.h"
#include "python/scope.h"
#include "python/tensor_type.h"
#include "tensor/allocator.h"
#include "tensor/objects.h"

namespace rl {

extern PyMethodDef autograd_functions[];
extern PyMethodDef forward_functions[];
extern PyMethodDef autocast_functions[];
extern PyMethodDef batch_functions[];
extern PyMethodDef profile_functions[];
extern PyMethodDef generator_functions[];
extern PyMethodDef files_functions[];
extern PyMethodDef interop_functions[];
extern PyMethodDef dlpack_functions[];
extern PyMethodDef optim_functions[];
extern PyMethodDef gradient_functions[];
extern PyMethodDef scope_functions[];
extern PyMethodDef recording_functions[];
int add_node_type(PyObject* module);
int add_linalg_error(PyObject* module);
int add_function_type(PyObject* module);
PyObject* function_apply(PyObject*, PyObject* const* args, Py_ssize_t count);
PyObject* function_run(PyObject*, PyObject* const* args, Py_ssize_t count);
PyObject* return_type_of(PyObject*, PyObject* name);

namespace {

PyObject* get_memory_stats(PyObject*, PyObject*) {
  MemoryStats s = memory_stats();
  return Py_BuildValue("{s:L,s:L,s:L,s:L,s:L,s:L}", "allocated_bytes", (long long)s.allocated_bytes,
                       "peak_allocated_bytes", (long long)s.peak_allocated_bytes, "cached_bytes",
                       (long long)s.cached_bytes, "live_blocks", (long long)s.live_blocks,
                       "allocations", (long long)s.allocations, "system_allocations",
                       (long long)s.system_allocations);
}
PyObject* reset_peak(PyObject*, PyObject*) {
  reset_peak_memory_stats();
  Py_RETURN_NONE;
}
PyObject* empty_cache(PyObject*, PyObject*) {
  release_cached_blocks();
  Py_RETURN_NONE;
}
PyObject* get_num_threads(PyObject*, PyObject*) { return PyLong_FromLong(cpu::thread_count()); }
PyObject* set_num_threads(PyObject*, PyObject* n) {
  long count = PyLong_AsLong(n);
  if (count == -1 && PyErr_Occurred()) return nullptr;
  if (count < 1) {
    PyErr_Format(PyExc_RuntimeError, "set_num_threads expects a positive integer, got %ld", count);
    return nullptr;
  }
  cpu::set_thread_count(int(count));
  Py_RETURN_NONE;
}
PyObject* set_blas(PyObject*, PyObject* path) {
  const char* text = PyUnicode_AsUTF8(path);
  if (!text) return nullptr;
  cpu::set_blas_path(text);
  Py_RETURN_NONE;
}
PyObject* set_package_folder(PyObject*, PyObject* folder) {
  if (!PyUnicode_Check(folder) || rl_set_package_folder(folder) < 0) {
    PyErr_SetString(PyExc_RuntimeError, "cannot register the package folder");
    return nullptr;
  }
  Py_RETURN_NONE;
}
// Ops and the types of this module say from now on that they are of a package of this name.
PyObject* set_package_name(PyObject* module, PyObject* text) {
  const char* given = PyUnicode_AsUTF8(text);
  if (!given) return nullptr;
  const char* name = strdup(given);  // for good, as the names of types
  PyObject *key, *value;
  for (Py_ssize_t at = 0; PyDict_Next(PyModule_GetDict(module), &at, &key, &value);) {
    auto* type = reinterpret_cast<PyTypeObject*>(value);
    if (!PyType_Check(value) || PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE)) continue;
    size_t known = std::strlen(package_name);
    if (std::strncmp(type->tp_name, package_name, known) == 0 && type->tp_name[known] == '.')
      type->tp_name = strdup(concat(name, type->tp_name + known).c_str());
  }
  package_name = name;
  Py_RETURN_NONE;
}
PyObject* get_default_dtype(PyObject*, PyObject*) {
  return new_reference(dtype_object(default_dtype()));
}
PyObject* set_default(PyObject*, PyObject* d) {
  return guarded([&]() -> PyObject* {
    DType value = dtype_value(d);
    if (!is_floating(value))
      fail_as(PyExc_TypeError, "only floating-point types are supported as the default type, got ",
              name(value));
    if (is_float8(value))
      fail_as(PyExc_TypeError, "couldn't find storage object ", info(value).tensor_name,
              "Storage: a float8 can't be the default type");
    set_default_dtype(value);
    Py_RETURN_NONE;
  });
}
PyObject* promote_types(PyObject*, PyObject* args) {
  PyObject *a, *b;
  if (!PyArg_ParseTuple(args, "OO:promote_types", &a, &b)) return nullptr;
  return guarded([&]() -> PyObject* {
    return new_reference(dtype_object(promote(dtype_value(a), dtype_value(b))));
  });
}
PyObject* check_device_of(PyObject*, PyObject* args) {
  const char* op;
  PyObject* device;
  if (!PyArg_ParseTuple(args, "sO", &op, &device)) return nullptr;
  return guarded(
      [&]() -> PyObject* { return device_object(ready_device(device_value(device), op)); });
}
PyObject* get_default_device(PyObject*, PyObject*) {
  return guarded([&]() -> PyObject* { return device_object(default_device()); });
}
PyObject* set_default_device_to(PyObject*, PyObject* o) {
  return guarded([&]() -> PyObject* {
    ready_device(device_value(o), "set_default_device");
    set_default_device(device_value(o));
    Py_RETURN_NONE;
  });
}
PyObject* set_parameter_type(PyObject*, PyObject* type) {
  if (!PyType_Check(type)) Py_RETURN_NONE;
  Py_INCREF(type);
  parameter_type = reinterpret_cast<PyTypeObject*>(type);
  Py_RETURN_NONE;
}
PyObject* set_structured_type(PyObject*, PyObject* type) {
  if (!PyType_Check(type)) Py_RETURN_NONE;
  Py_INCREF(type);
  structured_type = reinterpret_cast<PyTypeObject*>(type);
  Py_RETURN_NONE;
}
// _write_out(out, result, name): out, which has the result's elements now.
PyObject* write_out_of(PyObject*, PyObject* args) {
  PyObject *out, *result;
  const char* name;
  if (!PyArg_ParseTuple(args, "OOs", &out, &result, &name)) return nullptr;
  return guarded([&]() -> PyObject* {
    for (PyObject* o : {out, result})
      if (!is_tensor(o))
        fail_as(PyExc_TypeError, name, "(): argument 'out' must be Tensor, not ",
                Py_TYPE(o)->tp_name);
    write_out(reinterpret_cast<Tensor*>(out), Var(reinterpret_cast<Tensor*>(result)), name);
    Py_INCREF(out);
    return out;
  });
}
// Methods written in Python join the type's dict.
PyObject* add_tensor_methods(PyObject*, PyObject* dict) {
  if (!PyDict_Check(dict)) {
    PyErr_SetString(PyExc_TypeError, "expected a dict");
    return nullptr;
  }
  if (PyDict_Update(TensorType.tp_dict, dict) < 0) return nullptr;
  PyType_Modified(&TensorType);
  Py_RETURN_NONE;
}
PyObject* add_node_methods(PyObject*, PyObject* dict) {
  if (!PyDict_Check(dict)) {
    PyErr_SetString(PyExc_TypeError, "expected a dict");
    return nullptr;
  }
  if (PyDict_Update(NodeType.tp_dict, dict) < 0) return nullptr;
  PyType_Modified(&NodeType);
  Py_RETURN_NONE;
}
PyObject* set_formats(PyObject*, PyObject* args) {
  PyObject* formats[kMemoryFormats];
  if (!PyArg_ParseTuple(args, "OOOO", &formats[0], &formats[1], &formats[2], &formats[3]))
    return nullptr;
  set_memory_formats(formats);
  Py_RETURN_NONE;
}

PyMethodDef functions[] = {
    {"memory_stats", get_memory_stats, METH_NOARGS,
     "The allocator's figures.\n\n"
     ">>> kept = torch.ones(1024)\n"
     ">>> torch.memory_stats()[\"allocated_bytes\"] >= 4096\n"
     "True"},
    {"reset_peak_memory_stats", reset_peak, METH_NOARGS,
     "Starts the peak anew.\n\n"
     ">>> torch.reset_peak_memory_stats()\n"
     ">>> stats = torch.memory_stats()\n"
     ">>> stats[\"peak_allocated_bytes\"] == stats[\"allocated_bytes\"]\n"
     "True"},
    {"empty_cache", empty_cache, METH_NOARGS,
     "Gives cached memory back to the system.\n\n"
     ">>> torch.empty_cache()\n"
     ">>> torch.memory_stats()[\"cached_bytes\"]\n"
     "0"},
    {"get_num_threads", get_num_threads, METH_NOARGS,
     "Threads used by kernels.\n\n"
     ">>> torch.get_num_threads() >= 1\n"
     "True"},
    {"set_num_threads", set_num_threads, METH_O,
     "Sets the threads used by kernels.\n\n"
     ">>> before = torch.get_num_threads()\n"
     ">>> torch.set_num_threads(1)\n"
     ">>> torch.get_num_threads()\n"
     "1\n"
     ">>> torch.set_num_threads(before)"},
    {"_write_out", write_out_of, METH_VARARGS, nullptr},
    {"_set_blas_path", set_blas, METH_O, nullptr},
    {"_set_package_folder", set_package_folder, METH_O, nullptr},
    {"_set_package_name", set_package_name, METH_O, nullptr},
    {"get_default_dtype", get_default_dtype, METH_NOARGS,
     "The dtype of new float tensors.\n\n"
     ">>> torch.get_default_dtype()\n"
     "torch.float32"},
    {"set_default_dtype", set_default, METH_O,
     "Sets the dtype of new float tensors.\n\n"
     ">>> torch.set_default_dtype(torch.float64)\n"
     ">>> torch.tensor([0.5]).dtype\n"
     "torch.float64\n"
     ">>> torch.set_default_dtype(torch.float32)"},
    {"promote_types", promote_types, METH_VARARGS,
     "The dtype both convert to.\n\n"
     ">>> torch.promote_types(torch.int64, torch.float16)\n"
     "torch.float16"},
    {"get_default_device", get_default_device, METH_NOARGS,
     "Where new tensors lie.\n\n"
     ">>> torch.get_default_device()\n"
     "device(type='cpu')"},
    {"_set_default_device", set_default_device_to, METH_O, "Where new tensors of the thread lie."},
    {"_check_device", check_device_of, METH_VARARGS, "The device, ready for tensors; raises."},
    {"_return_type", return_type_of, METH_O, "The named tuple that an op returns, or None."},
    {"_set_memory_formats", set_formats, METH_VARARGS, nullptr},
    {"_set_parameter_type", set_parameter_type, METH_O, nullptr},
    {"_set_structured_type", set_structured_type, METH_O, nullptr},
    {"_add_tensor_methods", add_tensor_methods, METH_O, nullptr},
    {"_add_node_methods", add_node_methods, METH_O, nullptr},
    {"_registry", describe_registry, METH_NOARGS, "Every op: a list of dicts."},
    {"_run_formula", run_formula, METH_VARARGS, "What the kernel of a formula computes."},
    {"_formula_prelude", formula_prelude_text, METH_NOARGS, "Functions that formulas call."},
    {"_function_apply", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(function_apply)),
     METH_FASTCALL, nullptr},
    {"_function_run", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(function_run)),
     METH_FASTCALL, nullptr},
    {},
};

PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                          "rushlight._C",
                          "The native core of rushlight.",
                          -1,
                          functions,
                          nullptr,
                          nullptr,
                          nullptr,
                          nullptr};

}  // namespace
}  // namespace rl

PyMODINIT_FUNC PyInit__C() {
  using namespace rl;
  reserve_stack();
  PyObject* module = PyModule_Create(&definition);
  if (!module) return nullptr;
  PyObject* namespaces = PyDict_New();
  bool ok = namespaces && init_contexts() == 0 && add_object_types(module) == 0 &&
            add_tensor_type(module) == 0 && add_node_type(module) == 0 &&
            add_function_type(module) == 0 && add_module_type(module) == 0 &&
            add_scope_type(module) == 0 && add_linalg_error(module) == 0 &&
            PyModule_AddFunctions(module, scope_functions) == 0 &&
            PyModule_AddFunctions(module, autograd_functions) == 0 &&
            PyModule_AddFunctions(module, forward_functions) == 0 &&
            PyModule_AddFunctions(module, autocast_functions) == 0 &&
            PyModule_AddFunctions(module, batch_functions) == 0 &&
            PyModule_AddFunctions(module, profile_functions) == 0 &&
            PyModule_AddFunctions(module, generator_functions) == 0 &&
            PyModule_AddFunctions(module, files_functions) == 0 &&
            PyModule_AddFunctions(module, interop_functions) == 0 &&
            PyModule_AddFunctions(module, dlpack_functions) == 0 &&
            PyModule_AddFunctions(module, optim_functions) == 0 &&
            PyModule_AddFunctions(module, gradient_functions) == 0 &&
            PyModule_AddFunctions(module, recording_functions) == 0 &&
            PyModule_AddFunctions(module, override_functions) == 0 &&
            PyModule_AddFunctions(module, cuda_functions) == 0 &&
            add_ops(TensorType.tp_dict, namespaces) == 0 &&
            PyModule_AddObject(module, "_namespaces", namespaces) == 0;
  if (!ok) {
    Py_XDECREF(namespaces);
    Py_DECREF(module);
    return nullptr;
  }
  PyType_Modified(&TensorType);
  return module;
}
