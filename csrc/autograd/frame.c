// Reading the interpreter's current frame without making a frame object. The layout belongs to
// CPython and changes between versions, so it is confined to this file.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#if PY_VERSION_HEX < 0x030e0000
#define Py_BUILD_CORE 1
#include <internal/pycore_frame.h>
#undef Py_BUILD_CORE
#define RL_FRAMES 1
#endif

#if PY_VERSION_HEX < 0x030c0000
#define PyUnstable_Code_GetExtra _PyCode_GetExtra
#define PyUnstable_Code_SetExtra _PyCode_SetExtra
#define PyUnstable_Eval_RequestCodeExtraIndex _PyEval_RequestCodeExtraIndex
#endif

static Py_ssize_t extra_index = -1;
static PyObject* package_folder = NULL;

int rl_set_package_folder(PyObject* folder) {
  if (extra_index < 0) extra_index = PyUnstable_Eval_RequestCodeExtraIndex(NULL);
  Py_INCREF(folder);
  Py_XSETREF(package_folder, folder);
  return extra_index < 0 ? -1 : 0;
}

// Marks on a code object: 1 the user's, 2 the package's own.
static int is_ours(PyCodeObject* code) {
  void* mark = NULL;
  PyUnstable_Code_GetExtra((PyObject*)code, extra_index, &mark);
  if (mark == NULL) {
    int ours = PyUnicode_Tailmatch(code->co_filename, package_folder, 0, PY_SSIZE_T_MAX, -1) == 1;
    mark = (void*)(size_t)(ours ? 2 : 1);
    if (PyUnstable_Code_SetExtra((PyObject*)code, extra_index, mark) < 0) PyErr_Clear();
  }
  return mark == (void*)2;
}

// Fills in up to `most` frames outside the package, innermost first; the innermost of all when there
// is none outside. Returns their number.
int rl_user_stack(PyCodeObject** codes, int* lastis, int most) {
  int count = 0;
  if (package_folder == NULL) return 0;
#ifdef RL_FRAMES
  PyThreadState* tstate = PyThreadState_Get();
#if PY_VERSION_HEX >= 0x030d0000
  _PyInterpreterFrame* frame = tstate->current_frame;
#else
  _PyInterpreterFrame* frame = tstate->cframe->current_frame;
#endif
  PyCodeObject* first = NULL;
  int first_lasti = 0;
  for (; frame != NULL && count < most; frame = frame->previous) {
#if PY_VERSION_HEX >= 0x030c0000
    if (frame->owner == FRAME_OWNED_BY_CSTACK || _PyFrame_IsIncomplete(frame)) continue;
#if PY_VERSION_HEX >= 0x030d0000
    PyCodeObject* code = (PyCodeObject*)frame->f_executable;
    if (!PyCode_Check(code)) continue;
#else
    PyCodeObject* code = frame->f_code;
#endif
#else
    if (_PyFrame_IsIncomplete(frame)) continue;
    PyCodeObject* code = frame->f_code;
#endif
    int at = _PyInterpreterFrame_LASTI(frame) * (int)sizeof(_Py_CODEUNIT);
    if (!is_ours(code)) {
      codes[count] = code;
      lastis[count++] = at;
    } else if (first == NULL) {
      first = code;
      first_lasti = at;
    }
  }
#else
  PyFrameObject* frame = PyEval_GetFrame();
  PyCodeObject* first = NULL;
  int first_lasti = 0;
  Py_XINCREF(frame);
  while (frame != NULL && count < most) {
    PyCodeObject* code = PyFrame_GetCode(frame);
    Py_DECREF(code);  // the frame keeps it
    if (!is_ours(code)) {
      codes[count] = code;
      lastis[count++] = PyFrame_GetLasti(frame);
    } else if (first == NULL) {
      first = code;
      first_lasti = PyFrame_GetLasti(frame);
    }
    Py_SETREF(frame, PyFrame_GetBack(frame));
  }
  Py_XDECREF(frame);
#endif
  if (count == 0 && first != NULL) {
    codes[0] = first;
    lastis[0] = first_lasti;
    count = 1;
  }
  return count;
}

PyCodeObject* rl_user_frame(int* lasti) {
  PyCodeObject* code = NULL;
  *lasti = 0;
  rl_user_stack(&code, lasti, 1);
  return code;
}
